"""Which thread submissions are told of in: one for each group, or one for a person and problem."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from discord_edge.service.ports import Api, Post, Posts, Rooms, User
from shared.errors import Refused

THREAD_NAME_MAX = 100
# Discord has 1000 at most; the rest is for others' threads.
ACTIVE_MAX = 900
# What one may choose of one's threads; anything else is one for each group.
DEFAULT, PER_PROBLEM = "default", "per_problem"

_log = logging.getLogger(__name__)


def thread_name(posts: Sequence[Post]) -> str:
    """What the thread of a group is called; its numbers make it one of a kind.

    >>> thread_name([Post(7, "1", "2", "sort", "CPU", "test")])
    '#7 sort test CPU'
    """
    first = posts[0]
    gpus = " ".join(one.gpu for one in posts)
    return f"#{first.number} {first.problem} {first.mode} {gpus}"[:THREAD_NAME_MAX]


def shared_name(first: Post) -> str:
    """What the thread of a person and problem is called, from their first submission in it.

    >>> shared_name(Post(7, "1", "2", "sort", "CPU", "test"))
    'sort since #7'
    """
    since = f" since #{first.number}"
    return first.problem[: THREAD_NAME_MAX - len(since)] + since


@dataclass(frozen=True)
class Entering:
    """Finds or opens threads, and keeps which they are.

    With `per_problem` a person has one thread for each problem unless they chose otherwise, and on
    a server that has almost as many active threads as Discord allows nobody has more.
    """

    api: Api
    rooms: Rooms
    posts: Posts
    per_problem: bool = False
    # What comes late comes one after the other, so that a group opens one thread.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def entered(self, posts: Sequence[Post]) -> list[Post]:
        """A group with its thread, which is kept. Errors: Refused; Failed."""
        first = posts[0]
        if await self._is_shared(first):
            thread = await self._former(first)
            thread = thread or await self.rooms.enter(first, shared_name(first))
        else:
            thread = await self.rooms.enter(first, thread_name(posts))
        for post in posts:
            await self.posts.keep(post.number, "thread", thread)
        return [replace(post, thread=thread) for post in posts]

    async def entered_late(self, post: Post) -> Post:
        """One whose thread could not be opened with its group's. Errors: Refused; Failed."""
        async with self.turn:
            group = await self.posts.group(post.first)
            thread = next((one.thread for one in group if one.thread is not None), None)
            if thread is None:
                group = await self.entered(group)
                return next(one for one in group if one.number == post.number)
            await self.posts.keep(post.number, "thread", thread)
            return replace(post, thread=thread)

    async def _is_shared(self, post: Post) -> bool:
        """Whether its thread is that of its person and problem. Errors: Failed."""
        if await self.rooms.active(post.channel) > ACTIVE_MAX:
            return True
        try:
            said = await self.api.get(User(int(post.person)), "me", "preferences")
        except Refused as refused:
            _log.info("what #%d's person chose is not known: %s", post.number, refused.reason)
            said = {}
        chosen = said.get("threads", DEFAULT)
        return self.per_problem if chosen == DEFAULT else chosen == PER_PROBLEM

    async def _former(self, post: Post) -> str | None:
        """The newest thread of its person and problem, open again. Errors: Failed."""
        thread = await self.posts.former(post)
        if thread is None:
            return None
        try:
            await self.rooms.reopen(thread, post)
        except Refused as refused:
            _log.info("thread %s is not used again: %s", thread, refused.reason)
            return None
        return thread
