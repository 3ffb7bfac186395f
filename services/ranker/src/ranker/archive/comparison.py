"""The comparison of the log with its archive, event by event, of all or of a part of the log."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ranker.archive.postgres import Archive
from ranker.domain.stored_log import ChainVerifier, StoredEvent, to_stored_event
from shared.api.audits import Finding
from shared.health import Range, ScrubState, to_ranges
from shared.nats.repair import LogRepair
from shared.verdicts import verify_verdict

RANGES_MAX = 100
PAGE = 2000


class EventPair(NamedTuple):
    """One sequence: its event in the log and in the archive."""

    seq: int
    logged: StoredEvent | None
    archived: StoredEvent | None


async def pair_events(
    logged: AsyncIterator[StoredEvent],
    archived: AsyncIterator[StoredEvent],
    last_seq: int,
    after: int = 0,
) -> AsyncIterator[EventPair]:
    """Yield every sequence after one and up to another with the events of both, in order."""
    log_event, archive_event = await anext(logged, None), await anext(archived, None)
    for seq in range(after + 1, last_seq + 1):
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
        return self.is_log_whole and not self.archive_findings

    @property
    def is_log_whole(self) -> bool:
        """Whether the log has every event, as far as the archive's chain tells."""
        return not (self.missing.count or self.lost.count or self.differing.count)

    @property
    def damaged_events(self) -> int:
        """How many events the log lacks, or has in another form."""
        return self.missing.count + self.lost.count + self.differing.count

    @property
    def damaged(self) -> list[Range]:
        """The first ranges of these events."""
        ranges = [*self.missing.ranges, *self.lost.ranges, *self.differing.ranges]
        return sorted(ranges)[:RANGES_MAX]

    @property
    def archive_damaged(self) -> list[Range]:
        """The first ranges of events where the archive's own chain breaks."""
        return to_ranges(sorted({finding.seq for finding in self.archive_findings}))

    def state(self, began_at: datetime, ended_at: datetime) -> ScrubState:
        """What the services have to know about a scrub of the whole log."""
        return ScrubState(
            began_at=began_at,
            seq=self.last_seq,
            ended_at=ended_at,
            ended_seq=self.last_seq,
            damaged_events=self.damaged_events,
            damaged=self.damaged,
            archive_damaged=self.archive_damaged,
        )

    @property
    def is_beginning(self) -> bool:
        """Whether the log is intact up to its last event and only lacks what follows."""
        first = self.missing.first or self.lost.first or self.log_last_seq + 1
        return first > self.log_last_seq and not self.differing.count

    def take(self, pair: EventPair, *, is_archive_wrong: bool = False) -> None:
        """Record the findings of the next sequence.

        Where the two differ, the log is right if the chain says that the archive is wrong.
        """
        if pair.logged is not None or pair.archived is not None:
            self.found_seq = pair.seq
        if pair.logged is None:
            (self.lost if pair.archived is None else self.missing).add(pair.seq)
        elif pair.archived is None:
            if pair.seq > self.archive_last_seq:
                self.unarchived.add(pair.seq)
        elif not pair.logged.is_same(pair.archived) and not is_archive_wrong:
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


class Stretch(NamedTuple):
    """The events after one sequence and up to another, and where log and archive end."""

    after: int
    last_seq: int
    log_last_seq: int
    archive_last_seq: int


async def compare(
    log: LogRepair, copy: Archive, stretch: Stretch, keys: Sequence[str] = ()
) -> ScrubReport:
    """Compare a stretch of the log with the archive, and check the archive's chain there.

    Without keys, signatures of seals are not checked. Raises Failed.
    """
    report = ScrubReport(stretch.last_seq, stretch.log_last_seq, stretch.archive_last_seq)
    chain = await copy.find_chain(stretch.after)
    verifier = ChainVerifier(keys, verify_verdict, stretch.after, chain)
    async for pair in read_pairs(log, copy, stretch):
        is_archive_wrong = False
        if pair.archived is not None:
            if pair.logged is not None and not pair.logged.is_same(pair.archived):
                is_archive_wrong = verifier.extend(pair.logged) == pair.archived.h
            verifier.look(pair.archived)
        report.take(pair, is_archive_wrong=is_archive_wrong)
    archived_until = min(stretch.archive_last_seq, stretch.last_seq)
    if archived_until > verifier.seq:
        verifier.find(verifier.seq + 1, f"the archive ends here, not at {archived_until}")
    verifier.finish()
    report.archive_findings = sorted(verifier.findings)
    return report


def read_pairs(log: LogRepair, copy: Archive, stretch: Stretch) -> AsyncIterator[EventPair]:
    """Read the events of both in a stretch."""
    after, last_seq, log_last_seq, archive_last_seq = stretch
    logged_until = min(log_last_seq, last_seq)
    logged = (to_stored_event(event) async for event in log.events(logged_until, after))
    archived = _read_archive(copy, min(archive_last_seq, last_seq), after)
    return pair_events(logged, archived, last_seq, after)


async def _read_archive(copy: Archive, last_seq: int, after: int) -> AsyncIterator[StoredEvent]:
    seq = after
    while seq < last_seq and (page := await copy.page(seq, min(PAGE, last_seq - seq))):
        for stored in page:
            if stored.seq <= last_seq:
                yield stored
        seq = page[-1].seq
