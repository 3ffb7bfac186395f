"""Reads of one database snapshot are done once and shared until something is written."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from datetime import datetime
from typing import Any, TypeVar

from ranker.service.ports import Reads
from shared.clock import now

# Changes by the clock alone, such as the end of a ban, are seen this late.
SNAPSHOT_S_MAX = 1.0
# Results per snapshot; a page has at most about 100 KiB.
RESULTS_MAX = 256

Result = TypeVar("Result")
Row = dict[str, Any]


class ReadSnapshot:
    """Reads of the database at one snapshot; each is done once for all readers."""

    def __init__(self, reads: Reads, snapshot: str, at: datetime) -> None:
        self.reads = reads
        self.snapshot = snapshot
        self.at = at
        self._results: dict[Hashable, asyncio.Task[Any]] = {}

    def is_current(self, snapshot: str, at: datetime) -> bool:
        """Whether the results still hold at an instant when this snapshot was visible."""
        age_s = (at - self.at).total_seconds()
        return self.snapshot == snapshot and 0 <= age_s < SNAPSHOT_S_MAX

    async def rows(self, statement: str, **values: object) -> list[Row]:
        """The rows of a statement; callers must not change them. Raises Failed."""
        ask = self.reads.rows
        return await self.find_once((statement, *values.items()), lambda: ask(statement, **values))

    async def find_once(
        self, key: Hashable, find: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Result:
        """The shared result of `find`; callers must not change it. Raises the errors of `find`."""
        task: asyncio.Task[Result] | None = self._results.get(key)
        if task is None:
            task = asyncio.create_task(find())
            self._results[key] = task
            if len(self._results) > RESULTS_MAX:
                del self._results[next(iter(self._results))]
            task.add_done_callback(lambda ended: self._forget(key, ended))
        # The first caller may be cancelled; the others wait for the same task.
        return await asyncio.shield(task)

    def _forget(self, key: Hashable, ended: "asyncio.Task[Any]") -> None:
        """A failure is only reported to those who waited for it."""
        if (ended.cancelled() or ended.exception()) and self._results.get(key) is ended:
            del self._results[key]


class ReadSnapshots:
    """Finds the current snapshot; readers who ask during a query share the next one."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._newest: ReadSnapshot | None = None
        self._current_query: asyncio.Task[ReadSnapshot] | None = None
        self._next_query: asyncio.Task[ReadSnapshot] | None = None

    async def now(self) -> ReadSnapshot:
        """A snapshot that is not older than this call. Raises Failed."""
        if self._next_query is None:
            self._next_query = asyncio.create_task(self._query_snapshot(self._current_query))
        return await asyncio.shield(self._next_query)

    async def _query_snapshot(self, before: "asyncio.Task[ReadSnapshot] | None") -> ReadSnapshot:
        """The newest snapshot if nothing was written since, else a new one.

        A Postgres snapshot says which transactions are visible. If that is unchanged, so are all
        reads, including names and notes that no event carries.
        """
        if before is not None:
            await asyncio.wait({before})
        # Later callers may know of writes that this query does not see.
        self._current_query, self._next_query = self._next_query, None
        at = now()
        (row,) = await self._reads.rows("snapshot")
        newest = self._newest
        if newest is None or not newest.is_current(row["snapshot"], at):
            newest = self._newest = ReadSnapshot(self._reads, row["snapshot"], at)
        return newest
