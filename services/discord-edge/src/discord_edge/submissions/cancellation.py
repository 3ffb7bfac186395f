"""The cancel button of a submission; its id contains everything it needs."""

import contextlib
import logging
import re
from collections.abc import Collection, Sequence
from typing import Any

import aiohttp
import discord

from discord_edge.bot.interactions import (
    NOT_YOURS,
    UNHEARD,
    BotInteraction,
    reply,
    reply_on_error,
    reply_with_error,
    user_api,
)
from discord_edge.submissions.models import TrackedSubmission
from shared.errors import Failed, Refused

CANCEL, CANCELLING = "Cancel", "Cancelling"
LABEL_MAX = 80
# Discord allows five rows of five.
BUTTONS_MAX = 25
# Ingest's code for a submission that has ended: its last message has no button anyway.
OVER = "already_ended"
View = discord.ui.View

_log = logging.getLogger(__name__)


class CancelButton(
    discord.ui.DynamicItem[discord.ui.Button[View]],
    template=r"cancel:(?P<number>[0-9]{1,15})(?::(?P<owner>[0-9]{1,20}))?",
):
    """Cancels for the owner; the ids of old buttons name no owner, so ingest alone checks it."""

    def __init__(
        self, number: int, owner: str = "", label: str = CANCEL, *, is_off: bool = False
    ) -> None:
        self.number, self.owner, self.label = number, owner, label[:LABEL_MAX]
        identity = f"cancel:{number}:{owner}" if owner else f"cancel:{number}"
        button = discord.ui.Button[View](label=self.label, custom_id=identity, disabled=is_off)
        super().__init__(button)

    @classmethod
    async def from_custom_id(
        cls,
        interaction: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "CancelButton":
        """Restore the button of a message, however old."""
        return cls(int(match["number"]), match["owner"] or "")

    async def callback(self, interaction: BotInteraction) -> None:  # type: ignore[override]
        """Cancel the submission and disable the button."""
        async with reply_on_error(interaction):
            if self.owner and str(interaction.user.id) != self.owner:
                await reply_with_error(interaction, NOT_YOURS)
            else:
                await self._cancel(interaction)

    async def _cancel(self, interaction: BotInteraction) -> None:
        tracker = interaction.client.tracker
        # Status edits that happen meanwhile keep the button disabled.
        tracker.set_cancelling(self.number, is_cancelling=True)
        try:
            await self._disable(interaction)
            path = ("submissions", self.number, "cancel")
            await user_api(interaction).request(object, "POST", *path)
        except Exception as error:
            tracker.set_cancelling(self.number, is_cancelling=False)
            code = getattr(error, "code", "")
            if isinstance(error, discord.HTTPException) and code in UNHEARD:
                return
            if isinstance(error, Refused | Failed) and code != OVER:
                # The button can be pressed again, if the message still exists.
                with contextlib.suppress(discord.HTTPException, aiohttp.ClientError, OSError):
                    await interaction.edit_original_response(view=_copy_buttons(interaction, ""))
            raise
        await reply(interaction, f"Submission **#{self.number}** is being cancelled.")

    async def _disable(self, interaction: BotInteraction) -> None:
        """Disable the button. Raises discord.py's errors."""
        try:
            view = _copy_buttons(interaction, self.custom_id)
            await interaction.response.edit_message(view=view)
        except (aiohttp.ClientError, OSError) as error:
            # Discord may have disabled it, so it could not be pressed again: cancel all the same.
            _log.info("press %d is not acknowledged: %s", interaction.id, type(error).__name__)


def _copy_buttons(interaction: BotInteraction, pressed_id: str) -> View:
    """Copy the buttons of the message, with the pressed one disabled."""
    assert interaction.message is not None, "a button belongs to a message"
    view = View(timeout=None)
    for button in _components(interaction.message):
        if isinstance(button, discord.Button):
            _, number, *owner = str(button.custom_id).split(":")
            is_off = button.disabled or button.custom_id == pressed_id
            label = button.label or CANCEL
            if is_off and not label.startswith(CANCELLING):
                label = label.replace(CANCEL, CANCELLING, 1)
            view.add_item(CancelButton(int(number), "".join(owner), label, is_off=is_off))
    return view


def _components(message: discord.Message) -> list[Any]:
    rows = [row for row in message.components if isinstance(row, discord.ActionRow)]
    return [component for row in rows for component in row.children]


def has_cancel_button(message: discord.Message, submission: TrackedSubmission) -> bool:
    """Whether a message has the cancel button of a submission."""
    ids = [getattr(component, "custom_id", None) or "" for component in _components(message)]
    return any(identity.split(":")[:2] == ["cancel", str(submission.number)] for identity in ids)


def cancel_buttons(
    submissions: Sequence[TrackedSubmission], cancelling: Collection[int] = ()
) -> View:
    """Return a button per submission of a command; those being cancelled are disabled."""
    view = View(timeout=None)
    for submission in submissions[:BUTTONS_MAX]:
        is_off = submission.number in cancelling
        label = CANCELLING if is_off else CANCEL
        if len(submissions) > 1:
            label = f"{label} #{submission.number} {submission.gpu}"
        button = CancelButton(submission.number, submission.person, label, is_off=is_off)
        view.add_item(button)
    return view
