"""The text that one accepts before one submits: shown whole, with a button."""

import asyncio
from typing import Any

import discord

from discord_edge.bot.asking import Here, fail, user_of
from discord_edge.bot.drawing import embed, files
from discord_edge.domain.report import Attached, Card

ASKED_S_MAX = 600.0
TEXT_MAX = 3500


class _Accept(discord.ui.View):
    """Accept or not, for who asked alone; `is_given` is not while nobody said it."""

    def __init__(self, owner: int) -> None:
        super().__init__(timeout=ASKED_S_MAX)
        self.owner, self.is_given = owner, False
        self.over = asyncio.Event()

    @discord.ui.button(label="Accept", style=discord.ButtonStyle.primary)
    async def accept(self, here: Here, _: discord.ui.Button["_Accept"]) -> None:
        self.is_given = True
        await self._close(here, "Accepted; submitting …")

    @discord.ui.button(label="Decline")
    async def decline(self, here: Here, _: discord.ui.Button["_Accept"]) -> None:
        await self._close(here, "Declined, so nothing is submitted.")

    async def _close(self, here: Here, said: str) -> None:
        await here.response.edit_message(content=said, view=None)
        self.over.set()
        self.stop()

    async def interaction_check(self, here: discord.Interaction[Any]) -> bool:
        return here.user.id == self.owner

    async def on_timeout(self) -> None:
        self.over.set()

    async def on_error(
        self, here: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        await fail(here, error)


async def accepted(here: Here, slug: str) -> bool:
    """Whether who asks accepts what the leaderboard asks for. Errors: Refused; Failed."""
    api, user = here.client.api, user_of(here)
    asked = await api.get(user, "problems", slug, "consent")
    text = str(asked["text"])
    body = text.replace("@", "@\u200b")
    is_long = len(body) > TEXT_MAX
    card = Card(
        title=f"{slug} asks that you accept this",
        body=body[: TEXT_MAX - 1] + "…" if is_long else body,
        footer="all of it is in the file" if is_long else "",
        files=(Attached("consent.md", text.encode()),) if is_long else (),
    )
    view = _Accept(here.user.id)
    await here.edit_original_response(
        content="Before your first submission:",
        embed=embed(card),
        attachments=files(card),
        view=view,
    )
    await view.over.wait()
    if not view.is_given:
        if not here.is_expired():
            said = "Not accepted, so nothing is submitted."
            await here.edit_original_response(content=said, view=None)
        return False
    await api.act(user, f"{here.id}-consent", "problems", slug, "consent", digest=asked["digest"])
    return True
