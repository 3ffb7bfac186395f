"""Confirmations: a ranked run of an entry on a podium is repeated on another agent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ranker.domain.batch import Told
from ranker.domain.conclusion import Verdict, conclude
from ranker.domain.confirmation import compare
from ranker.domain.eligibility import Demand
from ranker.domain.records import PODIUM
from ranker.domain.roofs import floors
from ranker.service.announcing import say
from ranker.service.ports import Board, Reads
from ranker.service.side_jobs import JobEnd, OpenJobs, read_end
from ranker.service.top import Placed
from shared import subjects
from shared.event_log import EventLog
from shared.events import (
    Blob,
    ConfirmationJudged,
    ConfirmationRequested,
    RejudgeItem,
    Roof,
    RunCompleted,
    SubmissionFinished,
)
from shared.ids import confirmation_job, run_confirmation

# So many confirmations of one leaderboard wait for an agent; the others wait for these.
OPEN_MAX = 4

Row = dict[str, Any]


@dataclass
class Confirmations:
    """Requests confirmations and judges them; what is decided twice is one event."""

    log: EventLog
    reads: Reads
    wanted: Demand
    is_on: bool = True
    requested: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start without knowing which confirmations are open."""
        self._jobs = OpenJobs(self.reads, "confirmations_open", confirmation_job)

    def hear(self, batch: Sequence[Told]) -> set[Board]:
        """Note what began and ended; return the leaderboards that may request another."""
        freed = set()
        for told in batch:
            self._jobs.note_end(told)
            fact = told.fact
            if isinstance(fact, ConfirmationRequested | ConfirmationJudged):
                self._jobs.reload()
                freed.add(Board(fact.problem, fact.gpu, fact.problem_number))
        return freed

    def forget(self) -> None:
        """Look at every open confirmation again: nobody knows what ended meanwhile."""
        self._jobs.forget()

    async def judge(self) -> None:
        """Judge the confirmations whose job is over. Errors: Failed."""
        for job, confirmation in await self._jobs.list_ended():
            end = await read_end(self.log, self.reads, job)
            if end is not None:
                agg, seq = subjects.confirmation(confirmation["id"]), confirmation["seq"]
                fact = self._judged(job, end, confirmation)
                await say(self.log, agg, fact, seq, confirmation["id"])
        self._jobs.clear_ended()

    async def request(self, board: Board, placed: Sequence[Placed]) -> None:
        """Request a confirmation for each run on a podium, where another agent can take it.

        Errors: Failed.
        """
        if not placed or not self.is_on:
            return
        runs = await self.reads.rows(
            "runs_to_confirm",
            submissions=[one.row["submission"] for one in placed[:PODIUM]],
            number=board.problem_number,
        )
        known = await self.reads.rows(
            "confirmations_of_board",
            problem=board.problem,
            gpu=board.gpu,
            number=board.problem_number,
        )
        had = {row["id"] for row in known}
        open_count = sum(row["judged_seq"] is None for row in known)
        for row in runs:
            id_ = run_confirmation(row["run"])
            if id_ in had or id_ in self.requested or open_count >= OPEN_MAX:
                continue
            await say(self.log, subjects.confirmation(id_), _request(board, row), 0, id_)
            self.requested.add(id_)
            open_count += 1

    def _judged(self, job: str, end: JobEnd, confirmation: Row) -> ConfirmationJudged:
        board = {name: confirmation[name] for name in ("problem", "problem_number", "gpu")}
        if end.completed is None:
            assert end.fault is not None, "a job without a fault has a verdict"
            code, reason = end.fault.code, end.fault.reason
            return ConfirmationJudged(**board, agent=end.agent, code=code, reason=reason)
        result = self._result(job, end, end.completed, confirmation)
        compared = compare(confirmation["score_us"], result)
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

    def _result(
        self, job: str, end: JobEnd, completed: RunCompleted, confirmation: Row
    ) -> SubmissionFinished:
        """What the run would have made of its submission."""
        started = end.started
        verdict = Verdict(
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
            floors_us=floors(
                msgspec.convert(confirmation["roofs"], list[Roof]), confirmation["gpu"]
            ),
        )
        return conclude(verdict, self.wanted)


def _request(board: Board, row: Row) -> ConfirmationRequested:
    source = Blob(digest=row["source"], bytes=row["source_bytes"], media=row["source_media"])
    return ConfirmationRequested(
        problem=board.problem,
        problem_number=board.problem_number,
        problem_digest=row["digest"],
        gpu=board.gpu,
        item=RejudgeItem(
            submission=row["submission"],
            account=row["account"],
            gpu=board.gpu,
            source=source,
            name=row["name"],
        ),
        run=row["run"],
        agent=row["agent"],
        score_us=row["score_us"],
    )
