"""What rules look at beside the board, and what they say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from scheduler.domain.board import Board, Job, Run
from shared import events, subjects
from shared.events import Fact
from shared.ids import derived

NOT_YOUR_FAULT = "this is not your kernel's fault, submit it again"


@dataclass(frozen=True)
class Offer:
    """What an agent's heartbeat says; `session` names its process."""

    agent: str
    session: str
    is_free: bool
    registration: events.AgentRegistered


@dataclass(frozen=True)
class World:
    """What is not in the log: the clock, who is alive, and who may be although not heard yet.

    While the clock is not trusted, nothing is past its time: no lease expires, no work is overdue.
    """

    now: datetime
    offers: dict[str, Offer] = field(default_factory=dict)
    is_settled: bool = True
    is_clock_trusted: bool = True

    def is_past(self, at: datetime) -> bool:
        """Whether a deadline or a lease is surely over."""
        return self.is_clock_trusted and self.now >= at


@dataclass(frozen=True)
class Say:
    """A fact to append: about what, after which version (None: any), because of what."""

    agg: str
    fact: Fact
    expected: int | None
    cause: str
    corr: str

    @property
    def id(self) -> str:
        """The same decision has the same id, however often it is made."""
        return derived(f"{self.cause}/{self.expected}", f"{type(self.fact).__name__}/{self.agg}")


Move = tuple[Say, ...]


def steps(move: Move) -> Sequence[Move]:
    """What of a move is stored together, in turn: a lone agent's lease comes before its order.

    All else is stored all at once. An order that is missing is mended (ADR 0046).
    """
    is_lone = len(move) == 2 and isinstance(move[1].fact, events.JobAssigned)
    return (move[:1], move[1:]) if is_lone else (move,)


def about_job(job: Job, fact: Fact) -> Say:
    """Something about a job."""
    return Say(subjects.job(job.id), fact, job.version, job.run or job.id, job.submission)


def about_run(run: Run, fact: Fact, submission: str) -> Say:
    """Something about a run."""
    return Say(subjects.run(run.agent, run.id), fact, run.version, run.id, submission)


def about_agent(board: Board, name: str, fact: Fact) -> Say:
    """Something about an agent."""
    return Say(subjects.agent(name), fact, board.agents[name].version, name, name)


def infra_failed(board: Board, id_: str, code: str, reason: str) -> Sequence[Say]:
    """The end of a submission by the platform's fault, if it is open."""
    submission = board.submissions.get(id_)
    if submission is None:
        return ()
    job = board.jobs.get(submission.job or "")
    finished = events.SubmissionFinished(
        outcome="infra_failed",
        is_eligible=False,
        code=code,
        reason=f"{reason}; {NOT_YOUR_FAULT}",
        job=submission.job,
        run=job.run if job else None,
    )
    agg = subjects.submission(id_)
    return (Say(agg, finished, submission.version, submission.job or id_, id_),)


def give_up(board: Board, job: Job, code: str, reason: str) -> Move:
    """The end of a job that the platform could not run, and with it of its submission."""
    given_up = about_job(job, events.JobGivenUp(attempts=job.attempt, reason=reason))
    end = () if job.is_side else infra_failed(board, job.submission, code, reason)
    return (given_up, *end)
