"""Wires ranker together: the service, or `rebuild`, which compares and ends."""

import asyncio
import json
import sys
import uuid
from dataclasses import asdict

from ranker.http import application
from ranker.live import Live
from ranker.metrics import RankerMetrics
from ranker.postgres import Reader, ReadModels
from ranker.rebuild import Comparison, compare
from ranker.service import News, Ranker
from ranker.settings import Settings, load
from shared import lifecycle
from shared.http import serve
from shared.lifecycle import Life, until_first
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import connect as open_connection
from shared.postgres import drop_schema, migrate, pool

SCHEMA = "rm_ranker_v1"
POOL_MAX = 8


async def _let_go(life: Life, news: News) -> None:
    """When the process is to end, nobody waits for news any more; this itself never ends."""
    await life.stopping.wait()
    news.end()
    await asyncio.Event().wait()


async def _run(settings: Settings, life: Life) -> None:
    dsn = settings.postgres_dsn
    migrate(dsn, "shared", "accounts")
    migrate(dsn, "ranker", SCHEMA)
    nc = await connect(settings.nats_url, "ranker", closed=life.stopping.set)
    await ensure(nc)
    bus, news, live = NatsBus(nc), News(), Live()
    async with (
        await open_connection(dsn, SCHEMA) as connection,
        pool(dsn, 1, POOL_MAX, SCHEMA) as connections,
    ):
        log = NatsLog(nc)
        ranker = Ranker(log, ReadModels(connection), RankerMetrics(), news)
        app = application(Reader(connections), news, live, log.last)
        await until_first(
            serve(app, settings.listen.host, settings.listen.port, life.stopping),
            ranker.run(),
            live.watch_agents(bus),
            live.watch_progress(bus),
            _let_go(life, news),
        )
    await nc.close()


async def _rebuild(settings: Settings) -> Comparison:
    dsn, schema = settings.postgres_dsn, f"rebuild_{uuid.uuid4().hex[:12]}"
    nc = await connect(settings.nats_url, "ranker-rebuild")
    try:
        migrate(dsn, "ranker", schema)
        async with (
            await open_connection(dsn, SCHEMA) as kept,
            await open_connection(dsn, schema) as fresh,
        ):
            metrics = RankerMetrics()
            return await compare(NatsLog(nc), ReadModels(kept), ReadModels(fresh), metrics)
    finally:
        drop_schema(dsn, schema)
        await nc.close()


def rebuild(settings: Settings) -> int:
    """Print how the live read models compare with fresh ones; 0 if equal, 1 if not."""
    found = asyncio.run(_rebuild(settings))
    said = {"is_equal": not found.differences, **asdict(found)}
    sys.stdout.write(json.dumps(said, default=str) + "\n")
    return 1 if found.differences else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["rebuild"]:
        sys.exit(rebuild(load()))
    sys.exit(lifecycle.main("ranker", load, _run))
