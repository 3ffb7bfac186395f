"""Group commit: what many append at the same moment is stored with one sync of the disk.

A group is an atomic batch of appends that have nothing to do with each other: it is stored whole,
or, after one conflict or a lost answer, not at all as far as we know; each append then goes alone,
which settles what became of it. A batch costs as much as twenty appends, however many it has: so
few go alone, unless one of them is a batch anyway, which then takes the others with it.
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
# In appends of one event: what an append of several costs, how many go alone at once before the
# others wait for each other, and what a group of several must have cost alone. Measured on two
# cores with sync always (nats-server 2.15.1, 2026-11): the server spends 1.9 ms on a batch of two,
# 2.2 ms on one of fifty, and 0.1 ms on an append alone.
BATCH_COST = 20
ALONE_MAX = 24
GROUP_MIN = 21


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
        self._is_due = False

    @contextlib.contextmanager
    def alone(self, drafts: Sequence[Draft]) -> Iterator[None]:
        """While an append goes alone."""
        cost = _cost(drafts)
        self._alone += cost
        try:
            yield
        finally:
            self._alone -= cost
            self._look()

    async def store(self, drafts: Sequence[Draft]) -> int | None:
        """The sequence of the last draft once a group has stored all, or None: go alone.

        Whatever comes in the same turn of the loop is looked at together.
        """
        if not self._nc.is_connected:
            return None
        loop = asyncio.get_running_loop()
        waiting = _Waiting(drafts, loop.create_future())
        self._queue.append(waiting)
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._look)
        return await waiting.last

    def _look(self) -> None:
        """Store a group, or send on alone who waits, unless there is something to wait for."""
        self._is_due = False
        while self._queue and self._storing is None:
            group = self._next_group()
            if len(group) > 1 and sum(_cost(one.drafts) for one in group) >= GROUP_MIN:
                self._storing = asyncio.create_task(self._commit(group))
            elif self._alone >= ALONE_MAX and self._nc.is_connected:
                self._queue.extendleft(reversed(group))
                return
            else:
                _tell(group, None)

    def _next_group(self) -> list[_Waiting]:
        """As many as go together: a batch takes each aggregate and each id once."""
        group, left, seen = [], deque[_Waiting](), set[str]()
        size = 0
        while self._queue:
            waiting = self._queue.popleft()
            names = {name for draft in waiting.drafts for name in (draft.versioned, draft.id)}
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

    async def _commit(self, group: list[_Waiting]) -> None:
        """Tell a group its sequences, or to go alone; failures make the next groups smaller."""
        last: int | None = None
        try:
            last = await publish_batch(self._nc, [d for one in group for d in one.drafts])
            self._most = min(GROUP_MAX, self._most * 2)
        except (TimeoutError, Denied, Passing, nats.errors.Error):
            self._most = max(GROUP_MIN, self._most // 2)
        finally:
            # Whatever ends this, nobody waits for a group that never comes.
            self._storing = None
            _tell(group, last)
            self._look()


def _cost(drafts: Sequence[Draft]) -> int:
    return 1 if len(drafts) == 1 else BATCH_COST


def _tell(group: Sequence[_Waiting], last: int | None) -> None:
    """Tell each its own last sequence: a batch has consecutive ones."""
    for waiting in reversed(group):
        if not waiting.last.done():
            waiting.last.set_result(last)
        if last is not None:
            last -= len(waiting.drafts)
