"""What an audit says, as plain data and as lines to read."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ranker.domain.explain import Reason, told
from ranker.domain.scrutiny import Finding
from ranker.domain.standings import Board, Row
from shared.telling.ranks import pooled_text, rank_text

SHOWN_MAX = 20


class Explained(NamedTuple):
    """A row, and the events that made it."""

    row: Row
    reasons: list[Reason]


@dataclass(frozen=True)
class Report:
    """The result of one audit; `seq` is the last event that the leaderboard is folded from.

    The `ignored` events are forged or refused: no reader takes them, so they spoil nothing.
    """

    board: Board
    as_of: datetime | None
    seq: int
    events: int
    chain: str
    seals: int
    keys: tuple[str, ...]
    verified: int
    rows: list[Explained]
    findings: list[Finding]
    ignored: list[Finding]
    live_seq: int | None
    differences: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether nothing at all is wrong."""
        return not (self.findings or self.differences)

    def data(self) -> dict[str, Any]:
        """The whole report, for programs."""
        return {
            "is_clean": self.is_clean,
            "board": self.board._asdict(),
            "as_of": self.as_of,
            "seq": self.seq,
            "events": self.events,
            "chain": self.chain,
            "seals": self.seals,
            "keys": list(self.keys),
            "verified_runs": self.verified,
            "rows": [one.row._asdict() | {"because": told(one.reasons)} for one in self.rows],
            "findings": [one._asdict() for one in self.findings],
            "ignored": [one._asdict() for one in self.ignored],
            "live_seq": self.live_seq,
            "differences": self.differences,
        }

    def lines(self) -> Iterator[str]:
        """The same for people."""
        board = self.board
        moment = f" as of {self.as_of.isoformat()}" if self.as_of else ""
        yield f"{board.problem} on {board.gpu}, version {board.number}{moment}, event {self.seq}"
        yield f"  log    {self.events} events, chain {self.chain}"
        checked = f"checked with {', '.join(self.keys)}" if self.keys else "no key to check with"
        yield f"  seals  {self.seals}, {checked}"
        yield f"  runs   {self.verified} signed by enrolled agents"
        for finding in self.ignored[:SHOWN_MAX]:
            yield f"  ignored event {finding.seq}: {finding.what}"
        if self.live_seq is not None:
            equal = "not equal" if self.differences else "equal"
            yield f"  live   {equal} at event {self.live_seq}"
        for one in self.rows:
            yield from _row(one)
        yield from self._verdict()

    def _verdict(self) -> Iterator[str]:
        if self.is_clean:
            yield "clean: the leaderboard is what the log says, and the log is untouched"
        if self.findings:
            first = self.findings[0]
            yield f"NOT CLEAN: first at event {first.seq}: {first.what}"
        for finding in self.findings[1:SHOWN_MAX]:
            yield f"  event {finding.seq}: {finding.what}"
        if self.differences:
            yield "NOT EQUAL: what is shown is not what the log says"
        for difference in self.differences[:SHOWN_MAX]:
            yield f"  {difference}"


def _row(one: Explained) -> Iterator[str]:
    row = one.row
    rank = rank_text(row.rank, is_tied=row.is_tied)
    score = f"{row.score_us:.3f} us{pooled_text(row.pooled_over)}"
    yield f"{rank:>5} {row.account}: {score}, submission {row.number}"
    for reason in one.reasons:
        at = reason.at.isoformat(timespec="seconds")
        yield f"       {reason.seq:>8} {at} {reason.type} by {reason.actor}: {reason.sentence}"
