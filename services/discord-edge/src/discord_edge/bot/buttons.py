"""A button on a submission, with all that it needs in its id, so that it outlives the process."""

import re
from typing import Any

import discord

Button = discord.ui.Button[discord.ui.View]


class OfSubmission(discord.ui.DynamicItem[Button], template="(?!)"):
    """Knows the number of a submission; `what` begins its id, `says` is written on it."""

    what: str
    says: str

    def __init__(self, number: int, more: str = "") -> None:
        self.number = number
        super().__init__(Button(label=self.says, custom_id=f"{self.what}:{number}{more}"))

    @classmethod
    async def from_custom_id(
        cls,
        here: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "OfSubmission":
        """The button of a message that may be old."""
        return cls(int(match["number"]))
