"""The menu of GPU types: for its owner alone, and for two minutes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import discord

from discord_edge.bot.asking import Here, fail
from discord_edge.bot.cancelling import NOT_YOURS

MENU_S_MAX = 120.0
OPTIONS_MAX = 25


class _Menu(discord.ui.Select["GpuMenu"]):
    async def callback(self, here: discord.Interaction[Any]) -> None:
        assert self.view is not None, "a menu is on its view"
        await self.view.picked(here)


class GpuMenu(discord.ui.View):
    """Asks on which GPU types to run; `chosen` is none when time was over."""

    def __init__(
        self, here: Here, gpus: Sequence[str], most: int = OPTIONS_MAX, about: str = "GPU types"
    ) -> None:
        super().__init__(timeout=MENU_S_MAX)
        self.owner, beside = here.user.id, here.client.marks.beside
        self.chosen: tuple[str, ...] = ()
        shown = list(gpus)[:OPTIONS_MAX]
        self.menu = _Menu(
            placeholder=about,
            min_values=1,
            max_values=min(most, len(shown)),
            options=[
                discord.SelectOption(label=one[:100], value=one[:100], emoji=beside(one))
                for one in shown
            ],
        )
        self.add_item(self.menu)
        self._over = asyncio.Event()

    async def picked(self, here: Here) -> None:
        """Take the choice."""
        self.chosen, self.menu.disabled = tuple(self.menu.values), True
        said = f"{', '.join(self.chosen)} …"
        await here.response.edit_message(content=said, view=self)
        self._over.set()
        self.stop()

    async def interaction_check(self, here: discord.Interaction[Any]) -> bool:
        """Whether it is the owner who chooses; others are told that they may not."""
        if here.user.id != self.owner:
            await fail(here, NOT_YOURS)
        return here.user.id == self.owner

    async def on_timeout(self) -> None:
        """Nobody chose."""
        self.menu.disabled = True
        self._over.set()

    async def on_error(
        self, here: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        """Say what went wrong."""
        await fail(here, error)

    async def answered(self) -> tuple[str, ...]:
        """What was chosen, nothing after two minutes."""
        await self._over.wait()
        return self.chosen
