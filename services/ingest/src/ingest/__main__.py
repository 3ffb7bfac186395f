"""Wires ingest together and runs it until SIGTERM."""

import asyncio
import sys
from typing import NamedTuple

from fastapi import FastAPI

from ingest import http, ranker_http
from ingest.http.edge import Arrive, Edge
from ingest.http.hosts import OwnHosts
from ingest.http.limits import Rates
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
from ingest.service.webhooks import Webhooks
from ingest.settings import LOOPBACK, Settings, load
from shared import lifecycle
from shared.http import serve
from shared.lifecycle import Life, until_first
from shared.metrics import LogMetrics, Metered
from shared.nats.blobs import NatsBlobs
from shared.nats.connection import connect
from shared.nats.deadletters import NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import WriteProbe, migrate, pool

POOL_MAX = 8


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
    http.last(app, gate, behind.reads)
    popcorn(app, behind.parts, behind.sources)


def _edge(settings: Settings, feed: AccessFeed, arrive: Arrive) -> Edge:
    return Edge(settings.edge_token, feed, arrive, settings.edge_staff)


async def _watch_names(commands: Ingest, probe: WriteProbe, life: Life) -> None:
    """Find out for ever whether the names of participants were lost, and tell."""
    tell = ail_while_lost(life.ail, accounts_lost_gauge().set)
    await commands.account_tables.watch(lambda: probe.register, tell)


async def _run(settings: Settings, life: Life) -> None:
    async def prepare() -> None:
        await asyncio.to_thread(migrate, settings.postgres_dsn, "shared", "accounts")

    await prepare()
    nc = await connect(settings.nats_url, "ingest", closed=life.stopping.set)
    await ensure(nc, settings.replicas)
    async with (
        pool(settings.postgres_dsn, 1, POOL_MAX) as connections,
        ranker_http.client(settings.ranker_url, settings.reader_key) as client,
        oauth_http.client() as outside,
    ):
        log, register, ranker = NatsLog(nc), PostgresPeople(connections), Ranker(client)
        LogMetrics("ingest", log)
        feed = AccessFeed(log)
        blobs, letters = NatsBlobs(nc), NatsDeadLetters(nc)
        bounds = Bounds(settings.at_once_max, settings.waiting_max, settings.queued_max)
        commands = ingest(Ports(log, blobs, register, ranker, letters), feed, bounds)
        RoomMetrics(commands.intake.room, commands.intake.queues)

        probe = WriteProbe(connections)

        async def is_well() -> str:
            if not nc.is_connected:
                return "the log does not answer"
            return feed.ill() or probe.trouble

        waits = wiring.waiting(connections)
        linking = Linking(commands.people, commands.tokens, settings.autolink, waits)
        edge = _edge(settings, feed, wiring.vouching(connections, commands.people))
        keys = Keys(settings.operator_token, settings.names_believed, edge)
        gate = Gate(feed, commands.people, commands.tokens, linking, keys)
        rates = Rates(settings.rate_per_token, settings.rate_per_address)
        repeats = PostgresRepeats(connections)
        app = http.application(commands, gate, is_well, repeats, rates)
        people, tokens = commands.people, commands.tokens
        behind = wiring.Behind(connections, outside, people, tokens, linking, Hasher())
        told = PostgresWebhooks(connections)
        hooks = Webhooks(commands.boards.decisions, feed, told, settings.names_believed)
        parts = Parts(commands, gate, Asking(ranker), blobs, is_well, settings.profiler_gpu)
        sources = Sources(settings.problem_folders, listed(settings.repositories))
        ways_in = wiring.logins(settings, behind)
        open_all(app, Behind(ways_in, hooks, ranker, parts, sources))
        if settings.names_believed or settings.autolink:
            app.add_middleware(OwnHosts, names=LOOPBACK)
        host, port = settings.listen
        await commands.account_tables.settle_at_start()
        await until_first(
            feed.run(),
            commands.tokens.noting(),
            probe.run(life.ail, prepare),
            _watch_names(commands, probe, life),
            wiring.purging(connections, repeats.purge),
            serve(Metered(app, "ingest"), host, port, life.stopping),
        )
        # Tokens that were used in the last minute.
        await commands.tokens.note()
    await nc.close()


if __name__ == "__main__":
    sys.exit(lifecycle.main("ingest", load, _run))
