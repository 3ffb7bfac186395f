"""The replay command: fills a fresh schema from event 1, compares it with the live, switches."""

from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

from ranker.archive.archiver import run_archiver
from ranker.archive.log_file import open_log_file
from ranker.archive.postgres import NAME, PACKAGE, SCHEMA, open_archive
from ranker.postgres import PROJECTION, open_read_models
from ranker.replay.postgres import Schemas, open_schemas
from ranker.replay.sources import ArchiveLog, FileLog, StreamLog
from ranker.service.decisions import ACTOR
from ranker.service.ports import Metrics, Unfoldable
from ranker.service.progress import ProjectionProgress, log_progress
from ranker.service.projection import project
from ranker.settings import Settings
from shared import subjects
from shared.clock import new_id, now
from shared.decider import Append
from shared.errors import Refused
from shared.event_log import Appender, EventLog, EventSource, Gap
from shared.events import ProjectionSwitched
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.subprocess_feed import SubprocessFeed
from shared.postgres import migrate

PROJECTIONS = ("ranker", "archive")
SOURCES = ("stream", "archive", "file")
CLIENT = "ranker-replay"
DIFFERENCES_MAX = 20
# Each round folds the events that arrived during the round before.
ROUNDS_MAX = 10
NEAR = 1000


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
        if behind < NEAR:
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


async def replay_projection(settings: Settings, schema: str, options: Namespace) -> dict[str, Any]:
    """Fold, compare and, with `--switch`, switch; returns a summary. Raises Refused or Failed."""
    is_archive = options.projection == "archive"
    live, package, name = (SCHEMA, PACKAGE, NAME) if is_archive else (schema, "ranker", PROJECTION)
    dsn = settings.postgres_dsn
    nc = await connect(settings.nats_url, CLIENT)
    try:
        log = NatsLog(nc)
        async with (
            _open_source(settings, options, log) as source,
            open_schemas(dsn, live, name) as schemas,
        ):
            fill = partial(_fill_archive if is_archive else _fill_models, source, dsn)
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


async def _fill_models(source: EventSource, dsn: str, schema: str, until: int) -> None:
    async with open_read_models(dsn, schema) as models:
        progress = ProjectionProgress()
        async for _ in project(source, models, progress, Metrics(), until=until):
            log_progress("events", progress.seq, until)


async def _fill_archive(source: EventSource, dsn: str, schema: str, until: int) -> None:
    async with open_archive(dsn, schema) as fresh:
        await run_archiver(source, fresh, Metrics(), until=until)


@asynccontextmanager
async def _open_source(
    settings: Settings, options: Namespace, log: EventLog
) -> AsyncIterator[EventSource]:
    """The log, archive or file to read from. Raises Refused."""
    if options.source == "stream":
        open_feed = partial(SubprocessFeed, settings.nats_url, f"{CLIENT}-reader")
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
    agg = subjects.audit("projection")
    await Appender(log, ACTOR, now).append(Append(agg, fact, None, "", "", new_id()))
