"""Announces milestones as they are reached: once each, and never while catching up."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ranker.domain.goals import (
    Candidate,
    MilestoneScale,
    current_runs,
    find_reached,
    milestones_for_gpu,
    roofline_share,
    scores_us,
)
from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import EventCause, append_event
from ranker.service.leaderboard import key_values
from ranker.service.ports import Reads
from shared import subjects
from shared.clock import now
from shared.event_log import EventLog
from shared.events import Milestone, MilestoneReached, Roof
from shared.problems.goals import CASES_PASSED

# Announcements of one milestone per check; the others follow at the next.
MET_MAX = 200
KNOWN_MAX = 1000
SAID_MAX = 10_000


class Goals(NamedTuple):
    """A version's milestones, and the inputs of its roofline."""

    milestones: list[Milestone]
    roofs: list[Roof]
    ranking_by: str


@dataclass
class Milestones:
    """Checks leaderboards with milestones, and appends who reached one."""

    log: EventLog
    reads: Reads
    known: dict[tuple[str, int], Goals] = field(default_factory=dict)
    remembered: set[tuple[str, str, str]] = field(default_factory=set)

    async def announce(self, keys: Iterable[LeaderboardKey] | None) -> set[LeaderboardKey]:
        """Announce reached milestones on some leaderboards or all; return those to check again.

        Raises Failed.
        """
        at = now()
        if keys is None:
            rows = await self.reads.rows("boards_with_goals")
            keys = (LeaderboardKey(**row) for row in rows)
        pending = set(keys)
        return {board for board in sorted(pending) if not await self._announce(board, at)}

    async def _read_goals(self, board: LeaderboardKey) -> Goals:
        """The goals of a version, which never change; read once."""
        key = board.problem, board.problem_number
        if key not in self.known:
            rows = await self.reads.rows("goals", problem=key[0], number=key[1])
            if not rows:
                return Goals([], [], "")
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            (row,) = rows
            self.known[key] = Goals(
                msgspec.convert(row["milestones"], list[Milestone]),
                msgspec.convert(row["roofs"], list[Roof]),
                row["ranking_by"],
            )
        return self.known[key]

    async def _announce(self, board: LeaderboardKey, at: datetime) -> bool:
        """Announce reached milestones of a leaderboard; False if it must be checked again."""
        goals = await self._read_goals(board)
        open_milestones = milestones_for_gpu(goals.milestones, board.gpu)
        if not open_milestones:
            return True
        facts = await self._find_reached(board, goals, open_milestones, at)
        if not facts:
            return True
        announced = await self.reads.rows("announced", **key_values(board))
        version, agg = announced[0]["seq"] if announced else 0, _agg(board)
        for fact in facts:
            cause = f"{agg}/{fact.milestone}/{fact.account}"
            version = await append_event(self.log, agg, fact, version, EventCause(cause))
            if not version:
                return False
            # Until it is folded: appending it again would be refused.
            if len(self.remembered) >= SAID_MAX:
                self.remembered.clear()
            self.remembered.add((agg, fact.milestone, fact.account))
        return len(facts) < MET_MAX

    async def _find_reached(
        self, board: LeaderboardKey, goals: Goals, open_milestones: list[Milestone], at: datetime
    ) -> list[MilestoneReached]:
        scale = await self._read_scale(board, goals)
        reached: list[MilestoneReached] = []
        for milestone in open_milestones:
            bounds = scale.bounds(milestone)
            if bounds is None:
                continue
            statement = "unmet_by_cases" if milestone.metric == CASES_PASSED else "unmet_by_score"
            rows = await self.reads.rows(
                statement,
                **key_values(board),
                **bounds._asdict(),
                milestone=milestone.id,
                at=at,
                limit=MET_MAX,
            )
            candidates = [Candidate(**row) for row in rows]
            agg = _agg(board)
            known = {
                candidate.account
                for candidate in candidates
                if (agg, milestone.id, candidate.account) in self.remembered
            }
            reached += find_reached(board.problem_number, milestone, candidates, scale, known)
        return reached

    async def _read_scale(self, board: LeaderboardKey, goals: Goals) -> MilestoneScale:
        runs: list[dict[str, Any]] = []
        if any(milestone.metric not in (CASES_PASSED, "score") for milestone in goals.milestones):
            runs = await self.reads.rows("baselines", **key_values(board), at=None)
        roof_us = (
            roofline_share(goals.roofs, board.gpu, goals.ranking_by, 1.0) if goals.roofs else None
        )
        return MilestoneScale(scores_us(current_runs(runs)), roof_us)


def _agg(board: LeaderboardKey) -> str:
    return subjects.ranking(board.problem, board.gpu)
