"""Wires ingest together and runs it until SIGTERM."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import httpx
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool

from ingest import bootstrap, ranker_http
from ingest.app import add_routes, create_app
from ingest.bootstrap import Ingest, ingest
from ingest.http.cookies import site_cookies
from ingest.http.middleware import AllowedHostsMiddleware, RateLimitRules
from ingest.identity.access.feed import SNAPSHOT_NAME, AccessFeed, AccessState
from ingest.identity.http.authenticator import AuthConfig, Authenticator, Edge
from ingest.identity.login import oauth_http
from ingest.identity.login.cli_ids import CliIdLinking, pending_cli_ids
from ingest.identity.login.postgres import LoginStore
from ingest.identity.login.sign_in import Argon2Hasher
from ingest.popcorn.dependencies import Dependencies
from ingest.popcorn.publication import parse_repositories
from ingest.popcorn.read_client import ReadClient
from ingest.ports import Ports
from ingest.postgres import PostgresAccountStore, PostgresIdempotencyStore, PostgresWebhookStore
from ingest.ranker_http import RankerClient
from ingest.reads.limits import DownloadLimiter, StreamLimiter
from ingest.settings import Settings, load
from ingest.submissions.admission import AdmissionLimits, AdmissionMetrics
from ingest.webhooks.service import Webhooks
from shared import lifecycle
from shared.http import serve
from shared.lifecycle import FILES_MIN, Lifecycle, file_limit, run_until_first, streams_max
from shared.metrics import HttpMetricsMiddleware, LogMetrics
from shared.nats.blobs import NatsBlobStore, NatsSnapshots
from shared.nats.bus import NatsBus, NatsDeadLetters
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import LogMonitor, MonitorMetrics, ensure_streams
from shared.postgres import WriteProbe, await_migrations, create_pool
from shared.request_trace import TracingMiddleware
from shared.settings import LOOPBACK
from shared.signed_snapshots import SignedSnapshots
from shared.snapshots import FoldSnapshots, fold_digest
from shared.tracing import SpanRecorder

POOL_MAX = 8
SAVE_S_MAX = 5.0
SETTLE_S_MAX = 5.0


class Outside(NamedTuple):
    """What the application reaches beside the log."""

    connections: AsyncConnectionPool
    providers: httpx.AsyncClient
    ranker: RankerClient
    blobs: NatsBlobStore


def _build_app(
    settings: Settings, commands: Ingest, is_well: Callable[[], Awaitable[str]], outside: Outside
) -> FastAPI:
    connections, _, ranker, blobs = outside
    feed, people, tokens = commands.feed, commands.people, commands.tokens
    pending = pending_cli_ids(LoginStore(connections))
    linking = CliIdLinking(people, tokens, settings.autolink, pending)
    hashes = Argon2Hasher()
    logins = bootstrap.build_logins(settings, connections, outside.providers, linking, hashes)
    edge = Edge(settings.edge_token, feed, logins.sign_in.resolve_account, settings.edge_confirmed)
    cookies = site_cookies(settings.public_base)
    keys = AuthConfig(settings.operator_token, settings.names_believed, edge, cookies)
    auth = Authenticator(feed, people.store, tokens.usage, linking.claim, keys)
    rates = RateLimitRules(settings.rate_per_token, settings.rate_per_address)
    app = create_app(commands, auth, is_well, PostgresIdempotencyStore(connections), rates)
    webhook_store = PostgresWebhookStore(connections)
    webhooks = Webhooks(commands.boards.decisions, feed, webhook_store, settings.webhooks_local)
    popcorn = Dependencies(
        commands,
        auth,
        ReadClient(ranker),
        blobs,
        is_well,
        settings.profiler_gpu,
        streams=StreamLimiter(
            ranker, auth, streams_max(file_limit()), settings.streams_per_address
        ),
        downloads=DownloadLimiter(ranker, settings.downloads_per_address),
        problem_roots=settings.problem_folders,
        repositories=parse_repositories(settings.repositories),
        unchecked=settings.popcorn_unchecked,
    )
    add_routes(app, logins, webhooks, ranker, popcorn)
    if settings.names_believed or settings.autolink:
        app.add_middleware(AllowedHostsMiddleware, names=LOOPBACK)
    return app


async def _serve(app: FastAPI, commands: Ingest, settings: Settings, life: Lifecycle) -> None:
    """Compare the tables with the log, then serve: in an empty database every name is free."""
    # If the log cannot be read, requests report it, and the comparison is repeated later.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_S_MAX):
            await commands.account_tables.settle_at_start()
    metered = HttpMetricsMiddleware(app, "ingest")
    traced = TracingMiddleware(metered, life.spans) if settings.tracing else metered
    await serve(traced, *settings.listen, life.stopping, settings.http_limits)


async def _run(settings: Settings, life: Lifecycle) -> None:
    async def prepare() -> None:
        await asyncio.to_thread(await_migrations, settings.postgres_dsn, "shared", "accounts")

    await prepare()
    nc = await connect(settings.bus_login, "ingest", closed=life.stopping.set)
    await ensure_streams(nc, settings.replicas)
    async with (
        create_pool(settings.postgres_dsn, 1, POOL_MAX) as connections,
        ranker_http.open_client(settings.ranker_url, settings.reader_key) as client,
        oauth_http.open_client() as outside,
    ):
        monitor = LogMonitor(nc, "ingest", life.report_unhealthy)
        log, blobs, ranker = NatsLog(nc, monitor), NatsBlobStore(nc), RankerClient(client)
        snapshots = FoldSnapshots(
            log,
            SignedSnapshots(NatsSnapshots(nc), settings.bus_login),
            SNAPSHOT_NAME,
            fold_digest(AccessState),
            AccessState,
        )
        feed = AccessFeed(log, damage=lambda: monitor.damage, snapshots=snapshots)
        bounds = AdmissionLimits(
            queued_max=settings.queued_max,
            open_max=settings.open_max,
            asks_licence=settings.asks_licence,
        )
        account_store, dead_letters = PostgresAccountStore(connections), NatsDeadLetters(nc)
        ports = Ports(log, blobs, account_store, ranker, dead_letters)
        commands = ingest(
            *(ports, feed, bounds),
            settings.evaluation_limits,
            settings.wrong_codes_per_address,
        )
        LogMetrics("ingest", log)
        CertificateMetrics("ingest", settings.bus_login, nc)
        MonitorMetrics("ingest", monitor)
        AdmissionMetrics(commands.intake.admission)
        probe = WriteProbe(connections)

        async def is_well() -> str:
            if not nc.is_connected:
                return "the log does not respond"
            return monitor.problem or feed.why_unhealthy() or probe.trouble

        async def follow_access() -> None:
            await monitor.until_whole()
            await feed.run()

        repeats = PostgresIdempotencyStore(connections)
        app = _build_app(settings, commands, is_well, Outside(connections, outside, ranker, blobs))
        await run_until_first(
            monitor.watch(),
            follow_access(),
            commands.tokens.usage.save_forever(),
            commands.checks.progress.watch(NatsBus(nc)),
            probe.run(life.report_unhealthy, prepare),
            commands.account_tables.watch(lambda: probe.register, life.report_unhealthy),
            bootstrap.purge_expired(connections, repeats.purge),
            _serve(app, commands, settings, life),
        )
        # Store what the next start would otherwise compute again: the tokens used in the last
        # minute, and a snapshot, unless the log is unavailable, too.
        await commands.tokens.usage.save()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SAVE_S_MAX):
                await feed.save()
    await nc.close()


def _open_spans(settings: Settings) -> AbstractContextManager[SpanRecorder]:
    return lifecycle.open_recorder("ingest", is_on=settings.tracing)


def main() -> int:
    """Run the service, and return the exit code."""
    return lifecycle.run_service("ingest", load, _run, files_min=FILES_MIN, record=_open_spans)
