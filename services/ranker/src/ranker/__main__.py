"""Wires ranker together: the service, or `rebuild` and `gc`, which do their work and end."""

import asyncio
import json
import logging
import sys
from dataclasses import asdict
from gc import set_threshold

from ranker import commands
from ranker.announce import announce
from ranker.archive.past import ArchivedPast
from ranker.archive.postgres import PACKAGE as ARCHIVE_PACKAGE
from ranker.archive.postgres import SCHEMA as ARCHIVE_SCHEMA
from ranker.archive.postgres import Shelf
from ranker.archive.running import Archiving, Sealing
from ranker.domain.seals import Rhythm
from ranker.gc import Collection, collect
from ranker.hooks.running import Seen, webhooks
from ranker.http import application
from ranker.http.acts import acts
from ranker.http.audit import audit
from ranker.live import Live
from ranker.metrics import RankerMetrics
from ranker.postgres import Reader, read_models
from ranker.service import Announcements, Confirmations, Decisions, Duels, Milestones, News, Ranker
from ranker.settings import Settings, load
from shared import lifecycle
from shared.blobs import Blobs
from shared.clock import now
from shared.errors import Failed
from shared.file_limit import FILES_MIN, file_limit, streams_max
from shared.http import BodyLimit, serve
from shared.lifecycle import Life, until_first
from shared.metrics import LogMetrics, Metered, MonitorMetrics
from shared.nats.blobs import NatsBlobs
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.monitor import LogMonitor
from shared.nats.streams import ensure
from shared.outages import Outage
from shared.postgres import Fenced, WriteProbe, migrate, pool
from shared.reader_authentication import ReaderAuthentication
from shared.signing import load_key, public_key

# Its number grows when what a table means changes; the new one is folded from event 1.
SCHEMA = "rm_ranker_v7"
MIGRATED = (("shared", "accounts"), ("ranker", SCHEMA), (ARCHIVE_PACKAGE, ARCHIVE_SCHEMA))
POOL_MAX = 8
# Another instance writes: this one waits for it to go.
STANDBY_S = 5.0
WATCH_S = 1.0
# Everything here is a GET.
BODY_BYTES_MAX = 16 * 1024
PART, PROJECTION = "read models", "projection"
# A replay makes and drops millions of values without cycles: looking through them for some every
# 700 took a tenth of its time (60 k events, two cores, Python 3.11, 2026-11).
GARBAGE_MIN = 50_000

logger = logging.getLogger(__name__)


async def _let_go(life: Life, news: News) -> None:
    """When the process is to end, nobody waits for news any more; this itself never ends."""
    await life.stopping.wait()
    news.end()
    await asyncio.Event().wait()


async def _rank(settings: Settings, life: Life, log: NatsLog, news: News, blobs: Blobs) -> None:
    """Project for ever; when Postgres goes away, go on from the checkpoint once it is back."""
    metrics, outage = RankerMetrics(lambda: news.seq), Outage(PART, life.ail)
    while True:
        try:
            async with read_models(settings.postgres_dsn, SCHEMA) as models:
                await models.check_writable()
                outage.end()
                decisions = Decisions(log, models, blobs, metrics, settings.wanted())
                wanted = settings.wanted()
                duels = Duels(log, models, wanted, is_on=settings.duels)
                confirmations = Confirmations(log, models, wanted, is_on=settings.confirmations)
                podium_jobs = (duels, confirmations)
                announcing = Announcements(log, models, podium_jobs=podium_jobs)
                milestones = Milestones(log, models)
                ranker = Ranker(decisions, announcing, news, milestones, *podium_jobs)
                await ranker.run()
        except Failed as failed:
            await outage.wait(failed)
        except Fenced as fenced:
            logger.warning("standing by: %s", fenced)
            await asyncio.sleep(STANDBY_S)


async def _watch(life: Life, news: News) -> None:
    """Tell on /healthz while the projection stands before an event that it cannot fold."""
    # Once the process is to end, `news` lets nobody wait.
    while not news.is_over:
        parked = news.parked
        life.ail(PROJECTION, None if parked is None else f"event {parked.seq}: {parked.error}")
        await news.wait(WATCH_S)
    await asyncio.Event().wait()


def _sealing(settings: Settings) -> Sealing | None:
    if settings.seal_key is None:
        return None
    rhythm = Rhythm(settings.seal_events, settings.seal_s)
    return Sealing(load_key(settings.seal_key), rhythm)


async def _run(settings: Settings, life: Life) -> None:
    dsn, sealing = settings.postgres_dsn, _sealing(settings)

    async def prepare() -> None:
        for package, schema in MIGRATED:
            await asyncio.to_thread(migrate, dsn, package, schema)

    await prepare()
    nc = await connect(settings.nats_url, "ranker", closed=life.stopping.set)
    await ensure(nc, settings.replicas)
    monitor = LogMonitor(nc, "ranker", life.ail)
    log, bus, blobs, news, live = NatsLog(nc, monitor), NatsBus(nc), NatsBlobs(nc), News(), Live()
    LogMetrics("ranker", log)
    MonitorMetrics("ranker", monitor)
    archiving = Archiving(log, dsn, life)
    async with pool(dsn, 1, POOL_MAX, SCHEMA) as connections:
        reader, shelf = Reader(connections), Shelf(connections)
        app = application(reader, news, live, log.last, blobs)
        app.state.past = ArchivedPast(shelf, reader)
        app.state.histories.bodies = shelf
        acts(app, shelf, news)
        audit(app, shelf, public_key(sealing.key) if sealing else None)
        app.state.histories.streams_max = streams_max(file_limit())
        authenticated = ReaderAuthentication(BodyLimit(app, BODY_BYTES_MAX), settings.reader_key)
        metered, (host, port) = Metered(authenticated, "ranker"), settings.listen
        seen = Seen(log, reader, news, dsn, SCHEMA)

        async def read_log() -> None:
            await monitor.until_whole()
            await until_first(
                _rank(settings, life, log, news, blobs),
                archiving.keep(),
                webhooks(seen, is_local=settings.webhooks_local),
                archiving.seal(sealing),
            )

        await until_first(
            monitor.watch(),
            read_log(),
            serve(metered, host, port, life.stopping, settings.http_limits),
            _watch(life, news),
            WriteProbe(connections).run(life.ail, prepare),
            announce(settings.announce_url, dsn, bus),
            live.watch_agents(bus),
            live.watch_progress(bus),
            live.watch_queues(bus),
            _let_go(life, news),
        )
    await nc.close()


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
    set_threshold(GARBAGE_MIN)
    if sys.argv[1:] in (["gc", "--dry-run"], ["gc", "--apply"]):
        sys.exit(gc(load(), is_trial=sys.argv[2] == "--dry-run"))
    if sys.argv[1:]:
        sys.exit(commands.main(sys.argv[1:], SCHEMA))
    sys.exit(lifecycle.main("ranker", load, _run, files_min=FILES_MIN))
