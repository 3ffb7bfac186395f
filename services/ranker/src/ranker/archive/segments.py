"""Exports the log in segments, verifies them, and lets the stream drop what they have.

Each step is safe to repeat: a segment counts once its signed event is in the log, and a truncation
that was interrupted is finished by the next one.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace
from nacl.signing import SigningKey

from ranker.archive.postgres import Archive, open_archive
from ranker.domain.stored_log import StoredEvent, to_stored_event
from ranker.service.decisions import ACTOR, Metrics
from ranker.service.progress import log_progress
from shared import subjects
from shared.api.audits import Finding
from shared.blobs import BlobNotFound
from shared.clock import new_id, now
from shared.errors import Failed, Refused
from shared.event_log import Append, Appender, Conflict, Gap, NewEvent, RecordedEvent
from shared.events import AuditSealed, LogTruncated, SealKeyChanged, SegmentSealed
from shared.health import HealthReporter, Outage, count_missing
from shared.nats.segmented_log import NatsSegmentedLog
from shared.nats.segments import PAGE, SEGMENTS
from shared.nats.truncation import PAUSE_S, TRUNCATION
from shared.segments import (
    SEGMENT_BYTES_MAX,
    SEGMENT_EVENTS_MAX,
    EventLine,
    HistoryIndex,
    OpenHistories,
    Segment,
    SegmentHeader,
    decode_segment,
    encode_segment,
    is_cut,
)
from shared.signing import public_key, sign_verdict
from shared.subjects import aggregate
from shared.verdicts import verify_verdict
from shared.wire import EventMetadata, make_envelope

MEDIA = "application/gzip"
INDEX_MEDIA = "application/octet-stream"
READ_PAGE = 2000
# To read the events of one segment from the stream.
READ_S_MAX = 120.0
KEEP_DAYS = 7.0
# How often it looks whether there is a segment to export, or anything to drop.
LOOK_S = 600.0
# A truncation reads everything after the last one.
TRUNCATE_S = 86_400.0


@dataclass(frozen=True)
class TruncationPlan:
    """How far the stream may be truncated now, and what holds it back beyond that."""

    seq: int
    segment_seq: int
    held_by: Sequence[str]


@dataclass(frozen=True)
class TruncationReport:
    """How far the stream was truncated, and its size before and after."""

    seq: int
    kept: int
    dropped: int
    messages_before: int
    messages_after: int
    bytes_before: int
    bytes_after: int
    held_by: Sequence[str]


class Segmenter:
    """The segments of one log and its archive. Errors of all methods: Refused, Failed."""

    def __init__(
        self,
        segmented: NatsSegmentedLog,
        archive: Archive,
        key: SigningKey | None,
        events_max: int = SEGMENT_EVENTS_MAX,
    ) -> None:
        self._segmented = segmented
        self._log, self._blobs = segmented.log, segmented.blobs
        self._archive = archive
        self._key = key
        self._events_max = events_max

    async def seal(self, *, only_full: bool) -> list[SegmentSealed]:
        """Export everything that is sealed and in no segment yet; return the new segments.

        `only_full`: leave the newest events for a later segment.
        """
        newest = await self._archive.newest_seal()
        sealed_seq = 0
        if newest is not None:
            assert isinstance(newest.fact, AuditSealed), "the seal subject has nothing else"
            sealed_seq = newest.fact.seq
        new: list[SegmentSealed] = []
        while True:
            segments = await self._segmented.segments.list()
            version = self._segmented.segments.version
            first = segments[-1].last + 1 if segments else 1
            if sealed_seq - first + 1 < (self._events_max if only_full else 1):
                return new
            log_progress("events", first - 1, sealed_seq)
            sealed = await self._store(await self._build(first, sealed_seq), version)
            if sealed is None:
                return new
            new.append(sealed)

    async def _build(self, first: int, until: int) -> Segment:
        """Read the next segment from the archive, once log and archive agree about it."""
        segment = await self._read_archive(first, until)
        last, chain = segment.header.last, await self._archive.up_to(segment.header.last)
        if chain.hex() != segment.header.chain:
            reason = f"the archive's chain breaks between events {first} and {last}"
            raise Refused("archive_damaged", f"{reason}: run warpboard server scrub")
        if await self._read_log(first, last) != segment.events:
            reason = f"log and archive differ between events {first} and {last}"
            raise Refused("log_damaged", f"{reason}: run warpboard server scrub")
        return segment

    async def _read_log(self, first: int, last: int) -> list[EventLine]:
        """Read events of the log. Raises Refused if it lacks one, Failed if it cannot be read."""
        feed, events = self._log.follow(first - 1), list[EventLine]()
        try:
            async with asyncio.timeout(READ_S_MAX):
                while len(events) < last - first + 1:
                    taken = await feed.take(last - first + 1 - len(events))
                    events += [EventLine(*to_stored_event(event)[:4]) for event in taken]
        except Gap as gap:
            raise Refused("log_damaged", f"{gap}: run warpboard server scrub") from gap
        except TimeoutError as late:
            missing = first + len(events)
            raise Failed(
                f"the log's event {missing} could not be read in {READ_S_MAX:g} s"
            ) from late
        finally:
            await feed.close()
        return events

    async def _read_archive(self, first: int, until: int) -> Segment:
        before = await self._archive.up_to(first - 1)
        chain, size, events = before, 0, list[EventLine]()
        while len(events) < self._events_max and size < SEGMENT_BYTES_MAX:
            after = first - 1 + len(events)
            limit = min(READ_PAGE, self._events_max - len(events), until - after)
            if limit <= 0:
                break
            page = await self._archive.page(after, limit)
            if not page:
                raise Failed(f"the archive ends at {after}, but {until} was sealed")
            for stored in page:
                chain = stored.chain_after(chain)
                events.append(EventLine(*stored[:4]))
                size += len(stored.body)
        header = SegmentHeader(
            first=first, last=first - 1 + len(events), before=before.hex(), chain=chain.hex()
        )
        return Segment(header, events)

    async def _store(self, segment: Segment, version: int) -> SegmentSealed | None:
        """Store a segment, read it back, and name it in the log; None if another ranker named one.

        `version` is that of the segments for which it was built.
        """
        header = segment.header
        data = await asyncio.to_thread(encode_segment, segment)
        index = HistoryIndex.of_aggregates(aggregate(event.subject) for event in segment.events)
        events = await self._blobs.put(data, MEDIA)
        histories = await self._blobs.put(index.encode(), INDEX_MEDIA)
        stored = await asyncio.to_thread(decode_segment, await self._blobs.get(events.digest))
        if stored != segment:
            raise Failed(f"the segment of events {header.first} to {header.last} was not stored")
        fact = SegmentSealed(
            first=header.first,
            last=header.last,
            chain=header.chain,
            events=events,
            histories=histories,
        )
        stamp = EventMetadata(new_id(), now(), ACTOR, "", "")
        unsigned = make_envelope(fact, SEGMENTS, stamp)
        if self._key is None:
            reason = "segments are signed: set WARPBOARD_RANKER_SEAL_KEY to the file of the key"
            raise Refused("no_seal_key", reason, "seal_key")
        sig = sign_verdict(self._key, SEGMENTS, fact.last, bytes(unsigned.data))
        try:
            await self._log.append(NewEvent(replace(unsigned, sig=sig), version))
        except Conflict:
            return None
        return fact

    async def verify(self, after: int = 0) -> list[Finding]:
        """Check every segment behind a sequence: bytes, chain, index, signature, and the archive.

        A damaged or missing segment is a finding.
        """
        findings: list[Finding] = []
        segments = await self._segmented.segments.list()
        unsigned = await self._find_unsigned()
        chain = (await self._archive.up_to(0)).hex()
        for segment in segments:
            log_progress("events", segment.first - 1, segments[-1].last)
            if segment.last > after:
                if reason := await self._check(segment, chain):
                    findings.append(Finding(segment.first, reason))
                if (segment.first, segment.chain) in unsigned:
                    reason = f"the segment up to {segment.last} is not signed with a known key"
                    findings.append(Finding(segment.first, reason))
            chain = segment.chain
        return findings

    async def _check(self, segment: SegmentSealed, before: str) -> str:
        """Explain what is wrong with a segment; "" for nothing."""
        try:
            stored = await self._segmented.segments.read(segment)
            index = await self._blobs.get(segment.histories.digest)
        except (Failed, BlobNotFound) as error:
            return str(error)
        chain = bytes.fromhex(before)
        for event in stored.events:
            chain = StoredEvent(*event).chain_after(chain)
        range_ = f"the segment of events {segment.first} to {segment.last}"
        if stored.header.before != before or chain.hex() != segment.chain:
            return f"{range_} does not have the hash chain that was sealed"
        aggregates = [aggregate(event.subject) for event in stored.events]
        if HistoryIndex.of_aggregates(aggregates).encode() != index:
            return f"{range_} has an index of other histories"
        archived = await self._archive.find_chain(segment.last)
        if archived is None or archived.hex() != segment.chain:
            return f"{range_} does not end in the hash chain of the archive"
        return ""

    async def _find_unsigned(self) -> set[tuple[int, str]]:
        """Return the segments that no known key signed: this platform's, or one it replaced."""
        keys = [public_key(self._key)] if self._key is not None else []
        for event in reversed(await self._log.history(subjects.audit("key"))):
            if isinstance(event.fact, SealKeyChanged) and event.fact.new_key in keys:
                keys.append(event.fact.old_key)
        return {
            (event.fact.first, event.fact.chain)
            for event in await self._log.history(SEGMENTS)
            if isinstance(event.fact, SegmentSealed) and not _is_signed(event, keys)
        }

    async def repair(self) -> int:
        """Export damaged and missing segments again from the archive; return how many."""
        repaired, chain = 0, (await self._archive.up_to(0)).hex()
        for segment in await self._segmented.segments.list():
            version = self._segmented.segments.version
            if await self._check(segment, chain):
                rebuilt = await self._read_archive(segment.first, segment.last)
                if rebuilt.header.chain != segment.chain:
                    range_ = f"events {segment.first} to {segment.last}"
                    reason = f"the archive has other {range_} than their segment: run a scrub"
                    raise Refused("archive_damaged", reason)
                if await self._store(rebuilt, version) is None:
                    reason = "another process exported a segment at the same time: try again"
                    raise Refused("segments_changed", reason)
                repaired += 1
                await self._segmented.segments.list()
            chain = segment.chain
        return repaired

    async def plan(self, keep_days: float) -> TruncationPlan:
        """Return how far the stream may be truncated now.

        It keeps the last `keep_days` days, everything from the first event of the oldest history
        that is not over, and what an outbox has not delivered.
        """
        segments = await self._segmented.segments.list()
        last = segments[-1].last if segments else 0
        truncated = await self._segmented.truncation()
        opened, old_seq = await self._read_tail(truncated.seq, now() - timedelta(days=keep_days))
        limits = [(old_seq, f"events after {old_seq} are younger than {keep_days:g} days")]
        if opened is not None:
            name, seq = opened
            limits.append((seq - 1, f"{name}, which began with event {seq}, is not over"))
        for consumer in await self._segmented.waiting_consumers():
            reason = f"the consumer {consumer.name} has delivered up to {consumer.seq}"
            limits.append((consumer.seq, reason))
        most = min(seq for seq, _ in limits)
        ends = [segment.last for segment in segments if segment.last <= most]
        seq = max(ends[-1] if ends else 0, truncated.seq)
        held_by = [reason for limit, reason in limits if limit < last]
        return TruncationPlan(seq, last, held_by)

    async def _read_tail(
        self, after: int, before_at: datetime
    ) -> tuple[tuple[str, int] | None, int]:
        """Return the oldest open history, and the last event before an instant, from the archive.

        Nothing that is open began before the last truncation.
        """
        open_histories, seq, old_seq, is_old = OpenHistories(), after, after, True
        while page := await self._archive.page(seq, READ_PAGE):
            for stored in page:
                recorded = stored.recorded
                open_histories.fold(recorded)
                # An agent may name any time in its reports.
                if not recorded.envelope.aggregate.startswith("report."):
                    is_old = is_old and recorded.envelope.at <= before_at
                if is_old:
                    old_seq = recorded.seq
            seq = page[-1].seq
        return open_histories.oldest, old_seq

    async def truncate(
        self, keep_days: float, actor: str = ACTOR, pause_s: float = PAUSE_S
    ) -> TruncationReport:
        """Drop the histories that are over from the stream, up to the end of a segment.

        It finishes an earlier truncation first. Nobody may truncate at the same time.
        """
        if not await self._segmented.can_drop():
            reason = "the stream EVENTS was made by version 0.1 and allows no purge, for ever"
            raise Refused("no_purge", f"{reason}: restore a backup into a new one; see {PAGE}")
        before = await self._segmented.state()
        truncation, history = (
            await self._segmented.truncation(),
            await self._log.history(TRUNCATION),
        )
        finished = [event.fact for event in history if _is_finished(event)]
        base = finished[-1] if finished else LogTruncated(seq=0, kept=0)
        assert isinstance(base, LogTruncated), "nothing else is on this subject"
        # Damage must not be hidden by what is dropped.
        dropped = truncation.dropped_max
        if missing := count_missing(before, 0, dropped):
            raise Refused("log_damaged", f"{missing} events of the log are missing: run a scrub")
        plan = await self.plan(keep_days)
        seq = truncation.seq if truncation.is_unfinished else plan.seq
        if seq <= base.seq and not truncation.is_unfinished:
            sizes = (before.messages, before.messages, before.bytes, before.bytes)
            return TruncationReport(base.seq, base.kept or 0, 0, *sizes, plan.held_by)
        if findings := await self.verify(base.seq):
            raise Refused("segment_damaged", f"nothing was dropped: {findings[0].what}; see {PAGE}")
        appender = Appender(self._log, actor, now)
        version = truncation.version
        if not truncation.is_unfinished:
            version = await self._record(appender, LogTruncated(seq=seq), version)
        await asyncio.sleep(pause_s)
        kept_events = (base.kept or 0) + await self._purge(base.seq, seq)
        after = await self._segmented.state()
        actual = after.messages - (after.last_seq - seq)
        if actual != kept_events:
            reason = f"the stream has {actual} of its events 1 to {seq}, expected {kept_events}"
            raise Failed(f"{reason}: run warpboard server scrub; see {PAGE}")
        await self._record(appender, LogTruncated(seq=seq, kept=kept_events), version)
        newly_dropped = (seq - kept_events) - (base.seq - (base.kept or 0))
        sizes = (before.messages, after.messages, before.bytes, after.bytes)
        return TruncationReport(seq, kept_events, newly_dropped, *sizes, plan.held_by)

    async def _record(self, appender: Appender, fact: LogTruncated, version: int) -> int:
        try:
            return await appender.append(Append(TRUNCATION, fact, version, "", "", new_id()))
        except Conflict as conflict:
            reason = "another truncation is running: wait until it ends"
            raise Refused("truncation_runs", reason) from conflict

    async def _purge(self, after: int, until: int) -> int:
        """Drop the histories that are over, segment by segment; return how many events stay."""
        staying_events = 0
        for segment in await self._segmented.segments.list():
            if not after < segment.last <= until:
                continue
            log_progress("events dropped", segment.last - after, until - after)
            events = (await self._segmented.segments.read(segment)).events
            staying_events += sum(not is_cut(aggregate(event.subject)) for event in events)
            await self._segmented.drop(segment.last)
        return staying_events


@dataclass(frozen=True)
class SegmentSchedule:
    """Seals full segments, and truncates behind them, if `truncate_days` is not 0."""

    segmented: NatsSegmentedLog
    dsn: str
    key: SigningKey
    truncate_days: float
    metrics: Metrics
    report: HealthReporter
    events_max: int = SEGMENT_EVENTS_MAX
    pause_s: float = PAUSE_S

    async def run(self) -> None:
        """Export and truncate without end, also after an outage."""
        outage, truncated_at = Outage("segments", self.report), float("-inf")
        while True:
            is_due = self.truncate_days > 0 and time.monotonic() - truncated_at >= TRUNCATE_S
            try:
                async with open_archive(self.dsn) as archive:
                    segmenter = Segmenter(self.segmented, archive, self.key, self.events_max)
                    await segmenter.seal(only_full=True)
                    if is_due:
                        await segmenter.truncate(self.truncate_days, pause_s=self.pause_s)
                        truncated_at = time.monotonic()
                    await self._measure()
                outage.end()
                await asyncio.sleep(LOOK_S)
            except Refused as refused:
                await outage.wait(Failed(refused.reason))
            except Failed as failed:
                await outage.wait(failed)

    async def _measure(self) -> None:
        segments = await self.segmented.segments.list()
        truncation = await self.segmented.truncation()
        self.metrics.segmented(segments[-1].last if segments else 0, truncation.seq)


def _is_signed(event: RecordedEvent, keys: Sequence[str]) -> bool:
    fact, envelope = event.fact, event.envelope
    assert isinstance(fact, SegmentSealed), "only these are signed here"
    data, sig = bytes(envelope.data), envelope.sig or ""
    return any(verify_verdict(key, SEGMENTS, fact.last, data, sig) for key in keys)


def _is_finished(event: RecordedEvent) -> bool:
    return isinstance(event.fact, LogTruncated) and event.fact.kept is not None


async def end_truncation(segmented: NatsSegmentedLog, actor: str) -> None:
    """Record that a stream has all of its events again, after a restore or a repair.

    Until then readers find that by themselves, but less damage would be noticed. Errors: Failed.
    """
    is_whole, truncation = await segmented.is_whole(), await segmented.truncation()
    if truncation.seq and is_whole:
        fact = LogTruncated(seq=0, kept=0)
        append = Append(TRUNCATION, fact, truncation.version, "", "", new_id())
        await Appender(segmented.log, actor, now).append(append)
