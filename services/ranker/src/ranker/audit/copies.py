"""The copies of the log that can be audited: the archive beside the log itself, or a file."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from ranker.domain.kept import Damaged, Kept
from ranker.domain.scrutiny import Finding
from shared import chain
from shared.event_log import EventLog, Feed, Gap, Recorded

PAGE = 2000


class Pages(Protocol):
    """The archive, page by page."""

    async def checkpoint(self) -> int:
        """The last sequence that should be archived."""
        ...

    async def page(self, after: int, limit: int) -> Sequence[Kept]:
        """The next events after one."""
        ...


class ArchiveCopy:
    """Every event of the archive, each beside the same event of the log."""

    def __init__(self, archive: Pages, log: EventLog) -> None:
        self._archive = archive
        self._log = log
        self._findings: list[Finding] = []
        self._beside: Iterator[Recorded] = iter(())
        self._last = 0
        self._read = 0

    def findings(self) -> Sequence[Finding]:
        """The first place where the log is not what the archive has."""
        return self._findings

    async def events(self) -> AsyncIterator[Kept]:
        """Every event of the archive up to where it was when this began."""
        end, done = await self._archive.checkpoint(), 0
        self._last = await self._log.last()
        if self._last < end:
            what = f"the log ends at {self._last}, but its archive has {end} events"
            self._findings.append(Finding(self._last + 1, what))
        feed = self._log.follow(0)
        try:
            while page := await self._archive.page(done, min(PAGE, max(end - done, 1))):
                for one in page[: end - done]:
                    await self._compare(feed, one)
                    yield one
                done = page[-1].seq
                if done >= end:
                    break
        finally:
            await feed.close()
        if done < end:
            self._findings.append(Finding(done + 1, f"the archive ends at {done}, not at {end}"))

    async def _compare(self, feed: Feed, one: Kept) -> None:
        """Until a first difference; from there on the archive is looked at alone."""
        while not self._findings and one.seq <= self._last:
            event = await self._next(feed)
            if event is None or event.seq == one.seq:
                if event is not None and event.body != one.body:
                    what = "the log and its archive have different events here"
                    self._findings.append(Finding(one.seq, what))
                return

    async def _next(self, feed: Feed) -> Recorded | None:
        event = next(self._beside, None)
        if event is not None:
            return event
        try:
            page = await feed.take(PAGE)
        except Gap as error:
            self._findings.append(Finding(self._read + 1, f"the log cannot be read: {error}"))
            return None
        self._read, self._beside = page[-1].seq, iter(page)
        return next(self._beside)


class Lines(Protocol):
    """An exported file."""

    def events(self) -> Iterator[Kept]:
        """Every event, in the file's order. Errors: Damaged."""
        ...

    @property
    def last_h(self) -> str | None:
        """The chain that the file itself claims for its last event, hex; None before its end."""
        ...


class FileCopy:
    """Every event of an exported file; no server is needed."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._findings: list[Finding] = []

    def findings(self) -> Sequence[Finding]:
        """Where the file is damaged, or not what it says of itself."""
        return self._findings

    async def events(self) -> AsyncIterator[Kept]:
        """Every event up to the first damage."""
        h, seq = chain.START, 0
        try:
            for one in self._lines.events():
                h, seq = chain.after(h, one.link), one.seq
                yield one
        except Damaged as damaged:
            self._findings.append(Finding(damaged.seq + 1, damaged.what))
            return
        if self._lines.last_h != h.hex():
            self._findings.append(Finding(seq, "the chain is not the one in the last line"))
