"""Wires a replay: which projection, from which source, and the record of a switch."""

from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from ranker.archive import postgres as archives
from ranker.archive.keeping import keep
from ranker.domain.kept import Damaged
from ranker.export.file import Reader as FileReader
from ranker.postgres import PROJECTION, read_models
from ranker.replay import replaying
from ranker.replay.postgres import schemas
from ranker.replay.replaying import Filling, Replayed
from ranker.replay.sources import ArchiveLog, FileLog, StreamLog
from ranker.service import News, Unfoldable, project
from ranker.settings import Settings
from shared import subjects
from shared.clock import new_id, now
from shared.errors import Refused
from shared.event_log import EventLog, Gap, New, Recorded
from shared.events import ProjectionSwitched, SubmissionFinished
from shared.nats.aside import AsideFeed
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.postgres import migrate
from shared.wire import Stamp, seal

PROJECTIONS = ("ranker", "archive")
SOURCES = ("stream", "archive", "file")
ACTOR = "service:ranker"
CLIENT = "ranker-replay"

Fill = Callable[[EventLog, str, str, int], Awaitable[None]]


class Unwatched:
    """Nobody scrapes a process that ends by itself."""

    def folded(self, batch: Sequence[Recorded], behind: int) -> None:
        """Nothing to count."""

    def parked(self, events: int) -> None:
        """Nothing to count."""

    def decided(self, end: SubmissionFinished) -> None:
        """Nothing to count."""

    def archived(self, seq: int, behind: int) -> None:
        """Nothing to count."""

    def sealed(self) -> None:
        """Nothing to count."""


class _Projection(NamedTuple):
    """Where a projection lives, how its tables are made, and how they are filled."""

    schema: str
    package: str
    name: str
    fill: Fill


async def replay(settings: Settings, schema: str, asked: Namespace) -> dict[str, Any]:
    """Fold, compare, and switch if asked to; what came of it. Errors: Refused; Failed."""
    chosen = _projection(asked.projection, schema)
    dsn = settings.postgres_dsn
    nc = await connect(settings.nats_url, CLIENT)
    try:
        log = NatsLog(nc)
        async with (
            _source(settings, asked, log) as source,
            schemas(dsn, chosen.schema, chosen.name) as both,
        ):
            filling = Filling(
                make=partial(migrate, dsn, chosen.package),
                fill=partial(chosen.fill, source, dsn),
                last=source.last,
            )
            done = await replaying.replay(both, filling, switch=asked.switch)
            if done.is_switched:
                await _record(log, chosen, both.old, done)
    except (Gap, Unfoldable) as broken:
        raise Refused("bad_source", str(broken), "source") from broken
    finally:
        await nc.close()
    return _said(done)


def _projection(name: str, schema: str) -> _Projection:
    if name == "archive":
        return _Projection(archives.SCHEMA, archives.PACKAGE, archives.NAME, _fill_archive)
    return _Projection(schema, "ranker", PROJECTION, _fill_models)


async def _fill_models(source: EventLog, dsn: str, schema: str, until: int) -> None:
    async with read_models(dsn, schema) as models:
        async for _ in project(source, models, News(), Unwatched(), until=until):
            pass


async def _fill_archive(source: EventLog, dsn: str, schema: str, until: int) -> None:
    async with archives.archive(dsn, schema) as fresh:
        await keep(source, fresh, Unwatched(), until=until)


@asynccontextmanager
async def _source(settings: Settings, asked: Namespace, log: EventLog) -> AsyncIterator[EventLog]:
    """Where the events come from. Errors: Refused."""
    if asked.source == "stream":
        aside = partial(AsideFeed, settings.nats_url, f"{CLIENT}-reader")
        async with StreamLog(log, aside).begun() as begun:
            yield begun
    elif asked.source == "archive":
        async with archives.archive(settings.postgres_dsn) as kept:
            yield ArchiveLog(kept)
    else:
        yield _file(asked)


def _file(asked: Namespace) -> EventLog:
    if asked.file is None:
        raise Refused("no_file", "--source file needs --file FILE", "file")
    try:
        reader = FileReader(asked.file)
    except Damaged as damaged:
        raise Refused("bad_export", damaged.what, "file") from damaged
    return FileLog(reader.events, reader.header.count)


async def _record(log: EventLog, chosen: _Projection, old: str, done: Replayed) -> None:
    """Say that readers see other tables now."""
    fact = ProjectionSwitched(
        name=chosen.name,
        from_schema=old,
        to_schema=chosen.schema,
        seq=done.seq,
        is_equal=not done.differences,
    )
    stamp = Stamp(new_id(), now(), ACTOR, "", "")
    await log.append(New(seal(fact, subjects.audit("projection"), stamp), None))


def _said(done: Replayed) -> dict[str, Any]:
    """What came of it; entries and submissions are named for themselves, as people count them."""
    counts = {"entries": done.rows.get("entry", 0), "submissions": done.rows.get("submission", 0)}
    return {"is_equal": not done.differences, **counts, **asdict(done)}
