"""Wires ingest together and runs it until SIGTERM."""

import asyncio
import contextlib
import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI

from ingest import domain, http, ranker_http
from ingest.http.edge import Arrive, Edge
from ingest.http.hosts import OwnHosts
from ingest.http.limits import Rates
from ingest.http.reads import Streams
from ingest.http.webhooks import webhooks
from ingest.http.who import Gate, Keys
from ingest.login import oauth_http, wiring
from ingest.login.argon import Hasher
from ingest.login.http import login
from ingest.login.service import Logins
from ingest.metrics import RoomMetrics, accounts_lost_gauge
from ingest.popcorn import popcorn
from ingest.popcorn.asking import Asking
from ingest.popcorn.parts import Parts
from ingest.popcorn.publishing import Sources
from ingest.popcorn.repositories import listed
from ingest.postgres import PostgresPeople, PostgresRepeats, PostgresWebhooks
from ingest.ranker_http import Ranker
from ingest.service import Ingest, ingest
from ingest.service.account_tables import ail_while_lost
from ingest.service.gate import AccessFeed
from ingest.service.linking import Linking
from ingest.service.ports import Ports, Reads
from ingest.service.room import Bounds
from ingest.service.snapshots import AccessSnapshots
from ingest.service.webhooks import Webhooks
from ingest.settings import LOOPBACK, Settings, load
from shared import events, leaderboards, lifecycle, wire
from shared.file_limit import FILES_MIN, file_limit, streams_max
from shared.http import serve
from shared.lifecycle import Life, until_first
from shared.metrics import LogMetrics, Metered, MonitorMetrics
from shared.nats.blobs import NatsBlobs
from shared.nats.connection import connect
from shared.nats.deadletters import NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.nats.monitor import LogMonitor
from shared.nats.snapshots import NatsSnapshots
from shared.nats.streams import ensure
from shared.postgres import WriteProbe, migrate, pool

POOL_MAX = 8
SAVE_S_MAX = 5.0
SETTLE_S_MAX = 5.0


class Behind(NamedTuple):
    """What the routes beside the API's own themes stand before."""

    logins: Logins
    hooks: Webhooks
    reads: Reads
    parts: Parts
    sources: Sources


def open_all(app: FastAPI, behind: Behind) -> None:
    """Let every route answer; what is added here is in docs/access.md, or a test fails."""
    gate = behind.parts.gate
    login(app, behind.logins, gate)
    app.include_router(webhooks(behind.hooks, gate))
    http.last(app, gate, behind.reads, behind.parts.streams)
    popcorn(app, behind.parts, behind.sources)


def _code() -> str:
    """Return the digest of the fold's own text, so that no change of it can be forgotten."""
    folders = (Path(domain.__file__).parent, Path(events.__file__).parent)
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    files += [Path(leaderboards.__file__), Path(wire.__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


async def _migrate(dsn: str) -> None:
    await asyncio.to_thread(migrate, dsn, "shared", "accounts")


def _measure(log: NatsLog, monitor: LogMonitor, commands: Ingest) -> None:
    LogMetrics("ingest", log)
    MonitorMetrics("ingest", monitor)
    RoomMetrics(commands.intake.room, commands.intake.queues)


def _gate(
    settings: Settings, feed: AccessFeed, commands: Ingest, link: Linking, arrive: Arrive
) -> Gate:
    edge = Edge(settings.edge_token, feed, arrive, settings.edge_staff)
    keys = Keys(settings.operator_token, settings.names_believed, edge)
    return Gate(feed, commands.people, commands.tokens, link, keys)


async def _answer(app: FastAPI, commands: Ingest, settings: Settings, life: Life) -> None:
    """Compare the tables with the log, then serve: in a new database every name is free."""
    # A log that cannot be read is told to whoever asks, and the comparison is made again later.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S_MAX):
            await commands.account_tables.settle_at_start()
    metered = Metered(app, "ingest")
    await serve(metered, *settings.listen, life.stopping, settings.http_limits)


async def _follow_access(monitor: LogMonitor, feed: AccessFeed) -> None:
    await monitor.until_whole()
    await feed.run()


async def _save(commands: Ingest, feed: AccessFeed) -> None:
    """Store what the next start would have to make again."""
    # Tokens that were used in the last minute.
    await commands.tokens.note()
    # Where the log is gone too, the next start folds from an older snapshot.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SAVE_S_MAX):
            await feed.save()


async def _watch_names(commands: Ingest, probe: WriteProbe, life: Life) -> None:
    """Find out for ever whether the names of participants were lost, and tell."""
    tell = ail_while_lost(life.ail, accounts_lost_gauge().set)
    await commands.account_tables.watch(lambda: probe.register, tell)


async def _run(settings: Settings, life: Life) -> None:
    prepare = partial(_migrate, settings.postgres_dsn)
    await prepare()
    nc = await connect(settings.nats_url, "ingest", closed=life.stopping.set)
    await ensure(nc, settings.replicas)
    async with (
        pool(settings.postgres_dsn, 1, POOL_MAX) as connections,
        ranker_http.client(settings.ranker_url, settings.reader_key) as client,
        oauth_http.client() as outside,
    ):
        monitor = LogMonitor(nc, "ingest", life.ail)
        log, register, ranker = NatsLog(nc, monitor), PostgresPeople(connections), Ranker(client)
        snapshots = AccessSnapshots(log, NatsSnapshots(nc), _code())
        feed = AccessFeed(log, damage=lambda: monitor.damage, snapshots=snapshots)
        blobs, letters = NatsBlobs(nc), NatsDeadLetters(nc)
        bounds = Bounds(settings.at_once_max, settings.waiting_max, settings.queued_max)
        commands = ingest(Ports(log, blobs, register, ranker, letters), feed, bounds)
        _measure(log, monitor, commands)

        probe = WriteProbe(connections)

        async def is_well() -> str:
            if not nc.is_connected:
                return "the log does not answer"
            return monitor.problem or feed.ill() or probe.trouble

        waits = wiring.waiting(connections)
        linking = Linking(commands.people, commands.tokens, settings.autolink, waits)
        arrive = wiring.vouching(connections, commands.people)
        gate = _gate(settings, feed, commands, linking, arrive)
        rates = Rates(settings.rate_per_token, settings.rate_per_address)
        repeats = PostgresRepeats(connections)
        app = http.application(commands, gate, is_well, repeats, rates)
        behind = wiring.Behind(
            connections, outside, commands.people, commands.tokens, linking, Hasher()
        )
        told = PostgresWebhooks(connections)
        hooks = Webhooks(commands.boards.decisions, feed, told, settings.names_believed)
        streams = Streams(ranker, gate, streams_max(file_limit()))
        asking, profiler_gpu = Asking(ranker), settings.profiler_gpu
        parts = Parts(commands, gate, asking, blobs, is_well, profiler_gpu, streams=streams)
        sources = Sources(settings.problem_folders, listed(settings.repositories))
        ways_in = wiring.logins(settings, behind)
        open_all(app, Behind(ways_in, hooks, ranker, parts, sources))
        if settings.names_believed or settings.autolink:
            app.add_middleware(OwnHosts, names=LOOPBACK)
        await until_first(
            monitor.watch(),
            _follow_access(monitor, feed),
            commands.tokens.noting(),
            probe.run(life.ail, prepare),
            _watch_names(commands, probe, life),
            wiring.purging(connections, repeats.purge),
            _answer(app, commands, settings, life),
        )
        await _save(commands, feed)
    await nc.close()


if __name__ == "__main__":
    sys.exit(lifecycle.main("ingest", load, _run, files_min=FILES_MIN))
