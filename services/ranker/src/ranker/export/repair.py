"""The scrub command, and the repair of a log from its archive through a file."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from ranker.archive.archiver import read_own_key
from ranker.archive.comparison import EventPair, ScrubReport, Stretch, compare, read_pairs
from ranker.archive.log_file import LogFileReader, LogFileWriter
from ranker.archive.postgres import PACKAGE, SCHEMA, Archive, open_archive
from ranker.archive.segments import end_truncation
from ranker.domain.stored_log import DamagedCopy, StoredEvent, to_stored_event
from ranker.export.backup import import_events
from ranker.settings import Settings
from shared import subjects
from shared.clock import now
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.health import name_ranges
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.repair import ConsumerPosition, LogRepair
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.streams import ensure_streams
from shared.postgres import migrate
from shared.private_files import create_private_folder, open_private
from shared.wire import read_envelope

# The agent name of placeholders; a real agent of this name has no such run.
LOST = "lost"


def check_repairable(report: ScrubReport, *, overwrite: bool, accept_loss: bool) -> None:
    """Refuse a repair that is impossible or needs an option. Raises Refused."""
    if report.archive_findings:
        first = report.archive_findings[0]
        raise Refused(
            "archive_damaged",
            f"the archive is damaged: event {first.seq}: {first.what}; {_advice(report)}",
        )
    if report.lost.count and not accept_loss:
        lost = name_ranges(report.lost.ranges)
        raise Refused(
            "events_lost",
            f"neither the log nor the archive has events {lost}: restore a backup, "
            "or repair without them with --accept-loss",
        )
    if report.differing.count and not overwrite:
        differing = name_ranges(report.differing.ranges)
        raise Refused(
            "events_differ",
            f"the log has other events than the archive at {differing}; "
            "replace them with the archive's with --overwrite",
        )


def _advice(report: ScrubReport) -> str:
    if report.is_log_whole:
        rebuild = "warpboard server replay --projection archive --switch"
        return f"the log is whole and needs no repair: start the platform and run {rebuild}"
    return "restore a backup instead"


def make_placeholder(seq: int) -> StoredEvent:
    """A placeholder for a lost event, so that all others keep their sequences.

    It is on a subject of an agent and means nothing: every reader drops it, and an audit names it
    as ignored.
    """
    aggregate, body = subjects.report(LOST, f"e{seq}"), b"{}"
    return to_stored_event(RecordedEvent(seq, read_envelope(aggregate, seq, body), body))


async def write_repaired(
    pairs: AsyncIterator[EventPair], file: Path, count: int, key: str | None
) -> str:
    """Write the repaired log of `count` events; returns its chain in hex.

    Lost events are replaced by placeholders.
    """
    writer = LogFileWriter(file, count, key)
    try:
        async for pair in pairs:
            writer.write(pair.archived or pair.logged or make_placeholder(pair.seq))
        chain = writer.close()
    finally:
        writer.drop()
    await asyncio.to_thread(_sync, file)
    return chain


def _sync(file: Path) -> None:
    """Flush a file to disk: the damaged log is deleted next, so this is the only copy."""
    for path in (file, file.absolute().parent):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def read_repaired(file: Path, count: int) -> LogFileReader:
    """Open a repaired log that was written before. Raises Refused if it is not of this log."""
    try:
        reader = LogFileReader(file)
    except DamagedCopy as damaged:
        raise Refused("bad_export", f"{file}: {damaged.reason}", "file") from damaged
    if reader.header.count < count:
        raise Refused(
            "bad_file",
            f"{file} has {reader.header.count} events, not the {count} of the log or its archive: "
            "name a file that does not exist yet",
            "file",
        )
    return reader


async def scrub_log(settings: Settings) -> ScrubReport:
    """Compare the log with its archive, event by event, and store the result for the services.

    Raises Refused or Failed.
    """
    await asyncio.to_thread(migrate, settings.postgres_dsn, PACKAGE, SCHEMA)
    nc = await connect(settings.bus_login, "ranker-scrub")
    try:
        await ensure_streams(nc, settings.replicas)
        async with open_archive(settings.postgres_dsn) as copy:
            log, began_at = LogRepair(nc), now()
            report, _ = await _scrub(settings, log, copy)
            await log.write_scrub_state(report.state(began_at, now()))
            return report
    finally:
        await nc.close()


async def repair_log(
    settings: Settings, file: Path, actor: str, *, overwrite: bool, accept_loss: bool
) -> dict[str, Any]:
    """Put back what the log lacks, through a file with the whole log; harmless to repeat.

    Nobody else may write meanwhile. Raises Refused or Failed.
    """
    await asyncio.to_thread(migrate, settings.postgres_dsn, PACKAGE, SCHEMA)
    is_file_written = await asyncio.to_thread(file.exists)
    await asyncio.to_thread(create_private_folder, file.parent)
    # The positions of the log's readers are stored beside the repaired log.
    places_path = file.with_name(f"{file.name}.places")
    nc = await connect(settings.bus_login, "ranker-repair")
    try:
        await ensure_streams(nc, settings.replicas)
        log = LogRepair(nc)
        async with open_archive(settings.postgres_dsn) as copy:
            report, stretch = await _scrub(settings, log, copy)
            if report.is_clean and not is_file_written:
                await log.write_scrub_state(report.state(now(), now()))
                return {"is_repaired": False, **report.data()}
            count = report.found_seq
            if not is_file_written:
                check_repairable(report, overwrite=overwrite, accept_loss=accept_loss)
                places = msgspec.json.encode(await log.read_places())
                with open_private(places_path) as places_file:
                    places_file.write(places)
                pairs = read_pairs(log, copy, stretch._replace(last_seq=count))
                await write_repaired(pairs, file, count, read_own_key(settings))
        reader = read_repaired(file, count if not report.is_clean else 0)
        if not (report.is_clean or report.is_beginning):
            await log.replace()
        imported = await import_events(NatsLog(nc), log.append, reader, actor)
        await end_truncation(NatsSegmentedLog(nc), actor)
        if await asyncio.to_thread(places_path.exists):
            places = await asyncio.to_thread(places_path.read_bytes)
            await log.restore_places(msgspec.json.decode(places, type=list[ConsumerPosition]))
        await log.forget_known_seq()
    finally:
        await nc.close()
    return {"is_repaired": True, **report.data(), **imported, "file": str(file)}


async def _scrub(settings: Settings, log: LogRepair, copy: Archive) -> tuple[ScrubReport, Stretch]:
    """Compare all events; the archive is also checked against its chain and seals."""
    # The log is read last: it has had everything that is archived or known to a service.
    archive_last_seq, known_seq = await copy.checkpoint(), await log.known_seq()
    log_last_seq = await log.last_seq()
    last_seq = max(archive_last_seq, log_last_seq, known_seq)
    stretch = Stretch(0, last_seq, log_last_seq, archive_last_seq)
    key = read_own_key(settings)
    return await compare(log, copy, stretch, [key] if key else []), stretch
