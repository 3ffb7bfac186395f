"""What the bot itself said before: by whom a message is, Discord knows, and not its text."""

from collections.abc import Callable

import discord

from discord_edge.bot.drawing import reaching
from discord_edge.service.public import Begun

# How far back a message is looked for that a killed process may have sent.
LOOKED_THROUGH = 50


def is_own(client: discord.Client, author: int | None) -> bool:
    """Whether something is by the bot, whose id an application may not share."""
    return client.user is not None and client.user.id == author


async def own(
    client: discord.Client, room: str, is_it: Callable[[discord.Message], bool]
) -> str | None:
    """The id of a message of the bot's among the newest of a room. Errors: discord's."""
    place = client.get_partial_messageable(int(room))
    async for one in place.history(limit=LOOKED_THROUGH):
        if is_own(client, one.author.id) and is_it(one):
            return str(one.id)
    return None


class DiscordRecall:
    """Recall over a client that is connected, or will be."""

    def __init__(self, client: discord.Client) -> None:
        self._client = client

    async def newest(self, room: str) -> str:
        """The newest message, whoever said it; "0" if there is none."""
        await self._client.wait_until_ready()
        place = self._client.get_partial_messageable(int(room))
        with reaching():
            found = [str(one.id) async for one in place.history(limit=1)]
        return found[0] if found else "0"

    async def said(self, room: str, begun: Begun) -> str | None:
        """The message with a text that the bot itself said after another one."""
        await self._client.wait_until_ready()
        place, text = self._client.get_partial_messageable(int(room)), begun.text.strip()
        after = discord.Object(int(begun.after))
        with reaching():
            async for one in place.history(limit=LOOKED_THROUGH, after=after):
                if is_own(self._client, one.author.id) and one.content == text:
                    return str(one.id)
        return None
