"""The answer to who submits: told on while its token lives, which nothing else depends on."""

import asyncio
import contextlib
from collections.abc import Sequence

import discord

from discord_edge.bot.asking import Here, say, user_of
from discord_edge.bot.cancelling import cancels
from discord_edge.bot.consents import accepted
from discord_edge.domain.status import Status
from discord_edge.domain.wishes import Wish
from discord_edge.domain.wording import CONTENT_MAX, escaped
from discord_edge.service.ports import Post, Sent
from shared.errors import Refused

CONSENT = "consent_missing"
# An answer is looked at less than the thread is.
EDIT_EVERY_S = 4.0
# What is left of the token for the last words.
LEFT_S = 60.0
LATE = (
    "The platform does not answer at the moment. Your file is sent to it until it does, so do not "
    "send it again: you are told in a thread, or by letter if it is refused."
)
ENDS = "This answer is not told on: what comes now is told there alone."
ENDS_ALONE = "This answer is not told on: `/leaderboard get-submission` has what comes now."


async def submit(here: Here, wish: Wish) -> None:
    """Send a wish to ingest, follow what comes of it, and tell. Errors: Refused; Failed."""
    posts = await _sent(here, Sent(str(here.id), user_of(here), str(home(here)), wish))
    if not posts:
        return
    original = _Original(here, posts, wish.name)
    telling = asyncio.create_task(original.tell())
    try:
        await here.client.following.begin(posts, original.seen)
        await telling
    finally:
        telling.cancel()


def home(here: Here) -> int:
    """The channel where something is done; of a thread, the one that it is in."""
    thread = here.channel if isinstance(here.channel, discord.Thread) else None
    return thread.parent_id if thread else here.channel_id or 0


async def _sent(here: Here, sent: Sent) -> list[Post]:
    """What was taken in; who has to accept a text first is asked. Errors: Refused; Failed."""
    try:
        found = await here.client.sending.send(sent)
    except Refused as refused:
        if refused.code != CONSENT:
            raise
        if not await accepted(here, sent.wish.problem):
            return []
        found = await here.client.sending.send(sent)
    if found is None:
        await say(here, LATE)
    return found or []


class _Original:
    """Where the submissions of a group are, in a line each."""

    def __init__(self, here: Here, posts: Sequence[Post], name: str) -> None:
        self._here, self._posts, self._name = here, posts, name
        self._states = {
            one.number: Status(one.number, one.problem, one.mode, one.gpu) for one in posts
        }
        self._room: str | None = None
        self._changed, self._over = asyncio.Event(), asyncio.Event()

    def seen(self, status: Status, room: str) -> None:
        """Hear of one of them, and in which room it is told."""
        self._states[status.number], self._room = status, room
        self._changed.set()
        if all(one.is_over for one in self._states.values()):
            self._over.set()

    async def tell(self) -> None:
        """Say what is new at a pace, until all is over or the token is about to be."""
        left = self._here.expires_at - discord.utils.utcnow()
        try:
            async with asyncio.timeout(max(0.0, left.total_seconds() - LEFT_S)):
                await self._tell()
        except TimeoutError:
            await self._show(ENDS if self._room else ENDS_ALONE)

    async def _tell(self) -> None:
        """Say what is new, for ever while somebody hears it."""
        while await self._show():
            if self._over.is_set():
                return
            await self._changed.wait()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), EDIT_EVERY_S)

    async def _show(self, last: str = "") -> bool:
        """Say what is known; whether anybody heard it."""
        head = f"Submitted {escaped(self._name, 60)}.{self._where()}"
        lines = [head, *(self._states[one.number].line for one in self._posts), last]
        live = [one for one in self._posts if not self._states[one.number].is_over]
        off = {one for one, status in self._states.items() if status.is_cancelling}
        return await say(self._here, "\n".join(lines).strip()[:CONTENT_MAX], cancels(live, off))

    def _where(self) -> str:
        if self._room is None:
            return ""
        if not self._room:
            return " No thread can be opened and no message reaches you: it is told here alone."
        room = self._here.client.get_channel(int(self._room))
        is_letter = isinstance(room, discord.DMChannel)
        return " Follow it in " + ("direct messages." if is_letter else f"<#{self._room}>.")
