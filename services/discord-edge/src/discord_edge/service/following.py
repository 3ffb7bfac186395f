"""Tells of submissions on Discord until they are over: each message once, whatever is killed."""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from discord_edge.domain.report import headline, is_good
from discord_edge.domain.status import Status, evolve
from discord_edge.domain.wording import escaped
from discord_edge.service.entering import Entering
from discord_edge.service.ports import Api, Post, Posts, Rooms, Seen, User
from discord_edge.service.reporting import reported
from discord_edge.service.tasks import Tasks
from shared.errors import Failed, Refused
from shared.telling.answers import Answer, Submission, read

# Edits of a message share its channel's limit with everything that is said there.
EDIT_EVERY_S = 2.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 20.0
# Longer than any submission may take; what is not over then is told of no more.
FOLLOW_S_MAX = 48 * 3600.0

T = TypeVar("T")
_log = logging.getLogger(__name__)


def _unseen(_: Status, __: str) -> None:
    pass


def nonce(number: int, what: str) -> str:
    """The name of one message about one submission, by which Discord knows a repeat.

    >>> len(nonce(1207, "report"))
    24
    """
    return hashlib.sha256(f"{number}:{what}".encode()).hexdigest()[:24]


@dataclass
class Following:
    """Follows every open submission, each in a task of its own."""

    api: Api
    rooms: Rooms
    posts: Posts
    entering: Entering
    tasks: Tasks = field(default_factory=Tasks)
    _ones: dict[int, "_One"] = field(default_factory=dict)
    _followed: set[int] = field(default_factory=set)

    async def resume(self) -> None:
        """Go on with what was open when the process before ended. Errors: Failed."""
        for post in self._new(await self.posts.open()):
            self._follow([post], _unseen)

    async def begin(self, posts: Sequence[Post], seen: Seen = _unseen) -> None:
        """Open the thread of a group, or see to it that it comes later, and follow.

        What is followed already, for a command came twice, is told where it is told.
        """
        if not (posts := self._new(posts)):
            return
        try:
            held = await self.entering.entered(posts)
        except (Failed, Refused) as trouble:
            _log.warning("the thread of submission %d comes later: %s", posts[0].number, trouble)
            held = list(posts)
        for post in held:
            self._follow([post], seen)

    def _new(self, posts: Sequence[Post]) -> list[Post]:
        """Those that are followed from now on, and not by another task."""
        found = [one for one in posts if one.number not in self._followed]
        self._followed |= {one.number for one in found}
        return found

    def pressed(self, number: int, *, is_pressed: bool) -> None:
        """Somebody wants one cancelled, or that came to nothing: it is told before the log says."""
        if number in self._ones:
            self._ones[number].press(is_pressed=is_pressed)

    def _follow(self, posts: Sequence[Post], seen: Seen) -> None:
        for post in posts:
            self.tasks.begin(self._whole(post, seen), f"follow {post.number}")

    async def stop(self) -> None:
        """Leave off; the next process goes on."""
        await self.tasks.stop()

    async def _whole(self, post: Post, seen: Seen) -> None:
        why, one = "told", _One(self, post, seen)
        self._ones[post.number] = one
        try:
            async with asyncio.timeout(FOLLOW_S_MAX):
                await one.tell()
        except Refused as refused:
            why = refused.code
            _log.warning("submission %d is told of no more: %s", post.number, refused.reason)
        except TimeoutError:
            why = "too_long"
        finally:
            del self._ones[post.number]
        await persist(lambda: self.posts.keep(post.number, "ended", why))
        self._followed.discard(post.number)
        await self._leave(one.room)

    async def _leave(self, room: str) -> None:
        """Close a thread in which nothing is waited for any more."""
        if room and not any(one.thread == room for one in await persist(self.posts.open)):
            with contextlib.suppress(Refused):
                await persist(lambda: self.rooms.close(room))


async def persist(attempt: Callable[[], Awaitable[T]], pause_s_max: float = PAUSE_S_MAX) -> T:
    """Try until it works, with longer and longer pauses. Errors: Refused."""
    pause_s = PAUSE_S_MIN
    while True:
        try:
            return await attempt()
        except Failed as failed:
            _log.warning("tried again in %.1f s: %s", pause_s, failed)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, pause_s_max)


class _One:
    """One submission on its way to its last message."""

    def __init__(self, following: Following, post: Post, seen: Seen) -> None:
        self._api, self._rooms = following.api, following.rooms
        self._posts, self._entering = following.posts, following.entering
        self._post, self._seen = post, seen
        self._user = User(int(post.person))
        self._status = Status(post.number, post.problem, post.mode, post.gpu)
        self._shown, self.room, self._is_pressed = "", "", False
        self._changed = asyncio.Event()

    async def tell(self) -> None:
        """All of it. Errors: Refused where nothing can be told."""
        message = await self._begun()
        self._hear(self._status)
        editing = asyncio.create_task(self._edit(message))
        try:
            await self._listen()
        finally:
            editing.cancel()
            await asyncio.gather(editing, return_exceptions=True)
        answer = await persist(lambda: self._api.get(self._user, "submissions", self._post.number))
        found = read(answer, Submission)
        words, good = escaped(headline(found)), is_good(found)
        self._hear(replace(self._status, now=words, is_over=True, is_good=good))
        if message:
            await self._finish(message, answer)

    def press(self, *, is_pressed: bool) -> None:
        """Somebody wants it cancelled, or that came to nothing."""
        self._is_pressed = is_pressed
        # Before it has a room, it is told once it has.
        if self.room:
            self._hear(self._status)

    def _hear(self, status: Status) -> None:
        """Take in where it is, and let it be told."""
        self._status = status
        self._changed.set()
        self._seen(self._now, self.room)

    @property
    def _now(self) -> Status:
        """Where it is, as it is told."""
        is_cancelling = self._status.is_cancelling or self._is_pressed
        return replace(self._status, is_cancelling=is_cancelling)

    async def _finish(self, message: str, answer: Answer) -> None:
        """The report, once, and the last words of the message. Errors: Refused."""
        post = self._post
        if post.report is None:
            card = await persist(lambda: reported(self._api, self._user, answer))
            mark = nonce(post.number, "report")
            shown = await self._told(lambda room: self._rooms.show(room, card, mark, post))
            await persist(lambda: self._posts.keep(post.number, "report", shown))
        last = self._now
        with contextlib.suppress(Refused):
            await persist(lambda: self._rooms.edit(self.room, message, last, post))

    async def _begun(self) -> str:
        """The message that says where it is, a new one the first time. Its id.

        It is "" where somebody sees the answer to the command, and nothing else reaches them.
        """
        try:
            self.room = self._post.thread or await self._entered()
            return self._post.status or await self._first()
        except Refused as refused:
            if self._seen is _unseen:
                raise
            _log.info("submission %d is told by answer: %s", self._post.number, refused.reason)
        self.room = ""
        return ""

    async def _entered(self) -> str:
        post = await persist(lambda: self._entering.entered_late(self._post))
        assert post.thread is not None, "who entered is somewhere"
        return post.thread

    async def _first(self) -> str:
        """The first words of the message that says where it is. Its id."""
        text, mark, post = self._status.text, nonce(self._post.number, "status"), self._post
        self._shown = text
        made = await self._told(lambda room: self._rooms.say(room, text, mark, post))
        await persist(lambda: self._posts.keep(post.number, "status", made))
        return made

    async def _told(self, tell: Callable[[str], Awaitable[str]]) -> str:
        """The id of what is told in the thread, or by letter where that is gone."""
        try:
            return await persist(lambda: tell(self.room))
        except Refused as refused:
            _log.info("submission %d goes on by letter: %s", self._post.number, refused.reason)
        self.room = await persist(lambda: self._rooms.letters(self._post))
        await persist(lambda: self._posts.keep(self._post.number, "thread", self.room))
        return await persist(lambda: tell(self.room))

    async def _listen(self) -> None:
        """Take everything in until the stream says that it is the end. Errors: Refused."""
        pause_s = PAUSE_S_MIN
        while True:
            place = self._status.place
            try:
                async for heard in self._api.events(self._user, self._post.number, place):
                    if heard.kind == "end":
                        return
                    self._hear(evolve(self._status, heard.kind, heard.said))
            except Failed as failed:
                _log.info("submission %d is asked on for: %s", self._post.number, failed)
            is_further = self._status.place > place
            pause_s = PAUSE_S_MIN if is_further else min(2 * pause_s, PAUSE_S_MAX)
            await asyncio.sleep(pause_s)

    async def _edit(self, message: str) -> None:
        """Show what is new, at most once in two seconds."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            began_at, status = time.monotonic(), self._now
            if message and status.text != self._shown:
                try:
                    await self._rooms.edit(self.room, message, status, self._post)
                    self._shown = status.text
                except (Failed, Refused) as trouble:
                    _log.info("an edit is left out: %s", trouble)
            await asyncio.sleep(max(0.0, EDIT_EVERY_S - (time.monotonic() - began_at)))
