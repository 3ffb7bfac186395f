"""Wires discord-edge together and runs it until SIGTERM."""

import asyncio
import contextlib

from discord_edge.background import retry_until_done
from discord_edge.bot.discord_py import cap_reconnect_backoff, retry_lost_answers, use_discord_url
from discord_edge.client import EdgeBot
from discord_edge.metrics import BotMonitor, EdgeMetrics
from discord_edge.notifications.announcer import TARGET, TYPES, Announcer
from discord_edge.platform_api import connect_api
from discord_edge.postgres import SCHEMA
from discord_edge.settings import Settings, load
from shared import lifecycle
from shared.bus_keys.permissions import DISCORD_EDGE
from shared.errors import Failed
from shared.lifecycle import Lifecycle, run_until_first
from shared.nats.certificates import CertificateMetrics
from shared.nats.connection import connect
from shared.nats.reader import ReaderInbox, ReaderMonitor, forget_inbox
from shared.outbox import OutboxSender
from shared.postgres import PostgresOutbox, await_migrations, create_pool

POOL_MAX = 4


async def _run(settings: Settings, life: Lifecycle) -> None:
    await asyncio.to_thread(await_migrations, settings.postgres_dsn, "discord_edge", SCHEMA)
    cap_reconnect_backoff()
    retry_lost_answers()
    if settings.api_url:
        use_discord_url(settings.api_url)
    async with (
        create_pool(settings.postgres_dsn, 1, POOL_MAX, SCHEMA) as connections,
        connect_api(settings.ingest_url, settings.edge_token, settings.public_url) as api,
    ):
        bot, metrics = EdgeBot(settings, api, connections), EdgeMetrics()
        BotMonitor(bot, metrics)
        certificates = CertificateMetrics("discord-edge", settings.bus_login)
        announcer = Announcer(
            bot.messenger,
            bot.channels,
            has_podiums=settings.podiums,
            contests_channel=settings.contests,
        )
        act, outbox = metrics.watch_announcements(announcer.act), PostgresOutbox(connections)

        async def listen() -> None:
            """Act on one event after the other. Raises `Failed`; `Gap` stops the process."""
            certificates.nc = nc = await connect(settings.bus_login, "discord-edge")
            monitor = ReaderMonitor(nc, DISCORD_EDGE, life.report_unhealthy)
            inbox = ReaderInbox(nc, DISCORD_EDGE)
            sender = OutboxSender(inbox, outbox, TARGET, act, types=TYPES)

            async def send() -> None:
                await monitor.until_whole()
                await sender.run()

            try:
                await run_until_first(monitor.watch(), send(), announcer.run_periodic())
            finally:
                await inbox.close()
                await nc.close()

        async def announce() -> None:
            """Announce new events for ever, or forget where earlier announcements stopped."""
            if not settings.public:
                await _delete_consumer(settings)
                await asyncio.Event().wait()
            await bot.channels.ensure_exist()
            await retry_until_done(lambda: announcer.greet(settings.lobby))
            # Commands keep working while NATS is away.
            await retry_until_done(listen)

        await run_until_first(
            bot.leaderboards.run(), bot.run_until(settings.token, life), announce()
        )


async def _delete_consumer(settings: Settings) -> None:
    if not settings.nats_url:
        return
    with contextlib.suppress(Failed):
        nc = await connect(settings.bus_login, "discord-edge")
        try:
            await forget_inbox(nc, DISCORD_EDGE)
        finally:
            await nc.close()


def main() -> int:
    """Run the service, and return the exit code."""
    return lifecycle.run_service("discord_edge", load, _run)
