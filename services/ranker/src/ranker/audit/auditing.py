"""One audit: scrutinise every event, fold the leaderboard anew, compare it with the live one."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isclose
from typing import Any, NamedTuple, Protocol

import msgspec

from ranker.domain.explain import Trail
from ranker.domain.kept import Kept
from ranker.domain.report import Explained, Report
from ranker.domain.scrutiny import Finding, Published, Scrutiny
from ranker.domain.seals import Verify
from ranker.domain.standings import Board, Row, Standings
from ranker.domain.strays import Strays
from ranker.domain.witness import Witness
from shared.errors import Refused
from shared.event_log import Recorded
from shared.events import EventSkipped
from shared.wire import UNREADABLE, UnknownEvent, is_genuine, is_noise, is_of_agent

# SQL and Python add in another order.
TOLERANCE = 1e-9


class Copy(Protocol):
    """Where events come from; what is wrong with the copy itself it says."""

    def events(self) -> AsyncIterator[Kept]:
        """Every event, in order."""
        ...

    def findings(self) -> Sequence[Finding]:
        """What was wrong with the copy as a whole, once all events were read."""
        ...


class Live(NamedTuple):
    """What readers are shown: the entries of one leaderboard, folded up to a sequence."""

    seq: int
    at: datetime
    entries: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Question:
    """What is audited: a leaderboard at a moment, with the seals and keys that are known."""

    problem: str
    gpu: str
    version: int | None = None
    as_of: datetime | None = None
    as_of_seq: int | None = None
    keys: Sequence[str] = ()
    published: Sequence[Published] = ()

    def is_before(self, event: Recorded) -> bool:
        """Whether an event had happened by the moment that is asked for."""
        if self.as_of is not None and event.envelope.at > self.as_of:
            return False
        return self.as_of_seq is None or event.seq <= self.as_of_seq


class _Audit:
    """All that is folded in one pass."""

    def __init__(self, question: Question, verify: Verify) -> None:
        self.question = question
        self.scrutiny = Scrutiny(question.keys, verify)
        self.standings = Standings()
        self.trail = Trail(question.problem, question.gpu)
        self.witness = Witness(question.problem, question.gpu, verify)
        self.strays = Strays()
        self.seq = 0
        self.at: datetime | None = None
        self.unread: dict[int, str] = {}

    def look(self, one: Kept) -> None:
        """Take the next event."""
        event = self.scrutiny.look(one)
        if event is None or not self.question.is_before(event):
            return
        self.seq = event.seq
        self.strays.look(event)
        if event.envelope.type == UNREADABLE:
            if not is_noise(event.envelope):
                self.unread[event.seq] = "it is no event: nobody can read it"
            return
        self.at = event.envelope.at
        try:
            self._fold(event)
        except (msgspec.MsgspecError, UnknownEvent) as error:
            if is_of_agent(event.envelope) and not isinstance(error, UnknownEvent):
                self.strays.add(event.seq, f"the event cannot be read: {error}")
                return
            self.unread[event.seq] = f"the event cannot be folded: {error}"

    def _fold(self, event: Recorded) -> None:
        if event.envelope.type == "EventSkipped" and is_genuine(event.envelope):
            fact = event.fact
            assert isinstance(fact, EventSkipped)
            # The live projection went on without it, and so does this one.
            self.unread.pop(fact.seq, None)
        for fold in (self.standings.fold, self.trail.fold, self.witness.fold):
            fold(event)

    def findings(self, board: Board) -> list[Finding]:
        """What is wrong with the log, and with the runs behind the leaderboard."""
        counting = self.standings.counting(board)
        unread = [Finding(seq, what) for seq, what in self.unread.items()]
        runs = self.witness.findings(counting, board.number)
        return [*self.scrutiny.findings, *unread, *runs]

    def ignored(self, found: Iterable[Finding]) -> list[Finding]:
        """The events that mean nothing; a verdict that counts all the same is among `found`."""
        counted = {finding.seq for finding in found}
        refused = (one for one in self.witness.refused if one.seq not in counted)
        return sorted({*self.strays.findings, *refused})

    def board(self) -> Board:
        """The leaderboard that is asked for. Errors: Refused."""
        question = self.question
        newest = self.standings.newest.get(question.problem)
        if newest is None:
            raise Refused(
                "unknown_problem", f"there was no problem {question.problem!r}", "problem"
            )
        if question.gpu not in newest.gpus:
            known = ", ".join(newest.gpus)
            what = f"{question.problem} has no GPU type {question.gpu!r}: {known}"
            raise Refused("unknown_gpu", what, "gpu")
        return Board(question.problem, question.version or newest.number, question.gpu)


async def audit(question: Question, copy: Copy, verify: Verify, live: Live | None = None) -> Report:
    """Everything there is to say about a leaderboard. Errors: Refused for one that never was."""
    one = _Audit(question, verify)
    async for event in copy.events():
        one.look(event)
    one.scrutiny.compare(question.published)
    board = one.board()
    at = question.as_of or (live.at if live else one.at)
    rows = one.standings.board(board, at) if at else []
    found = [*one.findings(board), *copy.findings()]
    return Report(
        board=board,
        as_of=question.as_of,
        seq=one.seq,
        events=one.scrutiny.seq,
        chain=one.scrutiny.chain,
        seals=one.scrutiny.seals,
        keys=tuple(question.keys),
        verified=one.witness.verified,
        rows=[Explained(row, one.trail.of(row, board)) for row in rows],
        findings=sorted(found, key=lambda finding: finding.seq),
        ignored=one.ignored(found),
        live_seq=live.seq if live else None,
        differences=differences(rows, live.entries) if live else [],
    )


def differences(rows: Iterable[Row], entries: Iterable[dict[str, Any]]) -> list[str]:
    """What readers see otherwise than the log says, a sentence an account."""
    made = {row.account: row for row in rows}
    shown = {entry["account"]: entry for entry in entries}
    found = []
    for account in sorted(made.keys() | shown.keys()):
        if account not in shown:
            found.append(f"{account} is missing: the log gives submission {made[account].number}")
        elif account not in made:
            number = shown[account]["number"]
            found.append(f"{account} is shown with submission {number}: the log gives no entry")
        else:
            found += _unequal(made[account], shown[account])
    return found


def _unequal(row: Row, entry: dict[str, Any]) -> list[str]:
    """The fields of an entry that are not what the log gives."""
    said = row._asdict() | {"pooled_over": list(row.pooled_over)}
    own = ("rank", "is_tied", "duel", "confirmation")
    entry = {name: said[name] for name in own} | entry
    return [
        f"{row.account}: {name} is shown as {entry[name]}, the log gives {said[name]}"
        for name in (
            "submission",
            "number",
            "source",
            "pooled_over",
            "score_us",
            "error",
            "freedom",
            "delta",
            "rank",
            "is_tied",
            "duel",
            "confirmation",
        )
        if not _is_equal(said[name], entry[name])
    ]


def _is_equal(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=TOLERANCE)
    return one == other
