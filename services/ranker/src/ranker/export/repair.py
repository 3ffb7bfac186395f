"""The scrub command, and the repair of a log from its archive through a file."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ranker.archive.archiver import read_own_key
from ranker.archive.log_file import LogFileReader, LogFileWriter
from ranker.archive.postgres import PACKAGE, SCHEMA, Archive, open_archive
from ranker.domain.stored_log import ChainVerifier, DamagedCopy, StoredEvent, to_stored_event
from ranker.export.backup import import_events
from ranker.settings import Settings
from shared import subjects
from shared.api.audits import Finding
from shared.errors import Refused
from shared.event_log import RecordedEvent
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.repair import ConsumerPosition, LogRepair
from shared.nats.streams import ensure_streams
from shared.postgres import migrate
from shared.signing import verify_verdict
from shared.wire import read_envelope

RANGES_MAX = 100


class EventPair(NamedTuple):
    """One sequence: its event in the log and in the archive."""

    seq: int
    logged: StoredEvent | None
    archived: StoredEvent | None


async def pair_events(
    logged: AsyncIterator[StoredEvent], archived: AsyncIterator[StoredEvent], last_seq: int
) -> AsyncIterator[EventPair]:
    """Yield every sequence up to the last with the events of both; both inputs are in order."""
    log_event, archive_event = await anext(logged, None), await anext(archived, None)
    for seq in range(1, last_seq + 1):
        while log_event is not None and log_event.seq < seq:
            log_event = await anext(logged, None)
        while archive_event is not None and archive_event.seq < seq:
            archive_event = await anext(archived, None)
        yield EventPair(
            seq,
            log_event if log_event is not None and log_event.seq == seq else None,
            archive_event if archive_event is not None and archive_event.seq == seq else None,
        )


@dataclass
class Sequences:
    """Sequences in order, stored as ranges: all are counted, the first 100 ranges are named.

    >>> some = Sequences()
    >>> for seq in (3, 4, 5, 9):
    ...     some.add(seq)
    >>> some.count, some.ranges
    (4, [(3, 5), (9, 9)])
    """

    count: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)
    is_full: bool = False

    def add(self, seq: int) -> None:
        """Add a sequence greater than all before."""
        self.count += 1
        if self.ranges and self.ranges[-1][1] == seq - 1 and not self.is_full:
            self.ranges[-1] = (self.ranges[-1][0], seq)
        elif len(self.ranges) < RANGES_MAX:
            self.ranges.append((seq, seq))
        else:
            self.is_full = True

    @property
    def first(self) -> int | None:
        """The lowest sequence."""
        return self.ranges[0][0] if self.ranges else None


@dataclass
class ScrubReport:
    """The result of a scrub. `last_seq` is the last sequence that any source knows.

    `missing` are in the archive but not in the log, `lost` in neither, `differing` have different
    events in the two, `unarchived` are not in the archive yet. `found_seq` is the last sequence
    with an event in either.
    """

    last_seq: int
    log_last_seq: int
    archive_last_seq: int
    found_seq: int = 0
    missing: Sequences = field(default_factory=Sequences)
    lost: Sequences = field(default_factory=Sequences)
    differing: Sequences = field(default_factory=Sequences)
    unarchived: Sequences = field(default_factory=Sequences)
    archive_findings: Sequence[Finding] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the log has every event, and the archive the same ones as far as it goes."""
        is_complete = not (self.missing.count or self.lost.count or self.differing.count)
        return is_complete and not self.archive_findings

    @property
    def is_beginning(self) -> bool:
        """Whether the log is intact up to its last event and only lacks what follows."""
        first = self.missing.first or self.lost.first or self.log_last_seq + 1
        return first > self.log_last_seq and not self.differing.count

    def take(self, pair: EventPair) -> None:
        """Record the findings of the next sequence."""
        if pair.logged is not None or pair.archived is not None:
            self.found_seq = pair.seq
        if pair.logged is None:
            (self.lost if pair.archived is None else self.missing).add(pair.seq)
        elif pair.archived is None:
            if pair.seq > self.archive_last_seq:
                self.unarchived.add(pair.seq)
        elif pair.logged.link != pair.archived.link:
            self.differing.add(pair.seq)

    def data(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "is_clean": self.is_clean,
            "last_seq": self.last_seq,
            "log_last_seq": self.log_last_seq,
            "archive_last_seq": self.archive_last_seq,
            "found_seq": self.found_seq,
            **{
                name: {"count": getattr(self, name).count, "ranges": getattr(self, name).ranges}
                for name in ("missing", "lost", "differing", "unarchived")
            },
            "archive_findings": msgspec.to_builtins(self.archive_findings),
        }


RANGES_SHOWN = 5
# The agent name of placeholders; a real agent of this name has no such run.
LOST = "lost"


def check_repairable(report: ScrubReport, *, overwrite: bool, accept_loss: bool) -> None:
    """Refuse a repair that is impossible or needs an option. Raises Refused."""
    if report.archive_findings:
        first = report.archive_findings[0]
        raise Refused(
            "archive_damaged",
            f"the archive is damaged: event {first.seq}: {first.what}; restore a backup instead",
        )
    if report.lost.count and not accept_loss:
        raise Refused(
            "events_lost",
            f"neither the log nor the archive has {name_ranges(report.lost)}: restore a backup, "
            "or repair without them with --accept-loss",
        )
    if report.differing.count and not overwrite:
        raise Refused(
            "events_differ",
            f"the log has other events than the archive at {name_ranges(report.differing)}; "
            "replace them with the archive's with --overwrite",
        )


def name_ranges(sequences: Sequences) -> str:
    """The first ranges of some sequences in words.

    >>> name_ranges(Sequences(4, [(3, 5), (9, 9)]))
    'events 3 to 5, 9'
    """
    texts = [
        str(first) if first == last else f"{first} to {last}" for first, last in sequences.ranges
    ]
    more = " and more" if len(texts) > RANGES_SHOWN or sequences.is_full else ""
    return f"events {', '.join(texts[:RANGES_SHOWN])}{more}"


def make_placeholder(seq: int) -> StoredEvent:
    """A placeholder for a lost event, so that all others keep their sequences.

    It is on a subject of an agent and means nothing: every reader drops it, and an audit names it
    as ignored.
    """
    agg, body = subjects.report(LOST, f"e{seq}"), b"{}"
    return to_stored_event(RecordedEvent(seq, read_envelope(agg, seq, body), body))


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


PAGE = 2000


async def scrub_log(settings: Settings) -> ScrubReport:
    """Compare the log with its archive, event by event. Raises Refused or Failed."""
    await asyncio.to_thread(migrate, settings.postgres_dsn, PACKAGE, SCHEMA)
    nc = await connect(settings.nats_url, "ranker-scrub")
    try:
        async with open_archive(settings.postgres_dsn) as copy:
            return await _scrub(settings, LogRepair(nc), copy)
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
    # The positions of the log's readers are stored beside the repaired log.
    places_path = file.with_name(f"{file.name}.places")
    nc = await connect(settings.nats_url, "ranker-repair")
    try:
        await ensure_streams(nc, settings.replicas)
        log = LogRepair(nc)
        async with open_archive(settings.postgres_dsn) as copy:
            report = await _scrub(settings, log, copy)
            if report.is_clean and not is_file_written:
                return {"is_repaired": False, **report.data()}
            count = report.found_seq
            if not is_file_written:
                check_repairable(report, overwrite=overwrite, accept_loss=accept_loss)
                places = msgspec.json.encode(await log.read_places())
                await asyncio.to_thread(places_path.write_bytes, places)
                pairs = _pair_events(log, copy, count, report)
                await write_repaired(pairs, file, count, read_own_key(settings))
        reader = read_repaired(file, count if not report.is_clean else 0)
        if not (report.is_clean or report.is_beginning):
            await log.replace()
        imported = await import_events(NatsLog(nc), log.append, reader, actor)
        if await asyncio.to_thread(places_path.exists):
            places = await asyncio.to_thread(places_path.read_bytes)
            await log.restore_places(msgspec.json.decode(places, type=list[ConsumerPosition]))
        await log.forget_known_seq()
    finally:
        await nc.close()
    return {"is_repaired": True, **report.data(), **imported, "file": str(file)}


async def _scrub(settings: Settings, log: LogRepair, copy: Archive) -> ScrubReport:
    """Compare all events; the archive is also checked against its chain and seals."""
    # The archive is read first: everything archived was in the log before.
    archive_last_seq = await copy.checkpoint()
    log_last_seq = await log.last_seq()
    last_seq = max(archive_last_seq, log_last_seq, await log.known_seq())
    report = ScrubReport(last_seq, log_last_seq, archive_last_seq)
    key = read_own_key(settings)
    verifier = ChainVerifier([key] if key else [], verify_verdict)
    async for pair in _pair_events(log, copy, last_seq, report):
        if pair.archived is not None:
            verifier.look(pair.archived)
        report.take(pair)
    if archive_last_seq > verifier.seq:
        verifier.find(verifier.seq + 1, f"the archive ends here, not at {archive_last_seq}")
    report.archive_findings = verifier.findings
    return report


def _pair_events(
    log: LogRepair, copy: Archive, last_seq: int, report: ScrubReport
) -> AsyncIterator[EventPair]:
    logged = (to_stored_event(event) async for event in log.events(report.log_last_seq))
    return pair_events(logged, _read_archive(copy, report.archive_last_seq), last_seq)


async def _read_archive(copy: Archive, last_seq: int) -> AsyncIterator[StoredEvent]:
    seq = 0
    while seq < last_seq and (page := await copy.page(seq, min(PAGE, last_seq - seq))):
        for stored in page:
            if stored.seq <= last_seq:
                yield stored
        seq = page[-1].seq
