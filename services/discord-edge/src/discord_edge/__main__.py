"""Wires discord-edge together and runs it until SIGTERM."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

from discord_edge.bot.announcing import DiscordTown
from discord_edge.bot.client import Behind, EdgeBot
from discord_edge.bot.letters import DiscordMail
from discord_edge.bot.library import ask_twice, come_back_soon, turn_to
from discord_edge.bot.recalling import DiscordRecall
from discord_edge.bot.watching import Watching
from discord_edge.ingest_http import connected
from discord_edge.metrics import EdgeMetrics
from discord_edge.postgres import SCHEMA, PostgresErrands, PostgresLedger, PostgresPosts
from discord_edge.service.announcing import AGGS, CONSUMER, TARGET, Announcing
from discord_edge.service.asof import AsOf
from discord_edge.service.boards import Boards
from discord_edge.service.following import persist
from discord_edge.service.letters import Letters
from discord_edge.service.once import Saying
from discord_edge.service.pairing import Pairing
from discord_edge.service.sending import Sending
from discord_edge.service.sets import Publishing
from discord_edge.settings import PER_PROBLEM, Settings, load
from shared import lifecycle
from shared.errors import Failed
from shared.lifecycle import Life, until_first
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.monitor import LogMonitor
from shared.outbox import Act, Sender
from shared.postgres import PostgresOutbox, migrate, pool

POOL_MAX = 4


async def _run(settings: Settings, life: Life) -> None:
    await asyncio.to_thread(migrate, settings.postgres_dsn, "discord_edge", SCHEMA)
    come_back_soon()
    ask_twice()
    if settings.api_url:
        turn_to(settings.api_url)
    async with (
        pool(settings.postgres_dsn, 1, POOL_MAX, SCHEMA) as connections,
        connected(settings.ingest_url, settings.edge_token, settings.public_url) as api,
    ):
        boards = Boards(api)
        behind = Behind(
            api,
            boards,
            PostgresPosts(connections),
            settings.guild,
            settings.places,
            settings.staff,
            settings.threads == PER_PROBLEM,
        )
        bot, metrics = EdgeBot(behind), EdgeMetrics()
        Watching(bot, metrics)
        ledger = PostgresLedger(connections)
        town = DiscordTown(bot, settings.guild, ledger)
        bot.local = settings.local
        bot.pairing = Pairing(api, boards, town, ledger) if settings.public else None
        asof, mail = AsOf(api), DiscordMail(bot)
        saying = Saying(ledger, DiscordRecall(bot))
        letters = Letters(asof, boards, mail, ledger, saying)
        bot.sending = Sending(api, behind.posts, bot.following.begin, letters.refused)
        bot.publishing = Publishing(api, PostgresErrands(connections), ledger, letters)
        announcing = Announcing(asof, boards, town, ledger, saying, letters, settings.podiums)
        outbox = PostgresOutbox(connections)

        async def listen() -> None:
            act = metrics.telling(announcing.act)
            await _listen(settings.nats_url, life, announcing, act, outbox)

        await until_first(
            boards.run(),
            bot.run_until(settings.token, life),
            _tell(settings, town, listen),
        )


async def _tell(
    settings: Settings, town: DiscordTown, listen: Callable[[], Awaitable[None]]
) -> None:
    """Tell everybody what is said from now on, for ever; else forget where that had stopped."""
    if not settings.public:
        await _forget(settings)
        await asyncio.Event().wait()
    await town.found()
    # The bus may be away: who uses commands is not to notice.
    await persist(listen)


async def _listen(
    url: str, life: Life, announcing: Announcing, act: Act, outbox: PostgresOutbox
) -> None:
    """Act on one event after the other, for ever. Errors: Failed; Gap stops the process."""
    nc = await connect(url, "discord-edge")
    monitor = LogMonitor(nc, "discord-edge", life.ail)
    inbox = await NatsBus(nc).news(CONSUMER, *AGGS)
    try:
        sender = Sender(inbox, outbox, TARGET, act)

        async def send() -> None:
            await monitor.until_whole()
            await sender.run()

        await until_first(monitor.watch(), send(), announcing.tend())
    finally:
        await inbox.close()
        await nc.close()


async def _forget(settings: Settings) -> None:
    if not settings.nats_url:
        return
    with contextlib.suppress(Failed):
        nc = await connect(settings.nats_url, "discord-edge")
        try:
            await NatsBus(nc).forget(CONSUMER)
        finally:
            await nc.close()


if __name__ == "__main__":
    sys.exit(lifecycle.main("discord_edge", load, _run))
