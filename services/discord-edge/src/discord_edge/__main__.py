"""Wires discord-edge together and runs it until SIGTERM."""

import asyncio
import sys

from discord_edge.bot.client import Behind, EdgeBot, turn_to
from discord_edge.ingest_http import connected
from discord_edge.postgres import SCHEMA, PostgresPosts
from discord_edge.service.boards import Boards
from discord_edge.settings import Settings, load
from shared import lifecycle
from shared.lifecycle import Life, until_first
from shared.postgres import migrate, pool

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
        await until_first(boards.run(), bot.run_until(settings.token, life.stopping))


if __name__ == "__main__":
    sys.exit(lifecycle.main("discord_edge", load, _run))
