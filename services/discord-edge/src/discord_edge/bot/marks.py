"""The emojis that an operator gave the application, for who reads them with what is said."""

import logging
from collections.abc import Mapping

import discord

from discord_edge.bot.drawing import reaching
from discord_edge.domain import marks
from discord_edge.domain.marks import NAMES
from shared.errors import Failed, Refused

_log = logging.getLogger(__name__)


class Marks:
    """Those that were there at the start; without them common marks stand there."""

    def __init__(self) -> None:
        self._own: Mapping[str, discord.Emoji] = {}

    async def look(self, client: discord.Client) -> None:
        """See which there are; nothing depends on it."""
        try:
            with reaching():
                found = await client.fetch_application_emojis()
        except (Failed, Refused) as trouble:
            _log.info("the application's own emojis are left out: %s", trouble)
            return
        self._own = {one.name: one for one in found if one.name in NAMES}

    def drawn(self, text: str, length_max: int = 2000) -> str:
        """A text with them."""
        said = {name: str(emoji) for name, emoji in self._own.items()}
        return marks.drawn(text, said, length_max)

    def beside(self, gpu: str) -> discord.Emoji | None:
        """The one beside a GPU type."""
        return self._own.get(marks.vendor(gpu) or "")
