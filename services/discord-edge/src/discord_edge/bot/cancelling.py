"""The button by which a submission is cancelled; all that it needs is in its id."""

import re
from typing import Any

import discord

from discord_edge.bot.asking import Here, fail, say, user_of
from shared.errors import Failed, Refused


class CancelButton(
    discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]],
    template=r"cancel:(?P<number>[0-9]{1,15})",
):
    """Cancels for who presses it; whose the submission is, ingest knows."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(discord.ui.Button(label="Cancel", custom_id=f"cancel:{number}"))

    @classmethod
    async def from_custom_id(
        cls,
        here: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "CancelButton":
        """The button of a message that may be old."""
        return cls(int(match["number"]))

    async def callback(self, here: Here) -> None:  # type: ignore[override]
        """Cancel."""
        await here.response.defer(ephemeral=True, thinking=True)
        path = ("submissions", self.number, "cancel")
        try:
            await here.client.api.act(user_of(here), str(here.id), *path)
        except (Refused, Failed) as error:
            await fail(here, error)
            return
        await say(here, f"Submission **#{self.number}** is being cancelled.")
