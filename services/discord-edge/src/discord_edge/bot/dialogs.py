"""Components for one user: buttons that survive a restart, menus, confirmations and forms."""

import re
from collections.abc import Sequence
from typing import Any, Self

import discord

from discord_edge.bot.interactions import (
    NOT_YOURS,
    BotInteraction,
    reply_on_error,
    reply_with_error,
)

MENU_S_MAX = 120.0
OPTIONS_MAX = 25


class BotButton(discord.ui.DynamicItem[discord.ui.Button[discord.ui.View]], template="(?!)"):
    """A button that works however old it is: its id contains the arguments of its class."""

    def __init__(self, label: str, identity: str, *, is_off: bool = False) -> None:
        super().__init__(discord.ui.Button(label=label, custom_id=identity, disabled=is_off))

    @classmethod
    async def from_custom_id(
        cls, _: discord.Interaction[Any], __: discord.ui.Item[Any], match: re.Match[str]
    ) -> Self:
        """Restore the button of a message."""
        return cls(*match.groups(""))

    async def callback(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """Act on a press, and explain errors."""
        async with reply_on_error(interaction):
            await self.press(interaction)

    async def press(self, interaction: BotInteraction) -> None:
        """Act on a press."""
        raise NotImplementedError


class Question(discord.ui.View):
    """A question that only the user of the interaction may answer, within a time."""

    def __init__(self, asked_by: BotInteraction, wait_s: float) -> None:
        super().__init__(timeout=wait_s)
        self.asked_by = asked_by

    async def interaction_check(self, interaction: discord.Interaction[Any]) -> bool:
        """Allow the owner only, and tell others that they may not answer."""
        is_owner = interaction.user.id == self.asked_by.user.id
        if not is_owner:
            await reply_with_error(interaction, NOT_YOURS)
        return is_owner

    async def on_error(
        self, interaction: discord.Interaction[Any], error: Exception, _: discord.ui.Item[Any]
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, error)


class GpuMenu(Question):
    """Asks for GPU types, or for other names that `placeholder` describes."""

    def __init__(
        self,
        interaction: BotInteraction,
        names: Sequence[str],
        choices_max: int = OPTIONS_MAX,
        placeholder: str = "GPU types",
    ) -> None:
        super().__init__(interaction, MENU_S_MAX)
        self.choice: tuple[str, ...] = ()
        vendor_emoji = interaction.client.app_emojis.vendor_emoji
        self.select.options = [
            discord.SelectOption(label=name[:100], value=name[:100], emoji=vendor_emoji(name))
            for name in names[:OPTIONS_MAX]
        ]
        self.select.max_values = min(choices_max, len(self.select.options))
        self.select.placeholder = placeholder

    @discord.ui.select(cls=discord.ui.Select["GpuMenu"])
    async def select(
        self, interaction: BotInteraction, select: discord.ui.Select["GpuMenu"]
    ) -> None:
        """Store the choice and close the menu."""
        self.choice, select.disabled = tuple(select.values), True
        text = f"{', '.join(self.choice)} …"
        await interaction.response.edit_message(content=text, view=self)
        self.stop()

    async def ask(self, text: str, late_text: str = "") -> tuple[str, ...]:
        """Return the choice; empty after two minutes, when `late_text` replaces the question."""
        await self.asked_by.edit_original_response(content=text, view=self)
        if await self.wait() and late_text:
            self.select.disabled = True
            await self.asked_by.edit_original_response(content=late_text, view=self)
        return self.choice


class Confirmation(Question):
    """Asks yes or no."""

    def __init__(self, interaction: BotInteraction, yes: str, no: str, wait_s: float) -> None:
        super().__init__(interaction, wait_s)
        self.accept.label, self.decline.label = yes, no
        self.is_yes = False

    @discord.ui.button(style=discord.ButtonStyle.danger)
    async def accept(
        self, interaction: BotInteraction, _: discord.ui.Button["Confirmation"]
    ) -> None:
        """Store the answer yes, and remove the buttons."""
        self.is_yes = True
        await self.decline.callback(interaction)

    @discord.ui.button()
    async def decline(
        self, interaction: BotInteraction, _: discord.ui.Button["Confirmation"]
    ) -> None:
        """Remove the buttons."""
        await interaction.response.edit_message(view=None)
        self.stop()

    async def ask(self, text: str, embed: discord.Embed | None = None) -> bool | None:
        """Return whether the answer is yes; None if there is no answer in time."""
        new_embed = discord.utils.MISSING if embed is None else embed
        await self.asked_by.edit_original_response(content=text, embed=new_embed, view=self)
        return None if await self.wait() else self.is_yes


class Form(discord.ui.Modal):
    """A modal that explains its errors."""

    async def on_error(  # type: ignore[override]
        self, interaction: BotInteraction, error: Exception
    ) -> None:
        """Explain the error."""
        await reply_with_error(interaction, error)
