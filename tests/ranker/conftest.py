"""Webhooks and where they lead, for every test that asks."""

from collections.abc import AsyncIterator, Iterator

import pytest

from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import pool
from tests.ranker.hooked import Hooked
from tests.ranker.receiver import Receiver, receiving
from tests.support.lives import begin
from tests.support.reading import Reads, reading


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
async def hooked(nats_url: str, postgres_dsn: str) -> AsyncIterator[Hooked]:
    nc = await connect(nats_url, "test")
    await ensure(nc)
    log = NatsLog(nc)
    await begin(log)
    async with pool(postgres_dsn, 1, 3) as tables:
        yield Hooked(log, postgres_dsn, tables)
    await nc.close()


@pytest.fixture
async def reads(postgres_dsn: str) -> AsyncIterator[Reads]:
    """The read API over a ranker that runs."""
    async with reading(postgres_dsn) as found:
        yield found
