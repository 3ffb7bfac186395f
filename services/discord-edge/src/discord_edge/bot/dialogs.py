"""Questions to one user: a choice from a menu, or a confirmation."""

import asyncio
from collections.abc import Sequence
from typing import Any

import discord

from discord_edge.bot.interactions import NOT_YOURS, BotInteraction, reply_with_error

MENU_S_MAX = 120.0
OPTIONS_MAX = 25


class _Select(discord.ui.Select["GpuMenu"]):
    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        assert self.view is not None, "a select belongs to a view"
        await self.view.choose(interaction)


class GpuMenu(discord.ui.View):
    """Asks for GPU types, or for other names that `placeholder` describes."""

    def __init__(
        self,
        interaction: BotInteraction,
        names: Sequence[str],
        choices_max: int = OPTIONS_MAX,
        placeholder: str = "GPU types",
    ) -> None:
        super().__init__(timeout=MENU_S_MAX)
        self.owner, app_emojis = interaction.user.id, interaction.client.app_emojis
        self.choice: tuple[str, ...] = ()
        options = [
            discord.SelectOption(
                label=name[:100], value=name[:100], emoji=app_emojis.vendor_emoji(name)
            )
            for name in list(names)[:OPTIONS_MAX]
        ]
        self.select = _Select(
            placeholder=placeholder,
            min_values=1,
            max_values=min(choices_max, len(options)),
            options=options,
        )
        self.add_item(self.select)
        self._closed = asyncio.Event()

    async def choose(self, interaction: BotInteraction) -> None:
        """Store the choice and close the menu."""
        self.choice, self.select.disabled = tuple(self.select.values), True
        text = f"{', '.join(self.choice)} …"
        await interaction.response.edit_message(content=text, view=self)
        self._closed.set()
        self.stop()

    async def interaction_check(self, interaction: discord.Interaction[Any]) -> bool:
        """Allow the owner only, and tell others that they may not choose."""
        if interaction.user.id != self.owner:
            await reply_with_error(interaction, NOT_YOURS)
        return interaction.user.id == self.owner

    async def on_timeout(self) -> None:
        """Close the menu without a choice."""
        self.select.disabled = True
        self._closed.set()

    async def on_error(
        self, interaction: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, error)

    async def answered(self) -> tuple[str, ...]:
        """Wait for the choice; empty after two minutes."""
        await self._closed.wait()
        return self.choice


class _ChoiceButton(discord.ui.Button["ConfirmationView"]):
    def __init__(self, label: str, *, is_yes: bool) -> None:
        style = discord.ButtonStyle.danger if is_yes else discord.ButtonStyle.secondary
        super().__init__(label=label, style=style)
        self.is_yes = is_yes

    async def callback(self, interaction: discord.Interaction[Any]) -> None:
        assert self.view is not None, "a button belongs to a view"
        await self.view.choose(interaction, is_yes=self.is_yes)


class ConfirmationView(discord.ui.View):
    """Asks one user yes or no; no answer in time means no."""

    def __init__(self, owner: int, yes: str, no: str, wait_s: float) -> None:
        super().__init__(timeout=wait_s)
        self.owner, self.is_yes, self.is_late = owner, False, False
        self._closed = asyncio.Event()
        self.add_item(_ChoiceButton(yes, is_yes=True))
        self.add_item(_ChoiceButton(no, is_yes=False))

    async def choose(self, interaction: discord.Interaction[Any], *, is_yes: bool) -> None:
        """Store the answer and remove the buttons."""
        self.is_yes = is_yes
        await interaction.response.edit_message(view=None)
        self._closed.set()
        self.stop()

    async def interaction_check(self, interaction: discord.Interaction[Any]) -> bool:
        """Allow the owner only."""
        return interaction.user.id == self.owner

    async def on_timeout(self) -> None:
        """Close the question without an answer."""
        self.is_late = True
        self._closed.set()

    async def on_error(
        self, interaction: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, error)

    async def answered(self) -> bool:
        """Wait for the answer, and return whether it is yes."""
        await self._closed.wait()
        return self.is_yes
