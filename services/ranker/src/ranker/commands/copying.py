"""Wires export and import of the log, and of the blobs that it names."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ranker.archive.postgres import archive
from ranker.commands.auditing import own_key
from ranker.domain.kept import Damaged, Kept, kept
from ranker.domain.named import named
from ranker.export import blobs as tar
from ranker.export.file import Reader, Writer
from ranker.export.restoring import Restored, restore
from ranker.replay.sources import ArchiveLog
from ranker.settings import Settings
from shared import subjects
from shared.clock import now
from shared.errors import Failed, Refused
from shared.event_log import EventLog, Gap, New
from shared.events import LogImported
from shared.ids import derived
from shared.nats.blobs import NatsBlobs
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.raw import append_raw
from shared.nats.streams import ensure
from shared.wire import Stamp, seal

Append = Callable[[Sequence[tuple[str, str, bytes]], int], Awaitable[None]]


async def export(
    settings: Settings, file: Path, source: str, *, with_blobs: bool
) -> dict[str, Any]:
    """Write everything that is in the log now; what was written. Errors: Refused; Failed."""
    nc = await connect(settings.nats_url, "ranker-export")
    try:
        async with _source(settings, source, NatsLog(nc)) as log:
            said, digests = await _write(log, file, own_key(settings))
        if with_blobs:
            count, missing = await tar.save(tar.beside(file), digests, NatsBlobs(nc))
            said |= {"blobs": count, "blobs_missing": missing}
    except Gap as gap:
        raise Failed(f"the log cannot be exported: {gap}") from gap
    except OSError as error:
        raise Refused("bad_file", f"{file} cannot be written: {error}", "file") from error
    finally:
        await nc.close()
    return said


@asynccontextmanager
async def _source(settings: Settings, source: str, log: EventLog) -> AsyncIterator[EventLog]:
    if source == "stream":
        yield log
        return
    async with archive(settings.postgres_dsn) as found:
        yield ArchiveLog(found)


async def _write(
    log: EventLog, file: Path, key: str | None
) -> tuple[dict[str, Any], dict[str, None]]:
    """The file, and every digest that its events name, in their order."""
    count = await log.last()
    digests: dict[str, None] = {}
    writer = Writer(file, count, key)
    try:
        async with aclosing(_events(log, count)) as events:
            async for one in events:
                writer.write(one)
                digests |= dict.fromkeys(named(one.recorded.envelope))
        chain = writer.close()
    finally:
        writer.drop()
    return {"file": str(file), "events": count, "chain": chain}, digests


async def _events(log: EventLog, until: int) -> AsyncGenerator[Kept, None]:
    feed, seq = log.follow(0), 0
    try:
        while seq < until:
            for event in await feed.take():
                if event.seq <= until:
                    yield kept(event)
                seq = event.seq
    finally:
        await feed.close()


async def import_(settings: Settings, file: Path, actor: str) -> dict[str, Any]:
    """Fill an empty log, blobs first; what is there now. Errors: Refused; Failed."""
    try:
        reader = Reader(file)
    except Damaged as damaged:
        raise Refused("bad_export", damaged.what, "file") from damaged
    nc = await connect(settings.nats_url, "ranker-import")
    try:
        await ensure(nc)
        beside = tar.beside(file)
        blobs = await tar.load(beside, NatsBlobs(nc)) if beside.exists() else 0
        done = await import_events(NatsLog(nc), partial(append_raw, nc), reader, actor)
    finally:
        await nc.close()
    return {**done, "blobs": blobs}


async def import_events(
    log: EventLog, append: Append, reader: Reader, actor: str
) -> dict[str, Any]:
    """Store what the log lacks of a file, and record where it came from. Errors: as import_.

    `append` stores (subject, id, body) right after a sequence.
    """
    seen: set[str] = set()

    async def store(batch: Sequence[Kept], after: int) -> None:
        await append([_draft(one, seen) for one in batch], after)

    done = await restore(reader, log, store)
    return {**done._asdict(), "recorded_seq": await _record(log, done, actor)}


def _draft(one: Kept, seen: set[str]) -> tuple[str, str, bytes]:
    """What is stored of an event; what was once stored twice must not be taken for a repeat."""
    id_ = f"{one.id}.{one.seq}" if one.id in seen else one.id
    seen.add(one.id)
    return one.subject, id_, one.body


async def _record(log: EventLog, done: Restored, actor: str) -> int:
    """Say where this log comes from."""
    fact, agg = LogImported(chain=done.chain, count=done.events), subjects.audit("import")
    history = await log.history(agg)
    stamp = Stamp(derived(done.chain, "LogImported"), now(), actor, "", "")
    return await log.append(New(seal(fact, agg, stamp), history[-1].seq if history else 0))
