"""Wires backup and restore: the log, the blobs that it names, and the tables of accounts."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ranker.archive.postgres import archive
from ranker.commands.auditing import own_key
from ranker.domain.kept import Damaged, Kept, kept
from ranker.domain.named import named
from ranker.export import blobs
from ranker.export.file import Reader, Writer
from ranker.export.manifest import (
    ACCOUNTS,
    BLOBS,
    FORMAT,
    LOG,
    Manifest,
    describe_parts,
    manifest_of,
    path_of,
    verify_backup,
    write_manifest,
)
from ranker.export.postgres import AccountsCopy, save_accounts
from ranker.export.restoring import Checked, Restored, check_restorable, store_events
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
    settings: Settings, file: Path, source: str, left_out: Collection[str] = ()
) -> dict[str, Any]:
    """Back up everything that is there now, except `left_out`; what was written.

    The log comes first and the manifest last: what belongs to an event of the copied log was
    there before it. Errors: Refused; Failed.
    """
    nc = await connect(settings.nats_url, "ranker-export")
    parts, missing = [LOG], list[str]()
    try:
        manifest_of(file).unlink(missing_ok=True)
        async with _source(settings, source, NatsLog(nc)) as log:
            said, digests = await _write(log, file, own_key(settings))
        if BLOBS not in left_out:
            tar = path_of(file, BLOBS)
            count, missing = await blobs.save(tar, digests, NatsBlobs(nc))
            said |= {"blobs": count, "blobs_missing": missing}
            parts.append(BLOBS)
        if ACCOUNTS not in left_out:
            people = await save_accounts(path_of(file, ACCOUNTS), settings.postgres_dsn)
            said |= {"participants": people}
            parts.append(ACCOUNTS)
        found, absent = describe_parts(file, parts), sorted(left_out)
        events, chain = said["events"], said["chain"]
        manifest = Manifest(FORMAT, now(), events, chain, found, absent, missing)
        write_manifest(file, manifest)
    except Gap as gap:
        raise Failed(f"the log cannot be exported: {gap}") from gap
    except OSError as error:
        raise Refused("bad_file", f"{file} cannot be written: {error}", "file") from error
    finally:
        await nc.close()
    return said | {"left_out": absent}


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


async def import_(
    settings: Settings, file: Path, actor: str, *, is_incomplete_allowed: bool = False
) -> dict[str, Any]:
    """Restore a backup into an empty log and an empty database; what is there now.

    Nothing is changed before the whole set is verified. Errors: Refused; Failed.
    """
    backup = verify_backup(file, is_incomplete_allowed=is_incomplete_allowed)
    try:
        reader = Reader(file)
    except Damaged as damaged:
        raise Refused("bad_export", damaged.what, "file") from damaged
    tar, people = path_of(file, BLOBS), path_of(file, ACCOUNTS)
    kept_blobs = blobs.check_blobs(tar) if BLOBS in backup.parts else set[str]()
    copy = AccountsCopy(people) if ACCOUNTS in backup.parts else None
    nc = await connect(settings.nats_url, "ranker-import")
    try:
        await ensure(nc)
        log = NatsLog(nc)
        checked = await check_restorable(reader, log)
        missing = sorted(_named_in(reader) - kept_blobs)
        is_there = copy is not None and await copy.is_there(settings.postgres_dsn)
        count = await blobs.load(tar, NatsBlobs(nc)) if BLOBS in backup.parts else 0
        if copy is not None and not is_there:
            await copy.load(settings.postgres_dsn, reader.header.count)
        done = await import_events(log, partial(append_raw, nc), reader, actor, checked)
    finally:
        await nc.close()
    return {
        **done,
        "blobs": count,
        "blobs_missing": missing,
        "participants": copy.participants if copy is not None else 0,
        "lacking": list(backup.lacking),
    }


async def import_events(
    log: EventLog, append: Append, reader: Reader, actor: str, checked: Checked | None = None
) -> dict[str, Any]:
    """Store what the log lacks of a file, and record where it came from. Errors: as import_.

    `append` stores (subject, id, body) right after a sequence.
    """
    seen: set[str] = set()

    async def store(batch: Sequence[Kept], after: int) -> None:
        await append([_draft(one, seen) for one in batch], after)

    checked = checked or await check_restorable(reader, log)
    done = await store_events(reader, log, store, checked)
    return {**done._asdict(), "recorded_seq": await _record(log, done, actor)}


def _named_in(reader: Reader) -> set[str]:
    """Every digest that the events of a file name."""
    return {digest for one in reader.events() for digest in named(one.recorded.envelope)}


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
