"""Fixtures for webhooks and the read API."""

from collections.abc import AsyncIterator, Iterator

import pytest

from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.postgres import create_pool
from tests.ranker.webhook_platform import WebhookPlatform
from tests.support.lives import begin
from tests.support.reading import Reads, reading
from tests.support.receiver import Receiver, run_receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with run_receiver() as server:
        yield server


@pytest.fixture
async def hooked(nats_url: str, postgres_dsn: str) -> AsyncIterator[WebhookPlatform]:
    nc = await connect(nats_url, "test")
    await ensure_streams(nc)
    log = NatsLog(nc)
    await begin(log)
    async with create_pool(postgres_dsn, 1, 3) as tables:
        yield WebhookPlatform(log, postgres_dsn, tables)
    await nc.close()


@pytest.fixture
async def reads(postgres_dsn: str) -> AsyncIterator[Reads]:
    """The read API over a ranker that runs."""
    async with reading(postgres_dsn) as running:
        yield running
