"""Giving out: the next jobs to the free agents that fit, a gang all at once."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from scheduler.domain import fair
from scheduler.domain.board import Board, Job, Pool, next_run
from scheduler.domain.fair import Policy
from scheduler.domain.match import Candidate, Hands, gpus_of, need_of
from scheduler.domain.moves import Move, Say, World
from shared import events, subjects

START_S_MAX = 30.0


def assignments(
    board: Board, world: World, policy: Policy, alive: dict[str, list[Candidate]]
) -> Iterator[Move]:
    """A lease for each job that can have one now, in every pool that is not paused."""
    for gpu, pool in board.pools.items():
        if pool.is_waited_for and pool.paused is None and gpu in alive:
            yield from _give_out(board, pool, policy, Hands(alive[gpu]), world.now)


def _give_out(
    board: Board, pool: Pool, policy: Policy, hands: Hands, now: datetime
) -> Iterator[Move]:
    taken: set[str] = set()
    due = set(fair.gangs_due(pool, policy))
    if not hands.free_count:
        return
    for id_ in fair.order(pool, policy, taken, lambda id_: fair.cost_s(pool, board.jobs[id_])):
        job = board.jobs[id_]
        if not _may_start(board, job, now):
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


def _lease(job: Job, team: Sequence[Candidate], now: datetime) -> Move:
    """The job's lease and each agent's order, in one batch.

    A job cannot be leased twice, for the lease expects the job's version; an agent cannot be
    given two orders, for its next run has one name and the order expects nothing there (ADR 0031).
    """
    until = min(now + timedelta(seconds=START_S_MAX), job.deadline_at)
    names = [one.name for one in team]
    runs = [next_run(one.name, one.agent.last_run) for one in team]
    leased = events.JobLeased(
        run=runs[0],
        agent=names[0],
        attempt=job.attempt + 1,
        lease_until_at=until,
        agents=names if len(names) > 1 else [],
    )
    orders = [
        Say(
            subjects.run(one.name, run),
            _order(job, one, team, until),
            0,
            run,
            job.submission,
        )
        for one, run in zip(team, runs, strict=True)
    ]
    return (Say(subjects.job(job.id), leased, job.version, job.id, job.submission), *orders)


def _order(
    job: Job, one: Candidate, team: Sequence[Candidate], until: datetime
) -> events.JobAssigned:
    return events.JobAssigned(
        job=job.id,
        submission=job.submission,
        attempt=job.attempt + 1,
        problem=job.problem,
        problem_digest=job.problem_digest,
        source=job.source,
        name=job.name,
        gpu=job.gpu,
        mode=job.mode,
        session=one.offer.session,
        lease_until_at=until,
        deadline_at=job.deadline_at,
        gang=[other.name for other in team] if len(team) > 1 else [],
        class_=job.class_,
        gpus=gpus_of(team),
    )
