"""The button by which a submission is cancelled; all that it needs is in its id."""

import contextlib
import logging
import re
from collections.abc import Collection, Sequence
from typing import Any

import aiohttp
import discord

from discord_edge.bot.asking import UNHEARD, Here, fail, pressed, say, user_of
from discord_edge.service.ports import Post
from shared.errors import Failed, Refused

CANCEL, CANCELLING = "Cancel", "Cancelling"
LABEL_MAX = 80
# Discord has five rows of five.
BUTTONS_MAX = 25
# What ingest says of what has ended meanwhile: its last words come, without a button.
OVER = "already_ended"
NOT_YOURS = Refused("not_yours", "only who asked for it can use this")

View = discord.ui.View
_log = logging.getLogger(__name__)


class CancelButton(
    discord.ui.DynamicItem[discord.ui.Button[View]],
    template=r"cancel:(?P<number>[0-9]{1,15})(?::(?P<owner>[0-9]{1,20}))?",
):
    """Cancels for its owner; an old one names none, and then ingest alone knows."""

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
        here: discord.Interaction[Any],  # noqa: ARG003 - the library's
        item: discord.ui.Item[Any],  # noqa: ARG003
        match: re.Match[str],
    ) -> "CancelButton":
        """The button of a message that may be old."""
        return cls(int(match["number"]), match["owner"] or "")

    async def callback(self, here: Here) -> None:  # type: ignore[override]
        """Cancel, and be pressed no more."""
        async with pressed(here):
            if self.owner and str(here.user.id) != self.owner:
                await fail(here, NOT_YOURS)
            else:
                await self._cancel(here)

    async def _cancel(self, here: Here) -> None:
        """Errors: Refused; Failed."""
        following, path = here.client.following, ("submissions", self.number, "cancel")
        # What is said meanwhile leaves the button as it is pressed.
        following.pressed(self.number, is_pressed=True)
        try:
            await self._turn_off(here)
            await here.client.api.act(user_of(here), str(here.id), *path)
        except Exception as trouble:
            following.pressed(self.number, is_pressed=False)
            code = getattr(trouble, "code", "")
            if isinstance(trouble, discord.HTTPException) and code in UNHEARD:
                return
            if isinstance(trouble, Refused | Failed) and code != OVER:
                # So that it can be pressed again, where the message is still there.
                with contextlib.suppress(discord.HTTPException, aiohttp.ClientError, OSError):
                    await here.edit_original_response(view=_buttons(here, ""))
            raise
        await say(here, f"Submission **#{self.number}** is being cancelled.")

    async def _turn_off(self, here: Here) -> None:
        """Let it be pressed no more. Errors: discord's."""
        try:
            await here.response.edit_message(view=_buttons(here, self.custom_id))
        except (aiohttp.ClientError, OSError) as error:
            # Discord may have heard it, and then it cannot be pressed again: what it says is done.
            _log.info("press %d is not acknowledged: %s", here.id, type(error).__name__)


def _buttons(here: Here, pressed: str) -> View:
    """Those of the message; the one that was pressed cannot be pressed again."""
    assert here.message is not None, "a button is on a message"
    view = View(timeout=None)
    rows = [one for one in here.message.components if isinstance(one, discord.ActionRow)]
    for one in (child for row in rows for child in row.children):
        if isinstance(one, discord.Button):
            _, number, *owner = str(one.custom_id).split(":")
            is_off = one.disabled or one.custom_id == pressed
            label = one.label or CANCEL
            if is_off and not label.startswith(CANCELLING):
                label = label.replace(CANCEL, CANCELLING, 1)
            view.add_item(CancelButton(int(number), "".join(owner), label, is_off=is_off))
    return view


def has_cancel(message: discord.Message, post: Post) -> bool:
    """Whether a message has the button by which a submission is cancelled."""
    rows = [one for one in message.components if isinstance(one, discord.ActionRow)]
    ids = [getattr(one, "custom_id", None) or "" for row in rows for one in row.children]
    return any(one.split(":")[:2] == ["cancel", str(post.number)] for one in ids)


def cancels(posts: Sequence[Post], off: Collection[int] = ()) -> View:
    """A button for each submission of a group; `off` are the numbers that are being cancelled."""
    view = View(timeout=None)
    for post in posts[:BUTTONS_MAX]:
        is_off = post.number in off
        act = CANCELLING if is_off else CANCEL
        label = act if len(posts) == 1 else f"{act} #{post.number} {post.gpu}"
        view.add_item(CancelButton(post.number, post.person, label, is_off=is_off))
    return view
