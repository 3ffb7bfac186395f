"""Group commit: what many append at the same moment is stored with one sync of the disk.

A group is an atomic batch of appends that have nothing to do with each other: it is stored whole,
or, after one conflict or a lost answer, not at all as far as we know; each append then goes alone,
which settles what became of it. Few at once go alone anyway: a batch costs as much as a dozen.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client

from shared.nats.batch import Draft, publish_batch
from shared.nats.requests import Denied, Passing

GROUP_MAX = 100
# In appends of one event: what an append of several costs, what goes alone at once, and what a
# group must save. Measured on two cores with sync always (nats-server 2.15.1, 2026-11): 64
# appends at once store 3 to 4.6 thousand events a second alone and 7.6 thousand in groups.
BATCH_COST = 8
ALONE_MAX = 8
GROUP_MIN = 16


class _Waiting(NamedTuple):
    drafts: Sequence[Draft]
    last: "asyncio.Future[int | None]"


class Groups:
    """The appends of one process that wait to be stored together."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._queue: deque[_Waiting] = deque()
        self._alone = 0
        self._most = GROUP_MAX
        self._storing: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def alone(self, drafts: Sequence[Draft]) -> Iterator[None]:
        """While an append goes alone."""
        cost = _cost(drafts)
        self._alone += cost
        try:
            yield
        finally:
            self._alone -= cost

    async def store(self, drafts: Sequence[Draft]) -> int | None:
        """The sequence of the last draft once a group has stored all, or None: go alone."""
        if self._alone < ALONE_MAX or not self._nc.is_connected:
            return None
        waiting = _Waiting(drafts, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_all())
        return await waiting.last

    async def _store_all(self) -> None:
        group: list[_Waiting] = []
        try:
            while self._queue:
                group = self._next_group()
                cost = sum(_cost(one.drafts) for one in group)
                last = await self._commit(group) if cost >= GROUP_MIN else None
                _tell(group, last)
        finally:
            # Whatever ends this, nobody waits for a group that never comes.
            _tell([*group, *self._queue], None)
            self._queue.clear()

    def _next_group(self) -> list[_Waiting]:
        """As many as go together: a batch takes each aggregate and each id once."""
        group, left, seen = [], deque[_Waiting](), set[str]()
        size = 0
        while self._queue:
            waiting = self._queue.popleft()
            names = {name for draft in waiting.drafts for name in (draft.subject, draft.id)}
            if size + len(waiting.drafts) > self._most or names & seen:
                left.append(waiting)
                continue
            group.append(waiting)
            seen |= names
            size += len(waiting.drafts)
        self._queue = left
        if not group:
            group.append(left.popleft())
        return group

    async def _commit(self, group: list[_Waiting]) -> int | None:
        """The last sequence of a group, or None; groups that fail make the next ones smaller."""
        try:
            last = await publish_batch(self._nc, [d for one in group for d in one.drafts])
        except (TimeoutError, Denied, Passing, nats.errors.Error):
            self._most = max(GROUP_MIN, self._most // 2)
            return None
        self._most = min(GROUP_MAX, self._most * 2)
        return last


def _cost(drafts: Sequence[Draft]) -> int:
    return 1 if len(drafts) == 1 else BATCH_COST


def _tell(group: Sequence[_Waiting], last: int | None) -> None:
    """Tell each its own last sequence: a batch has consecutive ones."""
    for waiting in reversed(group):
        if not waiting.last.done():
            waiting.last.set_result(last)
        if last is not None:
            last -= len(waiting.drafts)
