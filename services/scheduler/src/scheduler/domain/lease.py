"""Giving out: the next jobs to the free agents that fit, a gang all at once."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from scheduler.domain import fair
from scheduler.domain.board import Board, Job, Pool, next_run
from scheduler.domain.fair import Policy
from scheduler.domain.match import Candidate, Hands, gpus_of, need_of
from scheduler.domain.moves import Move, Say, World, about_job
from shared import events, subjects
from shared.ids import BASELINE_ACCOUNT

START_S_MAX = 30.0
# Whoever publishes a problem is about to submit to it: a fresh baseline lets them go first. So does
# an older one while anybody else waits, until it has waited so long that it takes its turns.
BASELINE_PAUSE_S = 30.0
BASELINE_TURN_S = 3600.0
# Who gave a lease is left so long to say its order, before others do.
ORDER_S_MAX = 2.0


def assignments(
    board: Board, world: World, policy: Policy, alive: dict[str, list[Candidate]]
) -> Iterator[Move]:
    """A lease for each job that can have one now, in every pool that is not paused."""
    for gpu, pool in board.pools.items():
        if pool.is_waited_for and pool.paused is None and gpu in alive:
            # The others are about to be put in quarantine.
            fit = [one for one in alive[gpu] if one.agent.failures < policy.quarantine_after]
            yield from _give_out(board, pool, policy, Hands(fit), world.now)


def _give_out(
    board: Board, pool: Pool, policy: Policy, hands: Hands, now: datetime
) -> Iterator[Move]:
    taken: set[str] = set()
    due = set(fair.gangs_due(pool, policy))
    if not hands.free_count:
        return
    is_quiet = _is_quiet(pool)
    for id_ in fair.order(pool, policy, taken, lambda id_: fair.cost_s(pool, board.jobs[id_])):
        job = board.jobs[id_]
        if not _may_start(board, job, now):
            continue
        if job.is_baseline and not _is_due(job, now, is_quiet=is_quiet):
            continue
        need = need_of(job)
        team = hands.take(need, job.avoid)
        if team:
            taken.add(id_)
            yield _lease(job, team, now)
        elif id_ in due and hands.keep(need):
            due.clear()
        if not hands.free_count:
            return


def _may_start(board: Board, job: Job, now: datetime) -> bool:
    """Not what is about to end: it is cancelled, or its time is over."""
    if job.cancel or now >= job.deadline_at:
        return False
    submission = board.submissions.get(job.submission)
    return job.is_side or (submission is not None and submission.cancel is None)


def _is_quiet(pool: Pool) -> bool:
    """Whether nobody but baselines waits for a pool."""
    return all(lane.waiting.keys() <= {BASELINE_ACCOUNT} for lane in pool.lanes.values())


def _is_due(baseline: Job, now: datetime, *, is_quiet: bool) -> bool:
    """Whether a baseline keeps nobody waiting, or has waited long enough itself."""
    waited_s = (now - baseline.queued_at).total_seconds()
    return waited_s >= (BASELINE_PAUSE_S if is_quiet else BASELINE_TURN_S)


def _lease(job: Job, team: Sequence[Candidate], now: datetime) -> Move:
    """The job's lease and each agent's order.

    A job cannot be leased twice, for the lease expects the job's version; an agent cannot be
    given two orders, for its next run has one name and the order expects nothing there (ADR 0031).
    """
    names = [one.name for one in team]
    runs = [next_run(one.name, one.agent.last_run) for one in team]
    gang, until = names if len(names) > 1 else [], _until(job, now)
    leased = events.JobLeased(
        run=runs[0],
        agent=names[0],
        attempt=job.attempt + 1,
        lease_until_at=until,
        agents=gang,
    )
    orders = [
        msgspec.structs.replace(
            _order(job, one.offer.session, job.attempt + 1, until), gang=gang, gpus=gpus_of(team)
        )
        for one in team
    ]
    says = [
        Say(subjects.run(name, run), order, 0, job.id, job.submission)
        for name, run, order in zip(names, runs, orders, strict=True)
    ]
    # Its id is of this run: to the log the same lease said twice is one, another's is a conflict.
    return (Say(subjects.job(job.id), leased, job.version, runs[0], job.submission), *says)


def mended(board: Board, job: Job, world: World) -> Iterator[Move]:
    """What follows a lone agent's lease whose order is missing, for who gave it may have died.

    The order, said by whoever sees this; who gave the lease says the same event, and the log
    keeps one. Or the lease's end, where the agent's run of that name is of another job.
    """
    if len(job.agents) != 1 or job.run is None or job.leased_at is None:
        return  # A gang's orders come in one batch with its lease.
    (name,) = job.agents
    if job.run != next_run(name, board.agents[name].last_run):
        reason = f"agent {name} was given another run at the same moment"
        void = events.JobRequeued(run=job.run, reason=reason, avoid_agents=job.avoid)
        yield (about_job(job, void),)
        return
    offer = world.offers.get(name)
    is_heard = offer is not None or world.is_settled
    if is_heard and world.now >= job.leased_at + timedelta(seconds=ORDER_S_MAX):
        # Where the agent is gone, so is this order: it falls to the rule for those.
        session = offer.session if offer is not None else ""
        order = _order(job, session, job.attempt, _until(job, world.now))
        yield (Say(subjects.run(name, job.run), order, 0, job.id, job.submission),)


def _until(job: Job, now: datetime) -> datetime:
    return min(now + timedelta(seconds=START_S_MAX), job.deadline_at)


def _order(job: Job, session: str, attempt: int, until: datetime) -> events.JobAssigned:
    return events.JobAssigned(
        job=job.id,
        submission=job.submission,
        attempt=attempt,
        problem=job.problem,
        problem_digest=job.problem_digest,
        source=job.source,
        name=job.name,
        gpu=job.gpu,
        mode=job.mode,
        session=session,
        lease_until_at=until,
        deadline_at=job.deadline_at,
        class_=job.class_,
        case=job.case,
        rival=job.rival,
        rival_name=job.rival_name,
    )
