"""Duels: requested for tied neighbours of a podium, and judged once their job is over."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any

from ranker.domain.attestation import Fault
from ranker.domain.batch import Told
from ranker.domain.eligibility import Demand, objection
from ranker.domain.records import PODIUM
from ranker.service.announcing import say
from ranker.service.ports import Board, Reads
from ranker.service.side_jobs import JobEnd, OpenJobs, read_end
from ranker.service.top import Placed
from shared import subjects
from shared.event_log import EventLog
from shared.events import Blob, DuelJudged, DuelRequested, DuelResult, DuelSide
from shared.ids import duel_job, podium_duel
from shared.wire import is_genuine

# So many duels of one leaderboard wait for an agent; what is tied beyond that waits for them.
OPEN_MAX = 4
RATIO_MAX = 1e6

Row = dict[str, Any]


@dataclass
class Duels:
    """Requests duels and judges them; what is decided twice is one event."""

    log: EventLog
    reads: Reads
    wanted: Demand
    is_on: bool = True
    said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start without knowing which duels are open."""
        self._jobs = OpenJobs(self.reads, "duels_open", duel_job)

    def hear(self, batch: Sequence[Told]) -> set[Board]:
        """Note which jobs ended and which duels began; the leaderboards that a duel reordered."""
        moved = set()
        for told in batch:
            self._jobs.note_end(told)
            if isinstance(told.fact, DuelRequested):
                self._jobs.reload()
            elif isinstance(told.fact, DuelJudged) and is_genuine(told.event.envelope):
                self._jobs.reload()
                fact = told.fact
                moved.add(Board(fact.problem, fact.gpu, fact.problem_number))
        return moved

    def forget(self) -> None:
        """Look at every open duel again: nobody knows what ended meanwhile."""
        self._jobs.forget()

    async def judge(self) -> None:
        """Judge the duels whose job is over. Errors: Failed."""
        for job, duel in await self._jobs.list_ended():
            end = await read_end(self.log, self.reads, job)
            if end is not None:
                board = {name: duel[name] for name in ("problem", "problem_number", "gpu")}
                fact = self._verdict(end, board)
                await say(self.log, subjects.duel(duel["id"]), fact, duel["seq"], duel["id"])
        self._jobs.clear_ended()

    async def request(self, board: Board, placed: Sequence[Placed]) -> None:
        """Request the duels of neighbours on a podium that share a rank, once for each pair.

        None while no agent of the GPU type takes duels.

        Errors: Failed.
        """
        pairs = [pair for pair in pairwise(placed[:PODIUM]) if _is_tied_pair(*pair)]
        if not pairs or not self.is_on:
            return
        if not await self.reads.rows("duel_agents", gpu=board.gpu):
            return
        known = await self.reads.rows("duels_of_board", **_named(board))
        had = {frozenset((row["first_source"], row["second_source"])) for row in known}
        open_count = sum(row["judged_seq"] is None for row in known)
        for one, other in pairs:
            sources = one.row["source"], other.row["source"]
            id_ = podium_duel(board.problem, board.problem_number, board.gpu, sources)
            if frozenset(sources) in had or id_ in self.said or open_count >= OPEN_MAX:
                continue
            fact = await self._requested(board, one.row["submission"], other.row["submission"])
            if fact is not None:
                await say(self.log, subjects.duel(id_), fact, 0, id_)
                self.said.add(id_)
                open_count += 1

    async def _requested(self, board: Board, first: str, second: str) -> DuelRequested | None:
        rows = await self.reads.rows(
            "duel_sides", submissions=[first, second], number=board.problem_number
        )
        sides = {row["id"]: row for row in rows}
        if first not in sides or second not in sides:
            return None
        return DuelRequested(
            problem=board.problem,
            problem_number=board.problem_number,
            problem_digest=sides[first]["digest"],
            gpu=board.gpu,
            first=_side(sides[first]),
            second=_side(sides[second]),
            reason="tied neighbours among the first three",
        )

    def _verdict(self, end: JobEnd, board: Row) -> DuelJudged:
        """What the end of a job says of its duel."""
        fault = end.fault or self._objection(end)
        if fault is not None:
            return DuelJudged(**board, run=end.run, code=fault.code, reason=fault.reason)
        assert end.completed is not None, "a job without a fault has a verdict"
        completed = end.completed
        if completed.verdict != "passed":
            code, reason = completed.verdict, completed.reason
            return DuelJudged(**board, run=end.run, code=code, reason=reason)
        return DuelJudged(**board, run=end.run, result=completed.duel, code="judged")

    def _objection(self, end: JobEnd) -> Fault | None:
        """Why a verdict of this machine, or this verdict, is worth nothing here."""
        level, tier = (end.started.level, end.started.tier) if end.started else ("", "")
        against = objection(self.wanted, level, tier, ())
        if against is not None:
            return Fault(*against)
        completed = end.completed
        if completed and completed.verdict == "passed" and not is_sound(completed.duel):
            return Fault("bad_result", "the run passed, but what it says of the duel is no result")
        return None


def is_sound(result: DuelResult | None) -> bool:
    """Whether a result can be one: a winner, and a ratio within its interval.

    >>> is_sound(DuelResult(winner="A", ratio=0.9, interval=(0.8, 0.95)))
    True
    >>> is_sound(DuelResult(winner="A", ratio=1.1, interval=(1.0, 1.2)))
    False
    """
    if result is None or result.ratio is None or result.interval is None or result.failed:
        return False
    low, high = result.interval
    if not all(isfinite(one) and 1 / RATIO_MAX < one < RATIO_MAX for one in (low, high)):
        return False
    faster = {"A": high < 1, "B": low > 1, "equal": True}
    return low <= result.ratio <= high and faster.get(result.winner, False)


def _is_tied_pair(one: Placed, other: Placed) -> bool:
    """Whether two neighbours share a rank with sources of their own."""
    return one.place.rank == other.place.rank and one.row["source"] != other.row["source"]


def _side(row: Row) -> DuelSide:
    source = Blob(digest=row["source"], bytes=row["source_bytes"], media=row["source_media"])
    return DuelSide(
        submission=row["id"],
        number=row["number"],
        account=row["account"],
        source=source,
        name=row["name"],
    )


def _named(board: Board) -> Row:
    return {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}
