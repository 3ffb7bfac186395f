"""Milestones, said as they are met: never while catching up, never twice."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ranker.domain import baselines, milestones
from ranker.domain.milestones import Candidate, Scale
from ranker.domain.roofs import share
from ranker.service.announcing import say
from ranker.service.ports import Board, Reads
from shared import subjects
from shared.clock import now
from shared.event_log import EventLog
from shared.events import Milestone, MilestoneReached, Roof
from shared.problems.milestones import CASES_PASSED

# So many are said of a milestone at one look; who is left over is said at the next.
MET_MAX = 200
KNOWN_MAX = 1000
SAID_MAX = 10_000


class Goals(NamedTuple):
    """What a version asks for, and what its roofline is made of."""

    milestones: list[Milestone]
    roofs: list[Roof]
    ranking_by: str


@dataclass
class Milestones:
    """Looks at leaderboards that have milestones, and appends who met one."""

    log: EventLog
    reads: Reads
    known: dict[tuple[str, int], Goals] = field(default_factory=dict)
    said: set[tuple[str, str, str]] = field(default_factory=set)

    async def of(self, boards: Iterable[Board] | None) -> set[Board]:
        """Say what was met on some leaderboards, or on all; which to look at again.

        Errors: Failed.
        """
        at = now()
        wanted = await self._boards() if boards is None else set(boards)
        return {board for board in sorted(wanted) if not await self._say(board, at)}

    async def _boards(self) -> set[Board]:
        return {Board(**row) for row in await self.reads.rows("boards_with_goals")}

    async def _goals(self, board: Board) -> Goals:
        """A version's, which never change; read once."""
        which = board.problem, board.problem_number
        if which not in self.known:
            rows = await self.reads.rows("goals", problem=which[0], number=which[1])
            if not rows:
                return Goals([], [], "")
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            (row,) = rows
            self.known[which] = Goals(
                msgspec.convert(row["milestones"], list[Milestone]),
                msgspec.convert(row["roofs"], list[Roof]),
                row["ranking_by"],
            )
        return self.known[which]

    async def _say(self, board: Board, at: datetime) -> bool:
        """Say what was met on a leaderboard; False if it is to be looked at again."""
        goals = await self._goals(board)
        wanted = milestones.on(goals.milestones, board.gpu)
        if not wanted:
            return True
        found = await self._found(board, goals, wanted, at)
        if not found:
            return True
        announced = await self.reads.rows("announced", **_named(board))
        version, agg = announced[0]["seq"] if announced else 0, _agg(board)
        for fact in found:
            cause = f"{agg}/{fact.milestone}/{fact.account}"
            version = await say(self.log, agg, fact, version, cause)
            if not version:
                return False
            self._remember((agg, fact.milestone, fact.account))
        return len(found) < MET_MAX

    async def _found(
        self, board: Board, goals: Goals, wanted: list[Milestone], at: datetime
    ) -> list[MilestoneReached]:
        scale = await self._scale(board, goals)
        found: list[MilestoneReached] = []
        for one in wanted:
            bounds = scale.bounds(one)
            if bounds is None:
                continue
            statement = "unmet_by_cases" if one.metric == CASES_PASSED else "unmet_by_score"
            rows = await self.reads.rows(
                statement,
                **_named(board),
                **bounds._asdict(),
                milestone=one.id,
                at=at,
                limit=MET_MAX,
            )
            met = [Candidate(**row) for row in rows]
            agg = _agg(board)
            said = {two.account for two in met if (agg, one.id, two.account) in self.said}
            found += milestones.reached(board.problem_number, one, met, scale, said)
        return found

    def _remember(self, what: tuple[str, str, str]) -> None:
        """What was said and is not folded yet is not said again, which the log would refuse."""
        if len(self.said) >= SAID_MAX:
            self.said.clear()
        self.said.add(what)

    async def _scale(self, board: Board, goals: Goals) -> Scale:
        runs: list[dict[str, Any]] = []
        if any(one.metric not in (CASES_PASSED, "score") for one in goals.milestones):
            runs = await self.reads.rows("baselines", **_named(board), at=None)
        roof_us = share(goals.roofs, board.gpu, goals.ranking_by, 1.0) if goals.roofs else None
        return Scale(baselines.scores_us(baselines.standing(runs)), roof_us)


def _agg(board: Board) -> str:
    return subjects.ranking(board.problem, board.gpu)


def _named(board: Board) -> dict[str, object]:
    return {"problem": board.problem, "gpu": board.gpu, "number": board.problem_number}
