"""Confirmations: repeats ranked runs of podium entries on another agent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ranker.domain.conclusion import RunVerdict, conclude_submission
from ranker.domain.confirmation import compare_repetition
from ranker.domain.goals import case_floors_us
from ranker.domain.records import PODIUM_SIZE
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from ranker.service.leaderboard import PlacedEntry, key_values
from ranker.service.podium_jobs import JobEnd, PodiumJobs, make_rejudge_item
from shared import subjects
from shared.events import (
    ConfirmationJudged,
    ConfirmationRequested,
    Roof,
    RunCompleted,
    SubmissionFinished,
)
from shared.ids import confirmation_job_id, run_confirmation_id

Row = dict[str, Any]


@dataclass
class Confirmations(PodiumJobs):
    """Repetitions of a podium's ranked runs on another agent."""

    statement = "confirmations_open"

    @staticmethod
    def job_id(request: str) -> str:
        """The id of a confirmation's job."""
        return confirmation_job_id(request)

    @staticmethod
    def aggregate(request: str) -> str:
        """The aggregate of a confirmation."""
        return subjects.confirmation(request)

    def hear(self, batch: Sequence[DecodedEvent]) -> set[LeaderboardKey]:
        """Note starts and ends; return the leaderboards that may request another."""
        freed = set()
        for decoded in batch:
            self.note_end(decoded)
            fact = decoded.fact
            if isinstance(fact, ConfirmationRequested | ConfirmationJudged):
                self.open_requests = None
                freed.add(LeaderboardKey(fact.problem, fact.gpu, fact.problem_number))
        return freed

    async def request(self, board: LeaderboardKey, placed: Sequence[PlacedEntry]) -> None:
        """Request a confirmation for each run on a podium that another agent can repeat.

        Raises Failed.
        """
        if not placed or not self.is_on:
            return
        runs = await self.reads.rows(
            "runs_to_confirm",
            submissions=[entry.row["submission"] for entry in placed[:PODIUM_SIZE]],
            number=board.problem_number,
        )
        earlier = await self.reads.rows("confirmations_of_board", **key_values(board))
        known_ids = {row["id"] for row in earlier}
        open_count = sum(row["judged_seq"] is None for row in earlier)
        for row in runs:
            id_ = run_confirmation_id(row["run"])
            if id_ in known_ids or not self.can_request(id_, open_count):
                continue
            fact = ConfirmationRequested(
                problem=board.problem,
                problem_number=board.problem_number,
                problem_digest=row["digest"],
                gpu=board.gpu,
                item=make_rejudge_item(row, board.gpu),
                run=row["run"],
                agent=row["agent"],
                score_us=row["score_us"],
            )
            await self.append_request(id_, fact)
            open_count += 1

    def make_judgement(self, job: str, end: JobEnd, request: Row) -> ConfirmationJudged:
        """The judgement of a confirmation from the end of its job."""
        board = {name: request[name] for name in ("problem", "problem_number", "gpu")}
        if end.completed is None:
            assert end.fault is not None, "a job without a fault has a verdict"
            code, reason = end.fault.code, end.fault.reason
            return ConfirmationJudged(**board, agent=end.agent, code=code, reason=reason)
        result = self._conclude(job, end, end.completed, request)
        compared = compare_repetition(request["score_us"], result)
        if compared is None:
            code, reason = result.code, result.reason
            return ConfirmationJudged(**board, agent=end.agent, code=code, reason=reason)
        return ConfirmationJudged(
            **board,
            agent=end.agent,
            code=compared.code,
            reason=result.reason,
            ratio=compared.ratio,
            result=result,
        )

    def _conclude(
        self, job: str, end: JobEnd, completed: RunCompleted, confirmation: Row
    ) -> SubmissionFinished:
        """The result that the run would have given its submission."""
        started = end.started
        verdict = RunVerdict(
            mode="ranked",
            job=job,
            run=end.run or "",
            verdict=completed.verdict,
            stage=completed.stage,
            reason=completed.reason,
            cases=completed.cases,
            ranking_by=confirmation["ranking_by"],
            level=started.level if started else "",
            tier=started.tier if started else "",
            sigma_run=completed.sigma_run,
            tie_us=completed.tie_us,
            fault=end.fault,
            floors_us=case_floors_us(
                msgspec.convert(confirmation["roofs"], list[Roof]), confirmation["gpu"]
            ),
        )
        return conclude_submission(verdict, self.demand)
