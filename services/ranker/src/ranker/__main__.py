"""Wires ranker together: the service, or `rebuild` and `gc`, which do their work and end."""

import asyncio
import json
import logging
import sys
import uuid
from dataclasses import asdict

from ranker.announce import announce
from ranker.archive.postgres import PACKAGE as ARCHIVE_PACKAGE
from ranker.archive.postgres import SCHEMA as ARCHIVE_SCHEMA
from ranker.archive.postgres import Seals
from ranker.archive.running import Archiving, Sealing
from ranker.domain.seals import Rhythm
from ranker.gc import Collection, collect
from ranker.http import application
from ranker.http.audit import audit
from ranker.live import Live
from ranker.metrics import RankerMetrics
from ranker.postgres import Reader, read_models
from ranker.rebuild import Comparison, compare
from ranker.service import News, Ranker
from ranker.settings import Settings, load
from shared import lifecycle
from shared.clock import now
from shared.errors import Failed
from shared.http import serve
from shared.lifecycle import Life, until_first
from shared.metrics import LogMetrics, Metered
from shared.nats.blobs import NatsBlobs
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import drop_schema, migrate, pool
from shared.signing import load_key, public_key

# Its number grows when what a table means changes; the new one is folded from event 1.
SCHEMA = "rm_ranker_v2"
POOL_MAX = 8
RETRY_S = 0.5
PART = "read models"

logger = logging.getLogger(__name__)


async def _let_go(life: Life, news: News) -> None:
    """When the process is to end, nobody waits for news any more; this itself never ends."""
    await life.stopping.wait()
    news.end()
    await asyncio.Event().wait()


async def _rank(settings: Settings, life: Life, log: NatsLog, news: News) -> None:
    """Project for ever; when Postgres goes away, go on from the checkpoint once it is back."""
    metrics = RankerMetrics(lambda: news.seq)
    while True:
        try:
            async with read_models(settings.postgres_dsn, SCHEMA) as models:
                life.ail(PART, None)
                await Ranker(log, models, metrics, news, settings.wanted()).run()
        except Failed as failed:
            logger.warning("ranking waits: %s", failed)
            life.ail(PART, str(failed))
            await asyncio.sleep(RETRY_S)


def _sealing(settings: Settings) -> Sealing | None:
    if settings.seal_key is None:
        return None
    rhythm = Rhythm(settings.seal_events, settings.seal_s)
    return Sealing(load_key(settings.seal_key), rhythm)


async def _run(settings: Settings, life: Life) -> None:
    dsn, sealing = settings.postgres_dsn, _sealing(settings)
    await asyncio.to_thread(migrate, dsn, "shared", "accounts")
    await asyncio.to_thread(migrate, dsn, "ranker", SCHEMA)
    await asyncio.to_thread(migrate, dsn, ARCHIVE_PACKAGE, ARCHIVE_SCHEMA)
    nc = await connect(settings.nats_url, "ranker", closed=life.stopping.set)
    await ensure(nc, settings.replicas)
    log, bus, news, live = NatsLog(nc), NatsBus(nc), News(), Live()
    LogMetrics("ranker", log)
    archiving = Archiving(log, dsn, life)
    async with pool(dsn, 1, POOL_MAX, SCHEMA) as connections:
        app = application(Reader(connections), news, live, log.last, NatsBlobs(nc))
        audit(app, Seals(connections), public_key(sealing.key) if sealing else None)
        await until_first(
            serve(
                Metered(app, "ranker"), settings.listen.host, settings.listen.port, life.stopping
            ),
            _rank(settings, life, log, news),
            archiving.keep(),
            announce(settings.announce_url, dsn, bus),
            archiving.seal(sealing),
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
        async with read_models(dsn, SCHEMA) as kept, read_models(dsn, schema) as fresh:
            return await compare(NatsLog(nc), kept, fresh, RankerMetrics())
    finally:
        drop_schema(dsn, schema)
        await nc.close()


def rebuild(settings: Settings) -> int:
    """Print how the live read models compare with fresh ones; 0 if equal, 1 if not."""
    found = asyncio.run(_rebuild(settings))
    said = {"is_equal": not found.differences, **asdict(found)}
    sys.stdout.write(json.dumps(said, default=str) + "\n")
    return 1 if found.differences else 0


async def _collect(settings: Settings, *, is_trial: bool) -> Collection:
    nc = await connect(settings.nats_url, "ranker-gc")
    try:
        return await collect(NatsLog(nc), NatsBlobs(nc), now(), is_trial=is_trial)
    finally:
        await nc.close()


def gc(settings: Settings, *, is_trial: bool) -> int:
    """Print which blobs that no event names were, or would be, removed."""
    found = asyncio.run(_collect(settings, is_trial=is_trial))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] in (["gc", "--dry-run"], ["gc", "--apply"]):
        sys.exit(gc(load(), is_trial=sys.argv[2] == "--dry-run"))
    if sys.argv[1:] == ["rebuild"]:
        sys.exit(rebuild(load()))
    sys.exit(lifecycle.main("ranker", load, _run))
