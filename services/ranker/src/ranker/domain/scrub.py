"""The log compared with its archive, event by event: what is missing, and what differs."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ranker.domain.kept import Kept
from ranker.domain.scrutiny import Finding, Scrutiny

RANGES_MAX = 100


class Pair(NamedTuple):
    """One sequence: the event as the log has it, and as the archive has it."""

    seq: int
    logged: Kept | None
    archived: Kept | None

    @property
    def is_different(self) -> bool:
        """Whether both have an event here, and not the same one."""
        if self.logged is None or self.archived is None:
            return False
        return self.logged.link != self.archived.link


async def pair(
    logged: AsyncIterator[Kept], archived: AsyncIterator[Kept], last_seq: int
) -> AsyncIterator[Pair]:
    """Every sequence up to the last, with what each of the two has there; both are in order."""
    ours, theirs = await anext(logged, None), await anext(archived, None)
    for seq in range(1, last_seq + 1):
        while ours is not None and ours.seq < seq:
            ours = await anext(logged, None)
        while theirs is not None and theirs.seq < seq:
            theirs = await anext(archived, None)
        yield Pair(
            seq,
            ours if ours is not None and ours.seq == seq else None,
            theirs if theirs is not None and theirs.seq == seq else None,
        )


@dataclass
class Sequences:
    """Sequences in order, kept as ranges: all are counted, and the first 100 ranges are named.

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
        """One more, after all that were added before."""
        self.count += 1
        if self.ranges and self.ranges[-1][1] == seq - 1 and not self.is_full:
            self.ranges[-1] = (self.ranges[-1][0], seq)
        elif len(self.ranges) < RANGES_MAX:
            self.ranges.append((seq, seq))
        else:
            self.is_full = True

    @property
    def first(self) -> int | None:
        """The lowest of them."""
        return self.ranges[0][0] if self.ranges else None


@dataclass
class ScrubReport:
    """What a scrub found. `last_seq` is the last sequence that anybody knows of.

    `missing` has what the archive has and the log has not, `lost` what neither has, `differing`
    where they have different events, `unarchived` what the archive does not have yet. `found_seq`
    is the last sequence where any of the two has an event.
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
        is_whole = not (self.missing.count or self.lost.count or self.differing.count)
        return is_whole and not self.archive_findings

    @property
    def is_beginning(self) -> bool:
        """Whether the log is untouched up to its last event, and only lacks what follows."""
        first = self.missing.first or self.lost.first or self.log_last_seq + 1
        return first > self.log_last_seq and not self.differing.count

    def take(self, one: Pair) -> None:
        """Note what is wrong with the next sequence."""
        if one.logged is not None or one.archived is not None:
            self.found_seq = one.seq
        if one.logged is None:
            (self.lost if one.archived is None else self.missing).add(one.seq)
        elif one.archived is None and one.seq > self.archive_last_seq:
            self.unarchived.add(one.seq)
        elif one.is_different:
            self.differing.add(one.seq)

    def data(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "is_clean": self.is_clean,
            "last_seq": self.last_seq,
            "log_last_seq": self.log_last_seq,
            "archive_last_seq": self.archive_last_seq,
            "found_seq": self.found_seq,
            **{
                name: {"count": found.count, "ranges": found.ranges}
                for name, found in (
                    ("missing", self.missing),
                    ("lost", self.lost),
                    ("differing", self.differing),
                    ("unarchived", self.unarchived),
                )
            },
            "archive_findings": [one._asdict() for one in self.archive_findings],
        }


async def scrub(pairs: AsyncIterator[Pair], report: ScrubReport, scrutiny: Scrutiny) -> ScrubReport:
    """Fill a report from all pairs; the archive itself is held against its chain and its seals."""
    async for one in pairs:
        if one.archived is not None:
            scrutiny.look(one.archived)
        report.take(one)
    if report.archive_last_seq > scrutiny.seq:
        scrutiny.find(scrutiny.seq + 1, f"the archive ends here, not at {report.archive_last_seq}")
    report.archive_findings = scrutiny.findings
    return report
