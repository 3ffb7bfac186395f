"""What the log says is under way: open submissions, jobs and runs, and who the agents are."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from shared import events
from shared.event_log import Recorded
from shared.events import Blob
from shared.ids import derived
from shared.subjects import last_token


@dataclass
class Submission:
    """A submission without its terminal event."""

    id: str
    version: int
    account: str
    problem: str
    problem_digest: str
    gpu: str
    mode: str
    source: Blob
    name: str
    deadline_at: datetime
    job: str | None = None


@dataclass
class Job:
    """The work a submission gives; it waits while `run` is None and `ended` is not set."""

    id: str
    version: int
    submission: str
    gpu: str
    deadline_at: datetime
    attempts_max: int
    queued_seq: int
    attempt: int = 0
    run: str | None = None
    given_up: str | None = None
    is_over: bool = False


@dataclass
class Run:
    """One attempt by one process of an agent; `end` is its terminal event's type, if any."""

    id: str
    agent: str
    job: str
    version: int
    session: str
    lease_until_at: datetime
    has_begun: bool = False
    end: str | None = None
    code: str = ""
    reason: str = ""
    verdict: str = ""


@dataclass
class Board:
    """All that is open; the fold owns it and changes it in place, for a long log's sake."""

    seq: int = 0
    submissions: dict[str, Submission] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    agents: dict[str, tuple[int, events.AgentRegistered]] = field(default_factory=dict)

    def open_of(self, account: str) -> int:
        """How many submissions of an account are not over."""
        return sum(1 for one in self.submissions.values() if one.account == account)


def job_of(submission: str) -> str:
    """The id of a submission's one job."""
    return derived(submission, "job")


def evolve(board: Board, event: Recorded) -> Board:
    """The board after one more event. Errors: UnknownEvent."""
    board.seq = event.seq
    change = _CHANGES.get(event.envelope.type)
    if change is not None:
        change(board, event, event.fact, last_token(event.envelope.agg))
    return board


def _received(board: Board, event: Recorded, fact: events.SubmissionReceived, id_: str) -> None:
    board.submissions[id_] = Submission(
        id=id_,
        version=event.seq,
        account=fact.account,
        problem=fact.problem,
        problem_digest=fact.problem_digest,
        gpu=fact.gpu,
        mode=fact.mode,
        source=fact.source,
        name=fact.name,
        deadline_at=fact.deadline_at,
    )


def _submission_over(board: Board, _event: Recorded, _fact: events.Fact, id_: str) -> None:
    board.submissions.pop(id_, None)
    job = board.jobs.get(job_of(id_))
    if job is not None:
        _forget(board, job)


def _forget(board: Board, job: Job) -> None:
    """A job leaves the board when it and its submission are over."""
    if not job.is_over or job.submission in board.submissions:
        return
    del board.jobs[job.id]
    if job.run is not None:
        board.runs.pop(job.run, None)


def _queued(board: Board, event: Recorded, fact: events.JobQueued, id_: str) -> None:
    board.jobs[id_] = Job(
        id=id_,
        version=event.seq,
        submission=fact.submission,
        gpu=fact.gpu,
        deadline_at=fact.deadline_at,
        attempts_max=fact.attempts_max,
        queued_seq=event.seq,
    )
    if fact.submission in board.submissions:
        board.submissions[fact.submission].job = id_


def _leased(board: Board, event: Recorded, fact: events.JobLeased, id_: str) -> None:
    job = board.jobs[id_]
    job.version, job.run, job.attempt = event.seq, fact.run, fact.attempt


def _requeued(board: Board, event: Recorded, fact: events.JobRequeued, id_: str) -> None:
    job = board.jobs[id_]
    job.version, job.run = event.seq, None
    board.runs.pop(fact.run, None)


def _job_over(board: Board, event: Recorded, fact: events.Fact, id_: str) -> None:
    job = board.jobs[id_]
    job.version, job.is_over = event.seq, True
    if isinstance(fact, events.JobGivenUp):
        job.given_up = fact.reason
    _forget(board, job)


def _assigned(board: Board, event: Recorded, fact: events.JobAssigned, id_: str) -> None:
    agent = event.envelope.agg.split(".")[1]
    board.runs[id_] = Run(
        id=id_,
        agent=agent,
        job=fact.job,
        version=event.seq,
        session=fact.session,
        lease_until_at=fact.lease_until_at,
    )


def _run_moved(board: Board, event: Recorded, fact: Any, id_: str) -> None:
    run = board.runs.get(id_)
    if run is None or run.end is not None:
        return
    run.version = event.seq
    if isinstance(fact, events.RunStarted):
        run.has_begun = True
    elif type(fact).is_terminal:
        run.end = event.envelope.type
        run.code = getattr(fact, "code", "")
        run.reason = getattr(fact, "reason", "")
        run.verdict = getattr(fact, "verdict", "")


def _registered(board: Board, event: Recorded, fact: events.AgentRegistered, id_: str) -> None:
    board.agents[id_] = event.seq, fact


_CHANGES: dict[str, Callable[[Board, Recorded, Any, str], None]] = {
    "SubmissionReceived": _received,
    "SubmissionRejected": _submission_over,
    "SubmissionFinished": _submission_over,
    "JobQueued": _queued,
    "JobLeased": _leased,
    "JobRequeued": _requeued,
    "JobFinished": _job_over,
    "JobGivenUp": _job_over,
    "JobAssigned": _assigned,
    "RunStarted": _run_moved,
    "RunStageFinished": _run_moved,
    "RunCompleted": _run_moved,
    "RunFailed": _run_moved,
    "JobExpired": _run_moved,
    "AgentRegistered": _registered,
}
