"""Webhooks and where they lead, for every test that asks."""

from collections.abc import AsyncIterator, Iterator

import pytest

from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import pool
from shared.servers.nats import NatsServer
from tests.ranker.hooked import Hooked
from tests.ranker.lives import begin
from tests.ranker.receiver import Receiver, receiving
from tests.ranker.running import migrated


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
async def hooked(own_nats: NatsServer, postgres_dsn: str) -> AsyncIterator[Hooked]:
    nc = await connect(own_nats.url, "test")
    await ensure(nc)
    log = NatsLog(nc)
    await begin(log)
    async with pool(migrated(postgres_dsn), 1, 3) as tables:
        yield Hooked(log, postgres_dsn, tables)
    await nc.close()
