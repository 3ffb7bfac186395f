"""Wires discord-edge together and runs it until SIGTERM."""

import asyncio
import contextlib
import sys

from discord_edge.bot.announcing import DiscordTown
from discord_edge.bot.client import Behind, EdgeBot, turn_to
from discord_edge.ingest_http import connected
from discord_edge.postgres import SCHEMA, PostgresLedger, PostgresPosts
from discord_edge.service.announcing import AGGS, CONSUMER, TARGET, Announcing
from discord_edge.service.boards import Boards
from discord_edge.service.following import persist
from discord_edge.settings import Settings, load
from shared import lifecycle
from shared.errors import Failed
from shared.lifecycle import Life, until_first
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.outbox import Sender
from shared.postgres import PostgresOutbox, migrate, pool

POOL_MAX = 4


async def _run(settings: Settings, life: Life) -> None:
    await asyncio.to_thread(migrate, settings.postgres_dsn, "discord_edge", SCHEMA)
    if settings.api_url:
        turn_to(settings.api_url)
    async with (
        pool(settings.postgres_dsn, 1, POOL_MAX, SCHEMA) as connections,
        connected(settings.ingest_url, settings.edge_token) as api,
    ):
        boards = Boards(api)
        behind = Behind(
            api,
            boards,
            PostgresPosts(connections),
            settings.guild,
            settings.places,
            settings.staff,
        )
        bot = EdgeBot(behind)
        ledger = PostgresLedger(connections)
        town = DiscordTown(bot, settings.guild, ledger)
        announcing = Announcing(api, boards, town, ledger, settings.podiums)
        outbox = PostgresOutbox(connections)
        await until_first(
            boards.run(),
            bot.run_until(settings.token, life.stopping),
            _tell(settings, town, announcing, outbox),
        )


async def _tell(
    settings: Settings, town: DiscordTown, announcing: Announcing, outbox: PostgresOutbox
) -> None:
    """Tell everybody what is said from now on, for ever; else forget where that had stopped."""
    if not settings.public:
        await _forget(settings)
        await asyncio.Event().wait()
    await town.found()
    # The bus may be away: who uses commands is not to notice.
    await persist(lambda: _listen(settings.nats_url, announcing, outbox))


async def _listen(url: str, announcing: Announcing, outbox: PostgresOutbox) -> None:
    """Act on one event after the other, for ever. Errors: Failed."""
    nc = await connect(url, "discord-edge")
    inbox = await NatsBus(nc).news(CONSUMER, *AGGS)
    try:
        sender = Sender(inbox, outbox, TARGET, announcing.act)
        await until_first(sender.run(), announcing.tend())
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
