"""What is due: each rule looks at the board, the agents and the clock, and says facts."""

from collections import Counter
from collections.abc import Iterator

from scheduler.domain import endings, sides
from scheduler.domain.board import (
    ATTEMPTS_MAX,
    OPEN_SUBMISSIONS_MAX,
    Board,
    Job,
    Run,
    Submission,
)
from scheduler.domain.fair import Policy
from scheduler.domain.lease import assignments, mended
from scheduler.domain.machines import GANG_BROKEN, REPEATED
from scheduler.domain.match import candidates
from scheduler.domain.moves import Move, Say, World, about_agent, about_job, about_run, give_up
from shared import events, subjects
from shared.ids import BASELINE_ACCOUNT, submission_job
from shared.states import STATES

TAKEN_DOWN_MAX = 2
# The author's mistake; another agent would find the same.
FINAL_FAILURES = ("problem_fault",)
ORPHAN = "its submission is over"
# After these alone nothing is in a hurry: what a lease held up is seen at the next tick.
IDLE = frozenset({"JobLeased", "JobAssigned", "RunStarted", "RunStageFinished", "JobFinished"})
USUAL = Policy()


def due(board: Board, world: World, policy: Policy = USUAL) -> Iterator[Move]:
    """Everything that should be said now; the facts of one move are stored together or not."""
    is_asked = any(pool.is_asked for pool in board.pools.values())
    alive = candidates(board, world) if is_asked else {}
    yield from _registrations(board, world)
    yield from _quarantines(board, policy)
    yield from endings.refunds(board)
    too_many = _too_many(board)
    for submission in board.submissions.values():
        job = board.jobs.get(submission.job or "")
        if submission.id in too_many:
            yield (_reject(submission),)
        elif submission.cancel is not None or job is None or job.is_over:
            yield from _submission(board, submission, job, world)
    for job in board.jobs.values():
        # Nearly all of a long queue just waits: this look at each is most of what a tick costs.
        is_waiting = job.run is None and not job.cancel and not world.is_past(job.deadline_at)
        if not is_waiting or (job.submission not in board.submissions and not job.is_side):
            yield from _job(board, job, world)
    yield from endings.releases(board)
    yield from sides.rejudges(board, world)
    yield from sides.duels(board, world)
    yield from sides.confirmations(board, world)
    yield from sides.canaries(board, world, alive)
    yield from assignments(board, world, policy, alive)


def _registrations(board: Board, world: World) -> Iterator[Move]:
    for name, offer in world.offers.items():
        known = board.agents.get(name)
        if known is None or known.registration != offer.registration:
            version = known.version if known else 0
            yield (Say(subjects.agent(name), offer.registration, version, name, name),)


def _quarantines(board: Board, policy: Policy) -> Iterator[Move]:
    for name, agent in board.agents.items():
        is_done = agent.quarantine or agent.revoked
        if agent.failures < policy.quarantine_after or is_done:
            continue
        quarantined = events.AgentQuarantined(
            reason=f"{agent.failures} failures of the platform in a row", failures=agent.failures
        )
        yield (about_agent(board, name, quarantined),)


def _submission(
    board: Board, submission: Submission, job: Job | None, world: World
) -> Iterator[Move]:
    """What is due of a submission itself; of its work its job's rules say it."""
    if submission.cancel is not None and not endings.has_verdict(board, job):
        if not endings.is_half_leased(board, job):
            yield endings.cancel(board, submission, job)
    elif job is None and submission.job is None:
        overdue = endings.overdue_received(board, submission, world)
        yield overdue or (_open_job(submission),)
    elif job is not None and job.is_over and world.is_settled:
        yield from endings.overdue_ranking(board, submission, job, world)


def _too_many(board: Board) -> set[str]:
    """Of whoever has too much open, the newest submissions without a job."""
    crowded = {name for name, count in board.open_count.items() if count > OPEN_SUBMISSIONS_MAX}
    # The platform's own, of which a catalogue has many at once.
    crowded.discard(BASELINE_ACCOUNT)
    found: set[str] = set()
    seen = Counter[str]()
    for submission in board.submissions.values() if crowded else ():
        seen[submission.account] += 1
        is_over = seen[submission.account] > OPEN_SUBMISSIONS_MAX
        if is_over and submission.account in crowded and submission.job is None:
            found.add(submission.id)
    return found


def _reject(submission: Submission) -> Say:
    refused = events.SubmissionRejected(
        code="too_many_open",
        reason=f"more than {OPEN_SUBMISSIONS_MAX} of your submissions are not over yet",
    )
    agg = subjects.submission(submission.id)
    return Say(agg, refused, submission.version, submission.id, submission.id)


def _open_job(submission: Submission) -> Say:
    """The job of a submission that was received without one.

    Its participant had too many open, or its event is of version 1.
    """
    id_ = submission.id
    queued = events.JobQueued(
        submission=id_,
        account=submission.account,
        problem=submission.problem,
        problem_digest=submission.problem_digest,
        gpu=submission.gpu,
        mode=submission.mode,
        deadline_at=submission.deadline_at,
        attempts_max=ATTEMPTS_MAX,
        class_=submission.class_,
        requires=submission.requires,
    )
    return Say(subjects.job(submission_job(id_)), queued, 0, id_, id_)


def _job(board: Board, job: Job, world: World) -> Iterator[Move]:
    if job.is_over:
        return
    is_orphan = not job.is_side and job.submission not in board.submissions
    if job.run is not None:
        yield from _look_after(board, job, is_orphan, world)
    elif job.cancel or is_orphan:
        yield endings.cancel_job(board, job, job.cancel or ORPHAN)
    elif world.is_past(job.deadline_at):
        yield endings.waited_out(board, job)


def _look_after(board: Board, job: Job, is_orphan: bool, world: World) -> Iterator[Move]:
    run = board.runs.get(job.run or "")
    if run is None or run.job != job.id:
        yield from mended(board, job, world)
    elif run.end == "RunCompleted":
        yield sides.judged(board, job, run) or _finished(job, run)
    elif is_orphan:
        yield endings.cancel_job(board, job, ORPHAN)
    elif run.end is not None:
        yield _after_failure(board, job, run, world)
    else:
        yield from _expiry(board, job, run, world)


def _finished(job: Job, run: Run) -> Move:
    return (about_job(job, events.JobFinished(run=run.id, verdict=run.verdict)),)


def _expiry(board: Board, job: Job, leader: Run, world: World) -> Iterator[Move]:
    """The end of the first lease of a job that is lost; a gang's others follow from it."""
    for run in endings.runs_of(board, job) if len(job.agents) > 1 else (leader,):
        lost = _lost(board, run, job, world)
        if lost is not None:
            yield (about_run(run, lost, job.submission),)
            return


def _lost(board: Board, run: Run, job: Job, world: World) -> events.JobExpired | None:
    """Why the lease is over, or None while it holds."""
    if world.is_past(job.deadline_at):
        state = STATES["running" if run.has_begun else "assigned"]
        reason = f"its deadline passed while it was {state.name}, the matter of {state.owner}"
        return events.JobExpired(reason=reason, code=state.overdue)
    if run.reason:
        return events.JobExpired(reason=run.reason, code=run.code)
    return _agent_lost(board, run, world)


def _agent_lost(board: Board, run: Run, world: World) -> events.JobExpired | None:
    offer, name = world.offers.get(run.agent), run.agent
    is_idle = not run.has_begun and not run.is_member
    if board.agents[name].revoked:
        return events.JobExpired(reason=f"agent {name} was revoked", code="agent_revoked")
    if offer is None:
        silent = events.JobExpired(reason=f"agent {name} fell silent", code="agent_silent")
        return silent if world.is_settled else None
    if offer.session != run.session:
        reason = f"agent {name} was restarted in the middle of the run"
        return events.JobExpired(reason=reason, code="agent_restarted")
    if is_idle and world.is_past(run.lease_until_at):
        reason = f"agent {name} did not start the run in time"
        return events.JobExpired(reason=reason, code=STATES["assigned"].overdue)
    return None


def _after_failure(board: Board, job: Job, run: Run, world: World) -> Move:
    """Again if no agent had begun, or if the agent itself says that it failed; else never."""
    may_repeat = run.end == "RunFailed" or not run.has_begun or run.code in REPEATED
    is_final = run.code in FINAL_FAILURES or not may_repeat
    code = run.code or "infra_failed"
    if job.took_down >= TAKEN_DOWN_MAX:
        reason = f"{job.took_down} agents failed under it, the last so: {run.reason}"
        return give_up(board, job, code, reason)
    if is_final or job.attempt >= job.attempts_max or world.is_past(job.deadline_at):
        return give_up(board, job, code, run.reason)
    # Of a broken gang it is a member that failed, and who that was is known already.
    is_to_avoid = run.code != GANG_BROKEN and run.agent not in job.avoid
    avoid = [*job.avoid, run.agent] if is_to_avoid else job.avoid
    return (about_job(job, events.JobRequeued(run=run.id, reason=run.reason, avoid_agents=avoid)),)
