"""The replay command: fills a fresh schema from event 1, compares it with the live, switches.

A replay reads the log itself, its archive, or an exported file.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from ranker.archive.archiver import run_archiver
from ranker.archive.log_file import open_log_file
from ranker.archive.postgres import NAME, PACKAGE, Archive, open_archive
from ranker.archive.postgres import SCHEMA as ARCHIVE_SCHEMA
from ranker.domain.stored_log import StoredEvent
from ranker.postgres import PROJECTION, SCHEMA, open_read_models
from ranker.replay.postgres import Schemas, open_schemas
from ranker.service.decisions import ACTOR, Metrics, Unfoldable
from ranker.service.progress import ProjectionProgress, log_progress
from ranker.service.projection import project
from ranker.settings import Settings
from shared import subjects
from shared.clock import new_id, now
from shared.errors import Failed, Refused
from shared.event_log import Append, Appender, EventLog, EventSource, Feed, Gap, RecordedEvent
from shared.events import ProjectionSwitched
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.subprocess_feed import SubprocessFeed
from shared.postgres import migrate

WAIT_S_MAX = 30.0
POLL_S = 0.05
PAGE_MAX = 5000
# Starting a process takes as long as reading this many events (two cores, Python 3.11, 2026-11).
ASIDE_MIN = 10_000

PROJECTIONS = ("ranker", "archive")
SOURCES = ("stream", "archive", "file")
CLIENT = "ranker-replay"
DIFFERENCES_MAX = 20
# Each round folds the events that arrived during the round before.
ROUNDS_MAX = 10
CLOSE_TO_END = 1000


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
        h = stored.chain_after(h)
        if h != stored.h:
            raise Gap(f"the archive's chain breaks at event {stored.seq}: audit it, or replay it")
    return h


class ReplayInput(NamedTuple):
    """How a fresh schema is created and filled, and the last sequence of its source."""

    make: Callable[[str], object]
    fill: Callable[[str, int], Awaitable[None]]
    last: Callable[[], Awaitable[int]]


@dataclass(frozen=True)
class ReplayResult:
    """How the fresh projection compares at one sequence, and whether it is live now."""

    seq: int
    rows: Mapping[str, int]
    differences: list[dict[str, Any]]
    is_compared: bool
    is_switched: bool


async def replay_schema(schemas: Schemas, source: ReplayInput, *, switch: bool) -> ReplayResult:
    """Fold everything again beside the live tables and compare the two.

    Raises Refused if another replay is running, or the source ends before the live tables do;
    Failed.
    """
    await schemas.take_turn()
    try:
        source.make(schemas.fresh)
        is_live = await schemas.exists()
        async for until in _rounds(schemas, source, is_live=is_live):
            await source.fill(schemas.fresh, until)
        async with schemas.held():
            if is_live:
                await source.fill(schemas.fresh, await schemas.checkpoint(schemas.live))
            seq = await schemas.checkpoint(schemas.fresh)
            row_counts = await schemas.tables(schemas.fresh)
            differences = await _find_differences(schemas, row_counts) if is_live else []
            if switch:
                await schemas.switch()
        return ReplayResult(seq, row_counts, differences[:DIFFERENCES_MAX], is_live, switch)
    finally:
        await schemas.end_turn()


async def _rounds(schemas: Schemas, source: ReplayInput, *, is_live: bool) -> AsyncIterator[int]:
    """The sequences to fold up to, until little is left for when the projector waits."""
    for _ in range(ROUNDS_MAX):
        # The live tables first: they may move on while the source is asked, and it only grows.
        live = await schemas.checkpoint(schemas.live) if is_live else 0
        last = await source.last()
        if live > last:
            raise Refused(
                "source_too_short", f"the live tables are at {live}, the source ends at {last}"
            )
        until = live if is_live else last
        behind = until - await schemas.checkpoint(schemas.fresh)
        if behind > 0:
            yield until
        if behind < CLOSE_TO_END:
            return


async def _find_differences(schemas: Schemas, fresh: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows that only one of the two has; a changed row counts in both."""
    differences: list[dict[str, Any]] = []
    live = await schemas.tables(schemas.live)
    for table in fresh:
        only_live = await schemas.lacking(schemas.live, schemas.fresh, table, DIFFERENCES_MAX)
        differences += [{"kind": table, "live": row, "rebuilt": None} for row in only_live]
        # If no row is missing and the counts are equal, the other direction cannot differ.
        if only_live or live[table] != fresh[table]:
            only_fresh = await schemas.lacking(schemas.fresh, schemas.live, table, DIFFERENCES_MAX)
            differences += [{"kind": table, "live": None, "rebuilt": row} for row in only_fresh]
    return differences


async def replay_projection(settings: Settings, options: Namespace) -> dict[str, Any]:
    """Fold, compare and, with `--switch`, switch; returns a summary. Raises Refused or Failed."""
    is_archive = options.projection == "archive"
    live, package, name = (
        (ARCHIVE_SCHEMA, PACKAGE, NAME) if is_archive else (SCHEMA, "ranker", PROJECTION)
    )
    dsn = settings.postgres_dsn
    nc = await connect(settings.bus_login, CLIENT)
    try:
        log = NatsLog(nc)
        async with (
            _open_source(settings, options, log) as source,
            open_schemas(dsn, live, name) as schemas,
        ):
            fill = partial(_fill_archive if is_archive else fill_models, source, dsn)
            replay_input = ReplayInput(partial(migrate, dsn, package), fill, source.last)
            result = await replay_schema(schemas, replay_input, switch=options.switch)
            if result.is_switched:
                await _record_switch(log, schemas, result)
    except (Gap, Unfoldable) as broken:
        raise Refused("bad_source", str(broken), "source") from broken
    finally:
        await nc.close()
    # Entries and submissions are counted separately, for people to read.
    counts = {"entries": "entry", "submissions": "submission"}
    return {
        "is_equal": not result.differences,
        **{key: result.rows.get(table, 0) for key, table in counts.items()},
        **asdict(result),
    }


async def fill_models(source: EventSource, dsn: str, schema: str, until: int) -> None:
    """Fold a source up to a sequence into the read models of a schema that nobody reads."""
    async with open_read_models(dsn, schema, defer_entries=True) as models:
        progress = ProjectionProgress()
        async for _ in project(source, models, progress, Metrics(), until=until):
            log_progress("events", progress.seq, until)
        await models.update_entries()


async def _fill_archive(source: EventSource, dsn: str, schema: str, until: int) -> None:
    async with open_archive(dsn, schema) as fresh:
        await run_archiver(source, fresh, Metrics(), until=until)


@asynccontextmanager
async def _open_source(
    settings: Settings, options: Namespace, log: EventLog
) -> AsyncIterator[EventSource]:
    """The log, archive or file to read from. Raises Refused."""
    if options.source == "stream":
        open_feed = partial(SubprocessFeed, settings.bus_login, f"{CLIENT}-reader")
        async with StreamLog(log, open_feed).begun() as stream:
            yield stream
    elif options.source == "archive":
        async with open_archive(settings.postgres_dsn) as archive_store:
            yield ArchiveLog(archive_store)
    else:
        if options.file is None:
            raise Refused("no_file", "--source file needs --file FILE", "file")
        reader = open_log_file(options.file)
        yield FileLog(reader.events, reader.header.count)


async def _record_switch(log: EventLog, schemas: Schemas, result: ReplayResult) -> None:
    fact = ProjectionSwitched(
        name=schemas.name,
        from_schema=schemas.old,
        to_schema=schemas.live,
        seq=result.seq,
        is_equal=not result.differences,
    )
    aggregate = subjects.audit("projection")
    await Appender(log, ACTOR, now).append(Append(aggregate, fact, None, "", "", new_id()))
