"""Announces records, podium changes and milestones once each, and never while catching up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ranker.domain.goals import (
    PODIUM_SIZE,
    AnnouncedRecord,
    Candidate,
    Leader,
    MilestoneScale,
    current_runs,
    find_podium_change,
    find_reached,
    find_record,
    milestones_for_gpu,
    roofline_share,
    scores_us,
)
from ranker.domain.rows import LeaderboardKey
from ranker.service.decisions import EventCause, Reads, append_event
from ranker.service.leaderboard import PlacedEntry, key_values, read_top
from ranker.service.podium_jobs import PodiumJobs
from shared import subjects
from shared.clock import now
from shared.event_log import EventLog
from shared.events import Fact, Milestone, MilestoneReached, RecordSet, Roof
from shared.problems.goals import CASES_PASSED

BANS_PAUSE_S = 1.0
# Announcements of one milestone per check; the others follow at the next.
MET_MAX = 200
KNOWN_MAX = 1000
REMEMBERED_MAX = 10_000


async def read_hidden(
    reads: Reads, boards: Iterable[LeaderboardKey], at: datetime
) -> set[LeaderboardKey]:
    """The leaderboards whose ranks a contest hides now: they are announced once it shows them."""
    problems = {row["problem"] for row in await reads.rows("boards_hidden", at=at)}
    return {board for board in boards if board.problem in problems}


@dataclass
class Announcements:
    """Compares leaderboards with what was announced of them, and appends what is new."""

    log: EventLog
    reads: Reads
    looked_at: datetime | None = None
    podium_jobs: Sequence[PodiumJobs] = ()

    async def announce(self, keys: Iterable[LeaderboardKey] | None) -> set[LeaderboardKey]:
        """Announce what is new on some leaderboards or all; return those to check again.

        The end of a ban changes a leaderboard without an event: it is announced with the next event
        of any. Raises Failed.
        """
        at = now()
        pending = await self._read_keys("boards") if keys is None else set(keys)
        since = self.looked_at or at
        if (at - since).total_seconds() > BANS_PAUSE_S:
            pending |= await self._read_keys("boards_of_bans_over", since=since, at=at)
            since = at
        self.looked_at = since
        hidden = await read_hidden(self.reads, pending, at)
        for board in sorted(hidden):
            await self._request_jobs(board, await read_top(self.reads, board, PODIUM_SIZE, at))
        return hidden | {
            board for board in sorted(pending - hidden) if not await self._announce(board, at)
        }

    async def _read_keys(self, statement: str, **values: object) -> set[LeaderboardKey]:
        return {LeaderboardKey(**row) for row in await self.reads.rows(statement, **values)}

    async def _announce(self, board: LeaderboardKey, at: datetime) -> bool:
        """Announce what is new on a leaderboard; False if another appended meanwhile."""
        placed = await read_top(self.reads, board, PODIUM_SIZE, at)
        announced = await self.reads.rows("announced", **key_values(board))
        version = announced[0]["seq"] if announced else 0
        podium = list(announced[0]["accounts"] or ()) if announced else []
        accounts = [entry.row["account"] for entry in placed]
        # The accounts that may owe their places to a run of their own.
        movers = await self.reads.rows("movers", accounts=accounts, **key_values(board))
        facts: list[Fact | None] = [
            await self._find_record(board, placed, at),
            find_podium_change(
                board.problem_number, podium, accounts, {row["account"] for row in movers}
            ),
        ]
        for fact in filter(None, facts):
            version = await self._append(board, fact, version)
            if not version:
                return False
        await self._request_jobs(board, placed)
        return True

    async def _request_jobs(self, board: LeaderboardKey, placed: list[PlacedEntry]) -> None:
        for jobs in self.podium_jobs:
            await jobs.request(board, placed)

    async def _find_record(
        self, board: LeaderboardKey, placed: list[PlacedEntry], at: datetime
    ) -> RecordSet | None:
        """The record of an untied rank 1, None if it sets none. A noisy time sets none."""
        if not placed or placed[0].place.is_tied:
            return None
        row, key = placed[0].row, key_values(board)
        if row["placed_us"] > row["score_us"]:
            return None
        entry_key = key | {"account": row["account"], "source": row["source"]}
        runs = await self.reads.rows("leader", **entry_key)
        if not runs:  # The leaderboard changed; the batch that changed it comes here too.
            return None
        run, seq = runs[0]["run"], runs[0]["seq"]
        leader = Leader(row["submission"], run, row["account"], row["score_us"], seq)
        known = await self.reads.rows("records_known", at=at, **key)
        (best,) = await self.reads.rows("best_of_others", seq=seq, **entry_key)
        records = [AnnouncedRecord(**record) for record in known]
        return find_record(board.problem_number, leader, records, best["score_us"])

    async def _append(self, board: LeaderboardKey, fact: Fact, version: int) -> int:
        """Append to the history of a leaderboard; returns the new version, 0 on a conflict."""
        aggregate = subjects.ranking(board.problem, board.gpu)
        cause = f"{aggregate}/{version}"
        if isinstance(fact, RecordSet):
            cause = f"{fact.submission}/{board.problem_number}"
        return await append_event(self.log, aggregate, fact, version, EventCause(cause))


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
        hidden = await read_hidden(self.reads, pending, at)
        return hidden | {
            board for board in sorted(pending - hidden) if not await self._announce(board, at)
        }

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
        version = announced[0]["seq"] if announced else 0
        aggregate = subjects.ranking(board.problem, board.gpu)
        for fact in facts:
            cause = f"{aggregate}/{fact.milestone}/{fact.account}"
            version = await append_event(self.log, aggregate, fact, version, EventCause(cause))
            if not version:
                return False
            # Until it is folded: appending it again would be refused.
            if len(self.remembered) >= REMEMBERED_MAX:
                self.remembered.clear()
            self.remembered.add((aggregate, fact.milestone, fact.account))
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
            aggregate = subjects.ranking(board.problem, board.gpu)
            known = {
                candidate.account
                for candidate in candidates
                if (aggregate, milestone.id, candidate.account) in self.remembered
            }
            reached += find_reached(board.problem_number, milestone, candidates, scale, known)
        return reached

    async def _read_scale(self, board: LeaderboardKey, goals: Goals) -> MilestoneScale:
        runs: list[dict[str, Any]] = []
        if any(milestone.metric not in (CASES_PASSED, "score") for milestone in goals.milestones):
            runs = await self.reads.rows("baselines", **key_values(board), until=None)
        roof_us = (
            roofline_share(goals.roofs, board.gpu, goals.ranking_by, 1.0) if goals.roofs else None
        )
        return MilestoneScale(scores_us(current_runs(runs)), roof_us)
