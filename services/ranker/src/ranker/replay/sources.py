"""The sources of a replay behind one port: the log itself, its archive, or an exported file."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice

from ranker.archive.postgres import Archive
from ranker.domain.stored_log import StoredEvent
from shared import wire
from shared.errors import Failed
from shared.event_log import EventSource, Feed, Gap, RecordedEvent
from shared.nats.subprocess_feed import SubprocessFeed

WAIT_S_MAX = 30.0
POLL_S = 0.05
PAGE_MAX = 5000
# Starting a process takes as long as reading this many events (two cores, Python 3.11, 2026-11).
ASIDE_MIN = 10_000


class StreamLog:
    """The log itself; long stretches are read in a separate process, in parallel to the fold."""

    def __init__(
        self, log: EventSource, aside: Callable[[int], SubprocessFeed], aside_min: int = ASIDE_MIN
    ) -> None:
        self._log = log
        self._open_feed = aside
        self._aside_min = aside_min
        self._last = 0
        self._first: SubprocessFeed | None = None

    @asynccontextmanager
    async def begun(self) -> AsyncIterator[EventSource]:
        """Start reading a long log while the tables are still being created."""
        if await self.last() >= self._aside_min:
            self._first = self._open_feed(0)
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
        return self._open_feed(after) if is_long else self._log.follow(after)


class ArchiveLog:
    """The log as the archive has it."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    async def last(self) -> int:
        """The last sequence that is archived."""
        return await self._archive.checkpoint()

    def follow(self, after: int) -> Feed:
        """Everything after a sequence."""
        return _ArchiveFeed(self._archive, after)


class _ArchiveFeed:
    """Reads the archive and checks the chain; prefetches a page while one is folded."""

    def __init__(self, archive: Archive, after: int) -> None:
        self._archive = archive
        self._after = after
        self._chain: bytes | None = None
        self._buffer: list[StoredEvent] = []
        self._next: asyncio.Task[list[StoredEvent]] | None = None
        self._last = after

    @property
    def behind(self) -> int:
        return max(self._last - self._after, 0)

    async def take(self, most: int = PAGE_MAX) -> list[RecordedEvent]:
        """The next events. Raises Failed if nothing is archived for 30 s; Gap."""
        if not self._buffer:
            await self._fill_buffer()
        taken, self._buffer = self._buffer[:most], self._buffer[most:]
        self._after = taken[-1].seq
        return [stored.recorded for stored in taken]

    async def _fill_buffer(self) -> None:
        if self._chain is None:
            self._chain = await self._archive.up_to(self._after)
        if self._next is None:
            self._next = asyncio.create_task(self._read_page(self._after))
        # A cancelled take has taken nothing: the page is still pending.
        try:
            page = await asyncio.shield(self._next)
        except Failed:
            self._next = None
            raise
        self._next = None
        last = _check_contiguous(page, self._after)
        self._chain = _check_chain(page, self._chain)
        self._buffer = page
        if last < self._last:
            self._next = asyncio.create_task(self._read_page(last))

    async def _read_page(self, after: int) -> list[StoredEvent]:
        until = time.monotonic() + WAIT_S_MAX
        while not (page := await self._archive.page(after, PAGE_MAX)):
            if time.monotonic() > until:
                raise Failed(f"the archive is still at event {after}: is ranker running?")
            await asyncio.sleep(POLL_S)
        if page[-1].seq >= self._last:
            self._last = await self._archive.checkpoint()
        return list(page)

    async def close(self) -> None:
        """Cancel the prefetch."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)


class FileLog:
    """The log as an exported file has it."""

    def __init__(self, events: Callable[[], Iterator[StoredEvent]], count: int) -> None:
        self._events = events
        self._count = count

    async def last(self) -> int:
        """The number of events in the file."""
        return self._count

    def follow(self, after: int) -> Feed:
        """Everything after a sequence."""
        following = (event for event in self._events() if event.seq > after)
        return _FileFeed(following, after, self._count)


class _FileFeed:
    def __init__(self, events: Iterator[StoredEvent], after: int, count: int) -> None:
        self._events = events
        self._after = after
        self._count = count

    @property
    def behind(self) -> int:
        return self._count - self._after

    async def take(self, most: int = PAGE_MAX) -> list[RecordedEvent]:
        """The next events; Gap at the end of the file."""
        page = list(islice(self._events, min(most, PAGE_MAX)))
        if not page:
            raise Gap(f"the file ends at {self._after}")
        self._after = _check_contiguous(page, self._after)
        return [stored.recorded for stored in page]

    async def close(self) -> None:
        """Nothing to do: the file closes with its last reader."""


def _check_contiguous(page: Sequence[StoredEvent], after: int) -> int:
    """The last sequence of a page without gaps. Raises Gap."""
    for expected, stored in enumerate(page, after + 1):
        if stored.seq != expected:
            raise Gap(f"expected event {expected}, got {stored.seq}")
    return page[-1].seq


def _check_chain(page: Sequence[StoredEvent], h: bytes) -> bytes:
    """The chain after a page, which must match the archive's. Raises Gap."""
    for stored in page:
        h = wire.extend_chain(h, stored.link)
        if h != stored.h:
            raise Gap(f"the archive's chain breaks at event {stored.seq}: audit it, or replay it")
    return h
