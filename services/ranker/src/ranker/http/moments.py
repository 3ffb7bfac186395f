"""What many ask at one moment is read once, and again as soon as anything was written."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from typing import Any, TypeVar

from ranker.service import Reads
from shared.clock import now

# What changes by the clock alone, a ban that ends, is seen this late.
MOMENT_S_MAX = 1.0
# Answers of one moment; a page has some 100 KiB at most.
KEPT_MAX = 256

Found = TypeVar("Found")
Row = dict[str, Any]


class Moment:
    """The database at a snapshot: what is asked of it is found out once, for all readers."""

    def __init__(self, reads: Reads, snapshot: str, at: datetime) -> None:
        self.reads = reads
        self.snapshot = snapshot
        self.at = at
        self._kept: dict[Hashable, asyncio.Task[Any]] = {}

    def is_still(self, snapshot: str, at: datetime) -> bool:
        """Whether what was found out is so at an instant, too, when this was to be seen."""
        age_s = (at - self.at).total_seconds()
        return self.snapshot == snapshot and 0 <= age_s < MOMENT_S_MAX

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a statement, which nobody may change. Errors: Failed."""
        ask = self.reads.rows
        return await self.once((statement, *values.items()), lambda: ask(statement, **values))

    async def once(self, what: Hashable, find: Callable[[], Awaitable[Found]]) -> Found:
        """What was found or is being found; nobody may change it. Errors: those of `find`."""
        task: asyncio.Task[Found] | None = self._kept.get(what)
        if task is None:
            task = asyncio.create_task(_found(find))
            self._kept[what] = task
            if len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            task.add_done_callback(lambda ended: self._forget(what, ended))
        # Whoever asked first may go away; the others wait for what they asked, too.
        return await asyncio.shield(task)

    def _forget(self, what: Hashable, ended: "asyncio.Task[Any]") -> None:
        """A failure is told to who waited for it, and to nobody after them."""
        if (ended.cancelled() or ended.exception()) and self._kept.get(what) is ended:
            del self._kept[what]


class Moments:
    """Tells which moment it is; readers who ask while it looks share the next look."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._newest: Moment | None = None
        self._looking: asyncio.Task[Moment] | None = None
        self._next: asyncio.Task[Moment] | None = None

    async def now(self) -> Moment:
        """A moment that is not before this was asked. Errors: Failed."""
        if self._next is None:
            self._next = asyncio.create_task(self._look(self._looking))
        return await asyncio.shield(self._next)

    async def _look(self, before: "asyncio.Task[Moment] | None") -> Moment:
        """The newest moment if nothing was written since it, else a new one.

        A snapshot says which transactions are to be seen. Where that is the same, so is all else,
        names and notes among it, which no event tells of.
        """
        if before is not None:
            await asyncio.wait({before})
        # Who asks from here on may know of what this look will not see.
        self._looking, self._next = self._next, None
        at = now()
        (row,) = await self._reads.rows("snapshot")
        newest = self._newest
        if newest is None or not newest.is_still(row["snapshot"], at):
            newest = self._newest = Moment(self._reads, row["snapshot"], at)
        return newest


async def _found(find: Callable[[], Awaitable[Found]]) -> Found:
    return await find()
