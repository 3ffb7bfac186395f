"""What a replay reads: the log itself, its archive, or an exported file, by one port."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Protocol

from ranker.domain.kept import Kept
from shared import chain
from shared.errors import Failed
from shared.event_log import EventLog, Feed, Gap, New, Recorded

WAIT_S_MAX = 30.0
POLL_S = 0.05
PAGE_MAX = 5000
# To start a process takes as long as to read so many events (two cores, Python 3.11, 2026-11).
ASIDE_MIN = 10_000


class Pages(Protocol):
    """The archive, page by page."""

    async def checkpoint(self) -> int:
        """The last sequence that is archived."""
        ...

    async def up_to(self, seq: int) -> bytes:
        """The chain up to an event."""
        ...

    async def page(self, after: int, limit: int) -> Sequence[Kept]:
        """The next events after one."""
        ...


class _Copy:
    """A copy of the log: it can be read, and nothing else."""

    async def append(self, event: New) -> int:
        """Never."""
        raise TypeError(f"a copy of the log takes no {event.envelope.type}")

    async def append_all(self, events: Sequence[New]) -> int:
        """Never."""
        raise TypeError(f"a copy of the log takes no {len(events)} events")

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """Never: a copy is read from one end to the other."""
        raise TypeError(f"a copy of the log has no history of {agg} after {after}")


class Aside(Feed, Protocol):
    """A feed that is read by a process beside."""

    async def start(self) -> None:
        """Have the process begin."""
        ...


class StreamLog(_Copy):
    """The log itself; much of it is read by a process beside, for two read and fold sooner."""

    def __init__(
        self, log: EventLog, aside: Callable[[int], Aside], aside_min: int = ASIDE_MIN
    ) -> None:
        self._log = log
        self._aside = aside
        self._aside_min = aside_min
        self._last = 0
        self._first: Aside | None = None

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[EventLog]:
        """Have a long log read from its beginning while the tables are still being made."""
        if await self.last() >= self._aside_min:
            self._first = self._aside(0)
            await self._first.start()
        try:
            yield self
        finally:
            if self._first is not None:
                await self._first.close()

    async def last(self) -> int:
        """The sequence of the newest event."""
        self._last = await self._log.last()
        return self._last

    def follow(self, after: int) -> Feed:
        """Everything after a sequence."""
        if after == 0 and self._first is not None:
            first, self._first = self._first, None
            return first
        is_long = self._last - after >= self._aside_min
        return self._aside(after) if is_long else self._log.follow(after)


class ArchiveLog(_Copy):
    """The log as its archive has it."""

    def __init__(self, archive: Pages) -> None:
        self._archive = archive

    async def last(self) -> int:
        """The last sequence that is archived."""
        return await self._archive.checkpoint()

    def follow(self, after: int) -> Feed:
        """Everything after a sequence."""
        return _ArchiveFeed(self._archive, after)


class _ArchiveFeed:
    """The archive, each event held against its chain; the next page comes while one is folded."""

    def __init__(self, archive: Pages, after: int) -> None:
        self._archive = archive
        self._after = after
        self._chain: bytes | None = None
        self._here: list[Kept] = []
        self._next: asyncio.Task[list[Kept]] | None = None
        self._last = after

    @property
    def behind(self) -> int:
        return max(self._last - self._after, 0)

    async def take(self, most: int = PAGE_MAX) -> list[Recorded]:
        """The next events. Errors: Failed if the archiver brings none for 30 s; Gap."""
        if not self._here:
            await self._turn()
        taken, self._here = self._here[:most], self._here[most:]
        self._after = taken[-1].seq
        return [one.recorded for one in taken]

    async def _turn(self) -> None:
        """Have the next page at hand, and the one after it asked for."""
        if self._chain is None:
            self._chain = await self._archive.up_to(self._after)
        if self._next is None:
            self._next = asyncio.create_task(self._page(self._after))
        # A take that is cancelled has taken nothing: the page is still to come.
        try:
            page = await asyncio.shield(self._next)
        except Failed:
            self._next = None
            raise
        self._next = None
        last = _contiguous(page, self._after)
        self._chain = _chained(page, self._chain)
        self._here = page
        if last < self._last:
            self._next = asyncio.create_task(self._page(last))

    async def _page(self, after: int) -> list[Kept]:
        until = time.monotonic() + WAIT_S_MAX
        while not (page := await self._archive.page(after, PAGE_MAX)):
            if time.monotonic() > until:
                raise Failed(f"the archive stands at {after}: is ranker running?")
            await asyncio.sleep(POLL_S)
        if page[-1].seq >= self._last:
            self._last = await self._archive.checkpoint()
        return list(page)

    async def close(self) -> None:
        """Let the page go that is still to come."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)


class FileLog(_Copy):
    """The log as an exported file has it."""

    def __init__(self, events: Callable[[], Iterator[Kept]], count: int) -> None:
        self._events = events
        self._count = count

    async def last(self) -> int:
        """How many events the file has."""
        return self._count

    def follow(self, after: int) -> Feed:
        """Everything after a sequence."""
        rest = (one for one in self._events() if one.seq > after)
        return _FileFeed(rest, after, self._count)


class _FileFeed:
    def __init__(self, events: Iterator[Kept], after: int, count: int) -> None:
        self._events = events
        self._after = after
        self._count = count

    @property
    def behind(self) -> int:
        return self._count - self._after

    async def take(self, most: int = PAGE_MAX) -> list[Recorded]:
        """The next events; Gap at the end of the file, for nothing more will ever come."""
        page = list(islice(self._events, min(most, PAGE_MAX)))
        if not page:
            raise Gap(f"the file ends at {self._after}")
        self._after = _contiguous(page, self._after)
        return [one.recorded for one in page]

    async def close(self) -> None:
        """The file closes with its last reader."""


def _contiguous(page: Sequence[Kept], after: int) -> int:
    """The last sequence of a page. Errors: Gap."""
    for place, one in enumerate(page, after + 1):
        if one.seq != place:
            raise Gap(f"after event {place - 1} came {one.seq}")
    return page[-1].seq


def _chained(page: Sequence[Kept], h: bytes) -> bytes:
    """The chain after a page, which has to be what the archive says. Errors: Gap."""
    for one in page:
        h = chain.after(h, one.link)
        if h != one.h:
            raise Gap(f"the archive's chain breaks at event {one.seq}: audit it, or replay it")
    return h
