"""Wires ranker together and runs it until SIGTERM."""

import asyncio
import logging
import time
from contextlib import AbstractContextManager
from functools import partial

from ranker.archive.archiver import ArchiveService, SealConfig
from ranker.archive.postgres import PACKAGE as ARCHIVE_PACKAGE
from ranker.archive.postgres import SCHEMA as ARCHIVE_SCHEMA
from ranker.archive.postgres import ArchiveReader
from ranker.archive.scrubber import Scrubber
from ranker.archive.segments import SegmentSchedule
from ranker.domain.stored_log import SealInterval
from ranker.http import create_app
from ranker.http.access import ReadSources
from ranker.metrics import ArchiveMetrics, RankerMetrics
from ranker.postgres import SCHEMA, Reader, ReadModels, ReadsBetweenWrites, open_read_models
from ranker.releases.service import release, release_regularly
from ranker.retrieval.postgres import PACKAGE as TEXTS_PACKAGE
from ranker.retrieval.postgres import SCHEMA as TEXTS_SCHEMA
from ranker.retrieval.postgres import TextStore
from ranker.service.announcements import Announcements, Milestones
from ranker.service.contest_confirmations import ContestConfirmations
from ranker.service.contests import ContestStandings
from ranker.service.decisions import Decisions
from ranker.service.podium_jobs import Confirmations, Duels
from ranker.service.progress import Live, ProjectionProgress
from ranker.service.projection import Ranker
from ranker.service.retimes import Retimes
from ranker.settings import Settings, load, parse_prices
from ranker.webhooks.sender import announce
from ranker.webhooks.watcher import run_webhooks
from shared import lifecycle
from shared.blobs import BlobStore
from shared.errors import Failed
from shared.event_log import EventSource
from shared.health import Outage
from shared.http import BodyLimitMiddleware, serve
from shared.lifecycle import FILES_MIN, Lifecycle, file_limit, run_until_first, streams_max
from shared.metrics import HttpMetricsMiddleware, LogMetrics
from shared.nats.blobs import NatsBlobStore
from shared.nats.bus import NatsBus
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.nats.repair import LogRepair
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.shared_feed import SharedReadLog
from shared.nats.streams import LogMonitor, MonitorMetrics, ensure_streams
from shared.postgres import (
    CheckpointConflict,
    WriteProbe,
    await_migrations,
    create_pool,
    migrate,
)
from shared.reader import ReaderAuthentication
from shared.signing import load_key, public_key
from shared.tracing import SpanRecorder

# The schemas that follow from the log belong to ranker.
MIGRATED = (
    ("ranker", SCHEMA),
    (ARCHIVE_PACKAGE, ARCHIVE_SCHEMA),
    (TEXTS_PACKAGE, TEXTS_SCHEMA),
)
POOL_MAX = 8
# The log is sealed after so many events, or so much time.
SEAL_EVENTS, SEAL_S = 10_000, 86_400.0
# How often a slow comparison of the whole log with the archive begins.
SCRUB_S = 3600.0
# Another instance writes: this one waits for it to end.
STANDBY_S = 5.0
STANDBY_POLL_S = 0.1
# Only a search has a body: a source, as long as ingest lets a JSON body be.
BODY_BYTES_MAX = 128 * 1024
PART = "read models"

logger = logging.getLogger(__name__)


async def _end_progress(life: Lifecycle, progress: ProjectionProgress) -> None:
    """Wake everybody who waits on `progress` when the process stops; never returns itself."""
    await life.stopping.wait()
    progress.end()
    await asyncio.Event().wait()


async def _run_projection(
    settings: Settings,
    life: Lifecycle,
    log: SharedReadLog,
    progress: ProjectionProgress,
    blobs: BlobStore,
) -> None:
    """Run the projection for ever; after a Postgres outage go on from the checkpoint."""
    metrics, outage = RankerMetrics(lambda: progress.seq), Outage(PART, life.report_unhealthy)
    while True:
        try:
            async with open_read_models(settings.postgres_dsn, SCHEMA) as models:
                await models.check_writable()
                outage.end()
                demand, reads = settings.demand(), ReadsBetweenWrites(models)
                decisions = Decisions(log, models, blobs, metrics, demand, life.spans)
                duels = Duels(log, reads, demand, is_on=settings.duels)
                confirmations = Confirmations(log, reads, demand, is_on=settings.confirmations)
                podium_jobs = (duels, confirmations)
                retimes = Retimes(log, reads, is_on=settings.retimes)
                announcements = Announcements(log, reads, podium_jobs=podium_jobs)
                milestones = Milestones(log, reads)
                contest_confirmations = ContestConfirmations(
                    log, reads, ContestStandings(reads, progress)
                )
                ranker = Ranker(
                    *(decisions, announcements, progress, milestones, *podium_jobs, retimes),
                    contest_confirmations,
                )
                try:
                    await ranker.run()
                except CheckpointConflict as fenced:
                    logger.warning("standing by: %s", fenced)
                    await _stand_by(models, progress)
        except Failed as failed:
            await outage.wait(failed)


async def _stand_by(models: ReadModels, progress: ProjectionProgress) -> None:
    """Let another instance write for a while, and serve reads of what it writes."""
    until = time.monotonic() + STANDBY_S
    while time.monotonic() < until:
        progress.follow_checkpoint(await models.checkpoint())
        await asyncio.sleep(STANDBY_POLL_S)


def _load_seal_config(settings: Settings) -> SealConfig | None:
    if settings.seal_key is None:
        return None
    interval = SealInterval(SEAL_EVENTS, SEAL_S)
    return SealConfig(load_key(settings.seal_key), interval)


async def _serve_reads(settings: Settings, life: Lifecycle, sources: ReadSources) -> None:
    app = BodyLimitMiddleware(create_app(sources), BODY_BYTES_MAX)
    authenticated = ReaderAuthentication(app, settings.reader_key)
    metered, (host, port) = HttpMetricsMiddleware(authenticated, "ranker"), settings.listen
    await serve(metered, host, port, life.stopping)


async def _run(settings: Settings, life: Lifecycle) -> None:
    dsn, sealing = settings.postgres_dsn, _load_seal_config(settings)

    async def prepare() -> None:
        await asyncio.to_thread(await_migrations, dsn, "shared", "accounts")
        for package, schema in MIGRATED:
            await asyncio.to_thread(migrate, dsn, package, schema)

    await prepare()
    nc = await connect(settings.bus_login, "ranker", closed=life.stopping.set)
    await ensure_streams(nc, settings.replicas)
    monitor = LogMonitor(nc, "ranker", life.report_unhealthy)
    log, bus, blobs = SharedReadLog(nc, monitor), NatsBus(nc), NatsBlobStore(nc)
    progress, live = ProjectionProgress(), Live()
    LogMetrics("ranker", log)
    CertificateMetrics("ranker", settings.bus_login, nc)
    MonitorMetrics("ranker", monitor)
    archive = ArchiveService(log, dsn, life.report_unhealthy)
    scrubber = Scrubber(LogRepair(nc), dsn, SCRUB_S, life.report_unhealthy, archive.metrics)
    async with create_pool(dsn, 1, POOL_MAX, SCHEMA) as connections:
        reader = Reader(connections)
        read_sources = ReadSources(
            *(reader, progress, live, log.last, blobs),
            archive=ArchiveReader(connections),
            texts=TextStore(connections),
            seal_key=public_key(sealing.key) if sealing else None,
            scrub=lambda: scrubber.state,
            streams_max=streams_max(file_limit()),
            device_prices=parse_prices(settings.device_prices),
            releases=settings.releases,
        )

        async def read_log() -> None:
            await scrubber.newest_compared.wait()
            await monitor.until_whole()
            await run_until_first(
                _run_projection(settings, life, log, progress, blobs),
                archive.keep(),
                run_webhooks(settings, log, reader, progress),
                archive.seal(sealing),
            )

        await run_until_first(
            monitor.watch(),
            scrubber.run(),
            read_log(),
            _serve_reads(settings, life, read_sources),
            progress.report_parked(life.report_unhealthy),
            WriteProbe(connections).run(life.report_unhealthy, prepare),
            announce(settings.announce_url, dsn, bus),
            live.watch_agents(bus),
            live.watch_progress(bus),
            live.watch_queues(bus),
            _end_progress(life, progress),
            _release(settings, log, blobs),
            _keep_segments(settings, NatsSegmentedLog(nc), life, archive.metrics),
        )
    await nc.close()


async def _release(settings: Settings, log: EventSource, blobs: BlobStore) -> None:
    """Build releases at intervals, if the settings say so; never returns."""
    if settings.releases is None or not settings.releases_every_h:
        await asyncio.Event().wait()
        return
    folder, licence = settings.releases, settings.releases_licence
    build = partial(release, log, blobs, settings.postgres_dsn, folder, licence)
    await release_regularly(build, settings.releases_every_h)


def _open_spans(settings: Settings) -> AbstractContextManager[SpanRecorder]:
    return lifecycle.open_recorder("ranker", is_on=settings.tracing)


async def _keep_segments(
    settings: Settings, log: NatsSegmentedLog, life: Lifecycle, metrics: ArchiveMetrics
) -> None:
    """Export segments and truncate behind them, if the settings say so; never returns."""
    if not settings.segments or settings.seal_key is None:
        await asyncio.Event().wait()
        return
    key, report = load_key(settings.seal_key), life.report_unhealthy
    schedule = SegmentSchedule(
        log, settings.postgres_dsn, key, settings.truncate_days, metrics, report
    )
    await schedule.run()


def main() -> int:
    """Run the service, and return the exit code."""
    return lifecycle.run_service("ranker", load, _run, files_min=FILES_MIN, record=_open_spans)
