"""What is due: each rule looks at the board, the agents and the clock, and says facts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scheduler.domain.board import Board, Job, Run, Submission, job_of
from shared import events, subjects
from shared.events import Fact
from shared.ids import derived

ATTEMPTS_MAX = 3
OPEN_SUBMISSIONS_MAX = 100
START_S_MAX = 30.0
# The author's mistake; another agent would find the same.
FINAL_FAILURES = ("problem_fault",)


@dataclass(frozen=True)
class Offer:
    """What an agent's heartbeat says; `session` names its process."""

    agent: str
    session: str
    is_free: bool
    registration: events.AgentRegistered

    def takes(self, gpu: str, mode: str) -> bool:
        """Whether the agent says that it runs this mode on this GPU type.

        What it demands of itself for `ranked` (isolation, timing tier) is behind its answer.
        """
        said = self.registration
        return said.gpu == gpu and mode in said.modes and not said.quarantine


@dataclass(frozen=True)
class World:
    """What is not in the log: the clock, who is alive, and who may be although not heard yet."""

    now: datetime
    offers: dict[str, Offer] = field(default_factory=dict)
    is_settled: bool = True


@dataclass(frozen=True)
class Say:
    """A fact to append: about what, after which version, because of what."""

    agg: str
    fact: Fact
    expected: int
    cause: str
    corr: str

    @property
    def id(self) -> str:
        """The same decision has the same id, however often it is made."""
        return derived(f"{self.cause}/{self.expected}", type(self.fact).__name__)


Move = tuple[Say, ...]


def due(board: Board, world: World) -> Iterator[Move]:
    """Everything that should be said now; the facts of one move are stored together or not."""
    yield from _registrations(board, world)
    for submission in board.submissions.values():
        if submission.job is None:
            yield (_open_job(board, submission),)
    for job in board.jobs.values():
        if job.is_over:
            yield from _close(board, job)
        elif job.run is not None:
            yield from _look_after(board, job, world)
        elif world.now >= job.deadline_at:
            yield (_give_up(job, "no agent took it before its deadline"),)
    yield from _assignments(board, world)


def _registrations(board: Board, world: World) -> Iterator[Move]:
    for name, offer in world.offers.items():
        version, known = board.agents.get(name, (0, None))
        if known != offer.registration:
            yield (Say(subjects.agent(name), offer.registration, version, name, name),)


def _open_job(board: Board, submission: Submission) -> Say:
    if board.open_of(submission.account) > OPEN_SUBMISSIONS_MAX:
        refused = events.SubmissionRejected(
            code="too_many_open",
            reason=f"more than {OPEN_SUBMISSIONS_MAX} of your submissions are not over yet",
        )
        return Say(
            subjects.submission(submission.id),
            refused,
            submission.version,
            submission.id,
            submission.id,
        )
    queued = events.JobQueued(
        submission=submission.id,
        account=submission.account,
        problem=submission.problem,
        problem_digest=submission.problem_digest,
        gpu=submission.gpu,
        mode=submission.mode,
        deadline_at=submission.deadline_at,
        attempts_max=ATTEMPTS_MAX,
    )
    return Say(subjects.job(job_of(submission.id)), queued, 0, submission.id, submission.id)


def _close(board: Board, job: Job) -> Iterator[Move]:
    """A job that was given up ends its submission; a finished one is ranker's to end."""
    submission = board.submissions.get(job.submission)
    if submission is None or job.given_up is None:
        return
    run = board.runs.get(job.run) if job.run else None
    code = run.code if run and run.code else "infra_failed"
    finished = events.SubmissionFinished(
        outcome="infra_failed",
        is_eligible=False,
        code=code,
        reason=f"{job.given_up}; this is not your kernel's fault, submit it again",
        job=job.id,
        run=job.run,
    )
    agg = subjects.submission(submission.id)
    yield (Say(agg, finished, submission.version, job.id, submission.id),)


def _look_after(board: Board, job: Job, world: World) -> Iterator[Move]:
    run = board.runs.get(job.run or "")
    if run is None:  # the second half of the lease's batch is still on its way
        return
    if run.end == "RunCompleted":
        finished = events.JobFinished(run=run.id, verdict=run.verdict)
        yield (_about(job, finished),)
    elif run.end is not None:
        yield (_after_failure(job, run, world),)
    elif (reason := _lost(run, job, world)) is not None:
        expired = events.JobExpired(reason=reason)
        yield (Say(subjects.run(run.agent, run.id), expired, run.version, run.id, job.submission),)


def _lost(run: Run, job: Job, world: World) -> str | None:
    """Why the lease is over, or None while it holds."""
    offer = world.offers.get(run.agent)
    if world.now >= job.deadline_at:
        return "its deadline has passed"
    if offer is None:
        return f"agent {run.agent} fell silent" if world.is_settled else None
    if offer.session != run.session:
        return f"agent {run.agent} was restarted in the middle of the run"
    if not run.has_begun and world.now >= run.lease_until_at:
        return f"agent {run.agent} did not start the run in time"
    return None


def _after_failure(job: Job, run: Run, world: World) -> Say:
    """Again if no agent had begun, or if the agent itself says that it failed; else never."""
    may_repeat = run.end == "RunFailed" or not run.has_begun
    is_final = run.code in FINAL_FAILURES or not may_repeat
    if is_final or job.attempt >= job.attempts_max or world.now >= job.deadline_at:
        return _give_up(job, run.reason)
    return _about(job, events.JobRequeued(run=run.id, reason=run.reason))


def _give_up(job: Job, reason: str) -> Say:
    return _about(job, events.JobGivenUp(attempts=job.attempt, reason=reason))


def _about(job: Job, fact: Fact) -> Say:
    return Say(subjects.job(job.id), fact, job.version, job.run or job.id, job.submission)


def _assignments(board: Board, world: World) -> Iterator[Move]:
    """The oldest jobs to the free agents of their GPU type that take their mode, one each."""
    busy = {run.agent for run in board.runs.values() if run.end is None}
    free = [o for o in world.offers.values() if o.is_free and o.agent not in busy]
    waiting = [job for job in board.jobs.values() if job.run is None and not job.is_over]
    for job in sorted(waiting, key=lambda job: job.queued_seq):
        submission = board.submissions.get(job.submission)
        if submission is None or world.now >= job.deadline_at:
            continue
        offer = next((o for o in free if o.takes(job.gpu, submission.mode)), None)
        if offer is None:
            continue
        free.remove(offer)
        yield _lease(job, submission, offer, world.now)


def _lease(job: Job, submission: Submission, offer: Offer, now: datetime) -> Move:
    """The job's lease and the agent's order, in one batch: two schedulers cannot both win."""
    agent, attempt = offer.agent, job.attempt + 1
    run = derived(job.id, f"run/{attempt}/{agent}")
    until = now + timedelta(seconds=START_S_MAX)
    leased = events.JobLeased(run=run, agent=agent, attempt=attempt, lease_until_at=until)
    assigned = events.JobAssigned(
        job=job.id,
        submission=submission.id,
        attempt=attempt,
        problem=submission.problem,
        problem_digest=submission.problem_digest,
        source=submission.source,
        name=submission.name,
        gpu=job.gpu,
        mode=submission.mode,
        session=offer.session,
        lease_until_at=until,
        deadline_at=job.deadline_at,
    )
    return (
        Say(subjects.job(job.id), leased, job.version, job.id, submission.id),
        Say(subjects.run(agent, run), assigned, 0, run, submission.id),
    )
