"""Duels: requested for tied neighbours on a podium, and judged when their job is over."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

from ranker.domain.attestation import Fault
from ranker.domain.conclusion import find_objection
from ranker.domain.records import PODIUM_SIZE
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from ranker.service.leaderboard import PlacedEntry, key_values
from ranker.service.podium_jobs import JobEnd, PodiumJobs, make_source
from shared import subjects
from shared.events import DuelJudged, DuelRequested, DuelResult, DuelSide
from shared.ids import duel_job_id, podium_duel_id
from shared.wire import is_genuine

RATIO_MAX = 1e6

Row = dict[str, Any]


@dataclass
class Duels(PodiumJobs):
    """Duels of tied neighbours on a podium."""

    statement = "duels_open"

    @staticmethod
    def job_id(request: str) -> str:
        """The id of a duel's job."""
        return duel_job_id(request)

    @staticmethod
    def aggregate(request: str) -> str:
        """The aggregate of a duel."""
        return subjects.duel(request)

    def hear(self, batch: Sequence[DecodedEvent]) -> set[LeaderboardKey]:
        """Note ended jobs and new duels; return the leaderboards that a duel reordered."""
        moved = set()
        for decoded in batch:
            self.note_end(decoded)
            if isinstance(decoded.fact, DuelRequested):
                self.open_requests = None
            elif isinstance(decoded.fact, DuelJudged) and is_genuine(decoded.event.envelope):
                self.open_requests = None
                fact = decoded.fact
                moved.add(LeaderboardKey(fact.problem, fact.gpu, fact.problem_number))
        return moved

    async def request(self, board: LeaderboardKey, placed: Sequence[PlacedEntry]) -> None:
        """Request duels of podium neighbours that share a rank, once for each pair.

        Does nothing while no agent of the GPU type takes duels. Raises Failed.
        """
        pairs = [
            (first, second)
            for first, second in pairwise(placed[:PODIUM_SIZE])
            if first.place.rank == second.place.rank and first.row["source"] != second.row["source"]
        ]
        if not pairs or not self.is_on:
            return
        if not await self.reads.rows("duel_agents", gpu=board.gpu):
            return
        earlier = await self.reads.rows("duels_of_board", **key_values(board))
        known_pairs = {frozenset((row["first_source"], row["second_source"])) for row in earlier}
        open_count = sum(row["judged_seq"] is None for row in earlier)
        for first, second in pairs:
            sources = first.row["source"], second.row["source"]
            id_ = podium_duel_id(board.problem, board.problem_number, board.gpu, sources)
            if frozenset(sources) in known_pairs or not self.can_request(id_, open_count):
                continue
            fact = await self._make_request(
                board, first.row["submission"], second.row["submission"]
            )
            if fact is not None:
                await self.append_request(id_, fact)
                open_count += 1

    async def _make_request(
        self, board: LeaderboardKey, first: str, second: str
    ) -> DuelRequested | None:
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
            first=_make_side(sides[first]),
            second=_make_side(sides[second]),
            reason="tied neighbours among the first three",
        )

    def make_judgement(self, _job: str, end: JobEnd, request: Row) -> DuelJudged:
        """The judgement of a duel from the end of its job."""
        board = {name: request[name] for name in ("problem", "problem_number", "gpu")}
        fault = end.fault or self._find_fault(end)
        if fault is not None:
            return DuelJudged(**board, run=end.run, code=fault.code, reason=fault.reason)
        assert end.completed is not None, "a job without a fault has a verdict"
        completed = end.completed
        if completed.verdict != "passed":
            code, reason = completed.verdict, completed.reason
            return DuelJudged(**board, run=end.run, code=code, reason=reason)
        return DuelJudged(**board, run=end.run, result=completed.duel, code="judged")

    def _find_fault(self, end: JobEnd) -> Fault | None:
        """Why the verdict, or a verdict of this machine, does not count here."""
        level, tier = (end.started.level, end.started.tier) if end.started else ("", "")
        objected = find_objection(self.demand, level, tier, ())
        if objected is not None:
            return Fault(*objected)
        completed = end.completed
        if completed and completed.verdict == "passed" and not is_sound(completed.duel):
            return Fault("bad_result", "the run passed, but its duel has no valid result")
        return None


def is_sound(result: DuelResult | None) -> bool:
    """Whether a result is plausible: a winner, and a ratio within its interval.

    >>> is_sound(DuelResult(winner="A", ratio=0.9, interval=(0.8, 0.95)))
    True
    >>> is_sound(DuelResult(winner="A", ratio=1.1, interval=(1.0, 1.2)))
    False
    """
    if result is None or result.ratio is None or result.interval is None or result.failed:
        return False
    low, high = result.interval
    if not all(isfinite(bound) and 1 / RATIO_MAX < bound < RATIO_MAX for bound in (low, high)):
        return False
    faster = {"A": high < 1, "B": low > 1, "equal": True}
    return low <= result.ratio <= high and faster.get(result.winner, False)


def _make_side(row: Row) -> DuelSide:
    return DuelSide(
        submission=row["id"],
        number=row["number"],
        account=row["account"],
        source=make_source(row),
        name=row["name"],
    )
