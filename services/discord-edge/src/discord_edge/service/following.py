"""Tells of submissions on Discord until they are over: each message once, whatever is killed."""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from discord_edge.domain.report import headline, is_good, report
from discord_edge.domain.status import Status, evolve
from discord_edge.domain.wording import escaped
from discord_edge.service.ports import Api, Ended, Post, Posts, Rooms, User
from shared.errors import Failed, Refused
from shared.telling.answers import Submission, read

# Edits of a message share its channel's limit with everything that is said there.
EDIT_EVERY_S = 2.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 20.0
# Longer than any submission may take; what is not over then is told of no more.
FOLLOW_S_MAX = 48 * 3600.0
THREAD_NAME_MAX = 100

T = TypeVar("T")
_log = logging.getLogger(__name__)


async def _unheard(_: Submission) -> None:
    pass


def nonce(number: int, what: str) -> str:
    """The name of one message about one submission, by which Discord knows a repeat.

    >>> len(nonce(1207, "report"))
    24
    """
    return hashlib.sha256(f"{number}:{what}".encode()).hexdigest()[:24]


def thread_name(posts: Sequence[Post]) -> str:
    """What the thread of a group is called; its numbers make it one of a kind.

    >>> thread_name([Post(7, "1", "2", "sort", "CPU", "test")])
    '#7 sort test CPU'
    """
    first = posts[0]
    gpus = " ".join(one.gpu for one in posts)
    return f"#{first.number} {first.problem} {first.mode} {gpus}"[:THREAD_NAME_MAX]


@dataclass
class Following:
    """Follows every open submission, each in a task of its own."""

    api: Api
    rooms: Rooms
    posts: Posts
    tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def resume(self) -> None:
        """Go on with what was open when the process before ended. Errors: Failed."""
        for post in await self.posts.open():
            self._follow([post], _unheard)

    async def begin(self, posts: Sequence[Post], ended: Ended = _unheard) -> str | None:
        """Open the thread of a group and follow; the thread, None if there is none yet."""
        try:
            held = await self.entered(posts)
        except (Failed, Refused) as trouble:
            _log.warning("the thread of submission %d comes later: %s", posts[0].number, trouble)
            held = list(posts)
        for post in held:
            self._follow([post], ended)
        return held[0].thread

    async def entered(self, posts: Sequence[Post]) -> list[Post]:
        """A group with its thread, which is kept. Errors: Refused; Failed."""
        thread = await self.rooms.enter(posts[0], thread_name(posts))
        for post in posts:
            await self.posts.keep(post.number, "thread", thread)
        return [replace(post, thread=thread) for post in posts]

    def _follow(self, posts: Sequence[Post], ended: Ended) -> None:
        for post in posts:
            task = asyncio.create_task(self._whole(post, ended), name=f"follow {post.number}")
            self.tasks.add(task)
            task.add_done_callback(self._left)

    def _left(self, task: "asyncio.Task[None]") -> None:
        """A mistake of ours ends one task, not the others; the next start tries again."""
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s ended: the next start goes on", task.get_name(), exc_info=error)

    async def stop(self) -> None:
        """Leave off; the next process goes on."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _whole(self, post: Post, ended: Ended) -> None:
        why, one = "told", _One(self, post, ended)
        try:
            async with asyncio.timeout(FOLLOW_S_MAX):
                await one.tell()
        except Refused as refused:
            why = refused.code
            _log.warning("submission %d is told of no more: %s", post.number, refused.reason)
        except TimeoutError:
            why = "too_long"
        await persist(lambda: self.posts.keep(post.number, "ended", why))
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

    def __init__(self, following: Following, post: Post, ended: Ended) -> None:
        self._api, self._rooms = following.api, following.rooms
        self._posts, self._following = following.posts, following
        self._post, self._ended = post, ended
        self._user = User(int(post.person))
        self._status = Status(post.number, post.problem, post.mode, post.gpu)
        self._shown, self.room = "", ""
        self._changed = asyncio.Event()

    async def tell(self) -> None:
        """All of it. Errors: Refused where nothing can be told."""
        self.room = await self._entered()
        message = self._post.status or await self._begun()
        editing = asyncio.create_task(self._edit(message))
        try:
            await self._listen()
        finally:
            editing.cancel()
            await asyncio.gather(editing, return_exceptions=True)
        answer = await persist(lambda: self._api.get(self._user, "submissions", self._post.number))
        found = read(answer, Submission)
        await self._ended(found)
        if self._post.report is None:
            card, mark = report(found), nonce(self._post.number, "report")
            shown = await self._told(lambda room: self._rooms.show(room, card, mark))
            await persist(lambda: self._posts.keep(self._post.number, "report", shown))
        words, good = escaped(headline(found)), is_good(found)
        last = replace(self._status, now=words, is_over=True, is_good=good)
        with contextlib.suppress(Refused):
            await persist(lambda: self._rooms.edit(self.room, message, last.text, is_over=True))

    async def _entered(self) -> str:
        if self._post.thread is not None:
            return self._post.thread
        [post] = await persist(lambda: self._following.entered([self._post]))
        assert post.thread is not None, "who entered is somewhere"
        return post.thread

    async def _begun(self) -> str:
        """The first words of the message that says where it is. Its id."""
        text, mark = self._status.text, nonce(self._post.number, "status")
        self._shown, number = text, self._post.number
        made = await self._told(lambda room: self._rooms.say(room, text, mark, number))
        await persist(lambda: self._posts.keep(self._post.number, "status", made))
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
                    self._status = evolve(self._status, heard.kind, heard.said)
                    self._changed.set()
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
            began_at, text = time.monotonic(), self._status.text
            if text != self._shown:
                try:
                    await self._rooms.edit(self.room, message, text)
                    self._shown = text
                except (Failed, Refused) as trouble:
                    _log.info("an edit is left out: %s", trouble)
            await asyncio.sleep(max(0.0, EDIT_EVERY_S - (time.monotonic() - began_at)))
