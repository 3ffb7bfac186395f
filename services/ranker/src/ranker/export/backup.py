"""The backup and restore commands: the log, its blobs, and the tables of accounts."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ranker.archive.archiver import read_own_key
from ranker.archive.log_file import LogFileReader, LogFileWriter, open_log_file
from ranker.archive.postgres import open_archive
from ranker.archive.segments import end_truncation
from ranker.blobs import check_blobs, find_blob_digests, load_blobs, save_blobs
from ranker.domain.stored_log import (
    CHAIN_START,
    ChainVerifier,
    DamagedCopy,
    StoredEvent,
    to_stored_event,
)
from ranker.export.postgres import AccountsCopy, save_accounts
from ranker.export.seal_key import SealKeyPlan, describe_key_file, plan_seal_key
from ranker.replay.runner import ArchiveLog
from ranker.service.progress import log_progress
from ranker.settings import Settings
from shared import subjects
from shared.clock import now
from shared.errors import Failed, Refused
from shared.event_log import Append, Appender, EventLog, EventSource, Gap, NewEvent
from shared.events import LogImported
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.repair import append_raw
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.streams import ensure_streams
from shared.private_files import (
    close_empty_folder,
    create_private_folder,
    is_open_to_others,
    open_private,
)
from shared.subjects import derive_id
from shared.verdicts import verify_verdict
from shared.wire import EventMetadata, make_envelope

AppendRaw = Callable[[Sequence[tuple[str, str, bytes]], int], Awaitable[None]]
FORMAT = "warpboard-backup/1"
LOG, BLOBS, ACCOUNTS = "log", "blobs", "accounts"
# The files of a set are in the log's folder and begin with its name, so that it can be moved.
SUFFIXES = {LOG: "", BLOBS: ".blobs.tar", ACCOUNTS: ".accounts.tar.gz"}
SUFFIX = ".manifest.json"
PIECE_BYTES = 1024 * 1024
MANIFEST_BYTES_MAX = 64 * 1024 * 1024
INCOMPLETE_HINT = "give --incomplete to restore without it"
BATCH_MAX = 500
BATCH_BYTES_MAX = 8 * 1024 * 1024


class Part(msgspec.Struct, frozen=True):
    """One file of a backup."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """A backup: its log, its other parts, and the parts left out on purpose.

    `blobs_missing` are referred to by events but were not in the store when the backup was made.
    `seal_key` is where the platform had the key of its seals, which no backup contains.
    """

    format: str
    made_at: datetime
    events: int
    chain: str
    parts: dict[str, Part]
    left_out: list[str] = []
    blobs_missing: list[str] = []
    seal_key: str = ""


class BackupSet(NamedTuple):
    """The parts of a verified backup, and what it lacks."""

    parts: frozenset[str]
    lacking: Sequence[str]
    seal_key: str = ""


def part_path(file: Path, part: str) -> Path:
    """The path of a part; `file` is the backup's log."""
    return file.with_name(f"{file.name}{SUFFIXES[part]}")


def manifest_path(file: Path) -> Path:
    """The path of a backup's manifest."""
    return file.with_name(f"{file.name}{SUFFIX}")


def write_manifest(file: Path, manifest: Manifest) -> None:
    """Write the manifest atomically. It comes last: a set without it is not a backup."""
    path = manifest_path(file)
    fresh = path.with_name(f"{path.name}.part")
    with open_private(fresh) as file_:
        file_.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    fresh.replace(path)


def verify_backup(file: Path, *, is_incomplete_allowed: bool) -> BackupSet:
    """Check every file of a backup against its manifest, before anything is changed.

    Damage is always refused; a missing part is refused unless that is allowed. Raises Refused
    `no_file`, `bad_backup` or `incomplete_backup`.
    """
    if not file.exists():
        raise Refused("no_file", f"there is no file {file}", "file")
    if not manifest_path(file).exists():
        present = frozenset(part for part in SUFFIXES if part_path(file, part).exists())
        absent = sorted(SUFFIXES.keys() - present)
        lacking = [f"the manifest {manifest_path(file).name}", *absent]
        return _check_complete(BackupSet(present, lacking), is_allowed=is_incomplete_allowed)
    manifest = _read_manifest(manifest_path(file))
    lacking = [f"{part} (left out when it was made)" for part in manifest.left_out]
    parts = set[str]()
    for part, expected in manifest.parts.items():
        path = part_path(file, part)
        if not path.exists():
            lacking.append(f"{part} (there is no file {path.name})")
            continue
        _check_part(path, expected)
        parts.add(part)
    if LOG not in parts:
        raise Refused("bad_backup", f"{manifest_path(file)} names no log", "file")
    backup = BackupSet(frozenset(parts), lacking, manifest.seal_key)
    return _check_complete(backup, is_allowed=is_incomplete_allowed)


def _check_complete(backup: BackupSet, *, is_allowed: bool) -> BackupSet:
    if backup.lacking and not is_allowed:
        reason = f"the backup is incomplete, it lacks: {', '.join(backup.lacking)}"
        raise Refused("incomplete_backup", f"{reason}; {INCOMPLETE_HINT}", "file")
    return backup


def _read_manifest(path: Path) -> Manifest:
    try:
        if path.stat().st_size > MANIFEST_BYTES_MAX:
            raise Refused("bad_backup", f"{path} is over {MANIFEST_BYTES_MAX:,} bytes", "file")
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise Refused("bad_backup", f"{path} is not a backup manifest: {error}", "file") from error
    if manifest.format != FORMAT:
        reason = f"{path} has the format {manifest.format!r}, not {FORMAT!r}"
        raise Refused("bad_backup", reason, "file")
    if unknown := manifest.parts.keys() - SUFFIXES.keys():
        reason = f"{path} names unknown parts: {', '.join(sorted(unknown))}"
        raise Refused("bad_backup", reason, "file")
    return manifest


def _check_part(path: Path, expected: Part) -> None:
    size = path.stat().st_size
    if size != expected.bytes:
        reason = f"{path} has {size:,} bytes, but its manifest says {expected.bytes:,}"
        raise Refused("bad_backup", f"{reason}: it was cut off or changed", "file")
    if _describe(path).sha256 != expected.sha256:
        reason = f"{path} is not the file in its manifest: its SHA-256 differs"
        raise Refused("bad_backup", reason, "file")


def _describe(path: Path) -> Part:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return Part(size, digest.hexdigest())


class RestorePlan(NamedTuple):
    """A file that may be restored: its chain, and how many events the log has already."""

    chain: bytes
    have: int
    seal_key: SealKeyPlan | None = None


async def check_restorable(reader: LogFileReader, log: EventLog) -> RestorePlan:
    """Check a file and its log without changing anything.

    Raises Refused if the file is incomplete or changed, or the log has other events; Failed.
    """
    chain, have = _check_file(reader), await log.last()
    await _check_prefix(reader, log, have)
    return RestorePlan(chain, have)


def _check_file(reader: LogFileReader) -> bytes:
    verifier = ChainVerifier((), verify_verdict)
    try:
        for stored in reader.events():
            log_progress("events verified", stored.seq, reader.header.count)
            verifier.look(stored)
    except DamagedCopy as damaged:
        raise Refused("bad_export", damaged.reason, "file") from damaged
    if reader.end is not None and reader.end.h != verifier.chain:
        verifier.find(verifier.seq, "the chain is not the one in the file's last line")
    if verifier.findings:
        first = verifier.findings[0]
        raise Refused("bad_export", f"event {first.seq}: {first.what}", "file")
    return bytes.fromhex(verifier.chain)


async def _check_prefix(reader: LogFileReader, log: EventLog, have: int) -> None:
    """A log that is not empty must be a prefix of the file. Raises Refused."""
    if have == 0:
        return
    log_chain = await _compute_chain(log, have)
    file_chain, seq = CHAIN_START, 0
    for stored in reader.events():
        if seq == have:
            break
        file_chain, seq = stored.chain_after(file_chain), stored.seq
    if (log_chain, have) != (file_chain, seq):
        reason = f"the log has {have} events that are not the beginning of the file's"
        raise Refused("log_not_empty", f"{reason}: import into an empty one")


async def _compute_chain(log: EventSource, upto: int) -> bytes:
    h = CHAIN_START
    async with aclosing(_events(log, upto)) as events:
        async for stored in events:
            h = stored.chain_after(h)
    return h


async def export_log(
    settings: Settings, file: Path, source: str, left_out: Collection[str] = ()
) -> dict[str, Any]:
    """Back up everything except the parts in `left_out`; returns a summary.

    The log comes first and the manifest last, so that everything an event of the copied log refers
    to is copied too. Raises Refused or Failed.
    """
    nc = await connect(settings.bus_login, "ranker-export")
    parts, missing = [LOG], list[str]()
    try:
        create_private_folder(file.parent)
        close_empty_folder(file.parent)
        manifest_path(file).unlink(missing_ok=True)
        async with _open_source(settings, source, NatsLog(nc)) as log:
            summary, digests = await _write_log(log, file, read_own_key(settings))
        if BLOBS not in left_out:
            tar = part_path(file, BLOBS)
            count, missing = await save_blobs(tar, list(digests), NatsBlobStore(nc))
            summary |= {"blobs": count, "blobs_missing": missing}
            parts.append(BLOBS)
        if ACCOUNTS not in left_out:
            participants = await save_accounts(part_path(file, ACCOUNTS), settings.postgres_dsn)
            summary |= {"participants": participants}
            parts.append(ACCOUNTS)
        absent = sorted(left_out)
        described = {part: _describe(part_path(file, part)) for part in parts}
        events, chain = summary["events"], summary["chain"]
        seal_key = describe_key_file(settings)
        manifest = Manifest(FORMAT, now(), events, chain, described, absent, missing, seal_key)
        write_manifest(file, manifest)
    except Gap as gap:
        raise Failed(f"the log cannot be exported: {gap}") from gap
    except OSError as error:
        raise Refused("bad_file", f"{file} cannot be written: {error}", "file") from error
    finally:
        await nc.close()
    summary |= {"seal_key": seal_key}
    return summary | {"left_out": absent, "is_folder_open": is_open_to_others(file.parent)}


@asynccontextmanager
async def _open_source(
    settings: Settings, source: str, log: EventLog
) -> AsyncIterator[EventSource]:
    if source == "stream":
        yield log
        return
    async with open_archive(settings.postgres_dsn) as opened:
        yield ArchiveLog(opened)


async def _write_log(
    log: EventSource, file: Path, key: str | None
) -> tuple[dict[str, Any], dict[str, None]]:
    """Write the file; also returns every digest that its events refer to, in order."""
    count = await log.last()
    digests: dict[str, None] = {}
    writer = LogFileWriter(file, count, key)
    try:
        async with aclosing(_events(log, count)) as events:
            async for stored in events:
                log_progress("events", stored.seq, count)
                writer.write(stored)
                digests |= dict.fromkeys(find_blob_digests(stored.recorded.envelope))
        chain = writer.close()
    finally:
        writer.drop()
    return {"file": str(file), "events": count, "chain": chain}, digests


async def _events(log: EventSource, until: int) -> AsyncGenerator[StoredEvent, None]:
    feed, seq = log.follow(0), 0
    try:
        while seq < until:
            for event in await feed.take():
                if event.seq <= until:
                    yield to_stored_event(event)
                seq = event.seq
    finally:
        await feed.close()


async def import_log(
    settings: Settings,
    file: Path,
    actor: str,
    *,
    is_incomplete_allowed: bool = False,
    seal_key: Path | None = None,
) -> dict[str, Any]:
    """Restore a backup into an empty log and an empty database; returns a summary.

    `seal_key` is the file of the key that signed the backup's seals; without it, the change to this
    platform's own key is recorded. Nothing is changed before the whole set is verified. Raises
    Refused or Failed.
    """
    backup = verify_backup(file, is_incomplete_allowed=is_incomplete_allowed)
    reader = open_log_file(file)
    tar, accounts = part_path(file, BLOBS), part_path(file, ACCOUNTS)
    stored_blobs = check_blobs(tar) if BLOBS in backup.parts else set[str]()
    copy = AccountsCopy(accounts) if ACCOUNTS in backup.parts else None
    key_plan = plan_seal_key(settings, reader.header.key, backup.seal_key, seal_key)
    nc = await connect(settings.bus_login, "ranker-import")
    try:
        await ensure_streams(nc)
        log = NatsLog(nc)
        plan = (await check_restorable(reader, log))._replace(seal_key=key_plan)
        referred = {
            digest
            for stored in reader.events()
            for digest in find_blob_digests(stored.recorded.envelope)
        }
        missing = sorted(referred - stored_blobs)
        is_there = copy is not None and await copy.is_there(settings.postgres_dsn)
        count = (
            await load_blobs(tar, NatsBlobStore(nc), len(stored_blobs))
            if BLOBS in backup.parts
            else 0
        )
        if copy is not None and not is_there:
            await copy.load(settings.postgres_dsn, reader.header.count)
        await asyncio.to_thread(key_plan.install)
        imported = await import_events(log, partial(append_raw, nc), reader, actor, plan)
        await end_truncation(NatsSegmentedLog(nc), actor)
    finally:
        await nc.close()
    return {
        **imported,
        "seal_key": key_plan.summary(),
        "blobs": count,
        "blobs_missing": missing,
        "participants": copy.participants if copy is not None else 0,
        "lacking": list(backup.lacking),
    }


async def import_events(
    log: EventLog,
    append: AppendRaw,
    reader: LogFileReader,
    actor: str,
    plan: RestorePlan | None = None,
) -> dict[str, Any]:
    """Store the events of a file that the log lacks, and record their origin; harmless to repeat.

    A change of the seal key is recorded in the same batch.

    They keep their sequences, ids and bytes: `append` stores (subject, id, body) right after a
    sequence. Raises the same as import_log.
    """
    plan = plan or await check_restorable(reader, log)
    ids: set[str] = set()
    count = plan.have
    batch: list[tuple[str, str, bytes]] = []
    size = 0
    for stored in (event for event in reader.events() if event.seq > plan.have):
        if len(batch) == BATCH_MAX or (batch and size + len(stored.body) > BATCH_BYTES_MAX):
            log_progress("events", count, reader.header.count)
            await append(batch, count)
            count, batch, size = count + len(batch), [], 0
        # An id that was stored twice must not count as a repetition.
        id_ = f"{stored.id}.{stored.seq}" if stored.id in ids else stored.id
        ids.add(stored.id)
        batch.append((stored.subject, id_, stored.body))
        size += len(stored.body)
    if batch:
        await append(batch, count)
    count += len(batch)
    if await _compute_chain(log, count) != plan.chain:
        raise Failed("the log differs from the file after the import: do not use it")
    fact = LogImported(chain=plan.chain.hex(), count=count)
    key_change = await plan.seal_key.make_event(log, actor, count) if plan.seal_key else None
    return {
        "events": count,
        "stored": count - plan.have,
        "chain": fact.chain,
        "recorded_seq": await _record_import(log, fact, actor, key_change),
    }


async def _record_import(
    log: EventLog, fact: LogImported, actor: str, key_change: NewEvent | None
) -> int:
    """Append the origin of a log, and a change of its seal key; returns the last sequence."""
    aggregate = subjects.audit("import")
    history = await log.history(aggregate)
    version, id_ = history[-1].seq if history else 0, derive_id(fact.chain, "LogImported")
    if key_change is None:
        return await Appender(log, actor, now).append(Append(aggregate, fact, version, "", "", id_))
    envelope = make_envelope(fact, aggregate, EventMetadata(id_, now(), actor, "", ""))
    return await log.append_all([NewEvent(envelope, version), key_change])
