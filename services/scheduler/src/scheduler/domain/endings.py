"""How what is open ends otherwise than by a verdict: cancelled, overdue, released, paid back."""

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from scheduler.domain.board import Board, Job, Run, Submission
from scheduler.domain.moves import Move, Say, World, about_job, about_run, give_up, infra_failed
from shared import events, subjects
from shared.states import STATES, state_deadline

REFUNDS_MAX = 100


def has_verdict(board: Board, job: Job | None) -> bool:
    """Whether a run of the job completed: its submission is ranker's to end."""
    if job is None:
        return False
    run = board.runs.get(job.run or "")
    return run is not None and run.job == job.id and run.end == "RunCompleted"


def is_half_leased(board: Board, job: Job | None) -> bool:
    """Whether of the orders that follow the job's lease some are on their way.

    A gang's come with it in one batch, a lone agent's by itself.
    """
    if job is None or job.is_over or job.run is None:
        return False
    if len(job.agents) > 1:
        return board.seq < job.version + len(job.agents)
    run = board.runs.get(job.run)
    return run is None or run.job != job.id


def cancel(board: Board, submission: Submission, job: Job | None) -> Move:
    """The end that somebody asked for, with that of its job and of all runs of it that are open."""
    reason = submission.cancel or "cancelled"
    finished = events.SubmissionFinished(
        outcome="cancelled",
        is_eligible=False,
        code="cancelled",
        reason=reason,
        job=submission.job,
        run=job.run if job else None,
    )
    agg = subjects.submission(submission.id)
    end = Say(agg, finished, submission.version, submission.id, submission.id)
    return (end, *(cancel_job(board, job, reason) if job and not job.is_over else ()))


def cancel_job(board: Board, job: Job, reason: str) -> Move:
    """The end of a job that nobody wants, and of all runs of it that are open."""
    cancelled = about_job(job, events.JobCancelled(reason=reason))
    runs = [
        about_run(run, events.RunCancelled(reason=reason), job.submission)
        for run in runs_of(board, job)
    ]
    return (cancelled, *runs)


def runs_of(board: Board, job: Job) -> list[Run]:
    """The open runs of a job, its leader's first."""
    agents = [board.agents.get(name) for name in job.agents]
    runs = [board.runs.get(agent.run) for agent in agents if agent is not None]
    return [run for run in runs if run is not None and run.job == job.id]


def overdue_received(board: Board, submission: Submission, world: World) -> Move:
    """The end of a submission that was never queued in time; nothing while there is time."""
    state = STATES["received"]
    if not world.is_past(submission.deadline_at):
        return ()
    reason = f"its deadline passed while it was {state.name}, the matter of {state.owner}"
    return tuple(infra_failed(board, submission.id, state.overdue, reason))


def waited_out(board: Board, job: Job) -> Move:
    """The end of a job that no agent took in time; a baseline's is no failure of the platform."""
    reason = "no agent took it before its deadline"
    ends = give_up(board, job, STATES["queued"].overdue, reason)
    return tuple(_unwanted(say, reason) for say in ends) if job.is_baseline else ends


def _unwanted(say: Say, reason: str) -> Say:
    if not isinstance(say.fact, events.SubmissionFinished):
        return say
    return replace(say, fact=structs.replace(say.fact, outcome="cancelled", reason=reason))


def overdue_ranking(board: Board, submission: Submission, job: Job, world: World) -> Iterator[Move]:
    """The end of a submission whose verdict nobody decided on, once the grace is over."""
    state, since_at = STATES["ranking"], job.over_at or submission.deadline_at
    if world.is_past(state_deadline("ranking", submission.deadline_at, since_at)):
        reason = f"{state.owner} did not decide on its verdict in time"
        yield tuple(infra_failed(board, submission.id, state.overdue, reason))


def refunds(board: Board) -> Iterator[Move]:
    """What each account is owed, all at once, after the version of its quota.

    Whoever took or gave in between makes it wait for the next look, so nothing is paid twice.
    """
    for account, owed in board.refunds.items():
        version = board.quotas.get(account, 0)
        yield tuple(
            Say(
                subjects.quota(account),
                events.QuotaReturned(
                    submission=submission, bucket=one.bucket, cost=one.cost, reason=one.reason
                ),
                version if place == 0 else None,
                submission,
                submission,
            )
            for place, (submission, one) in enumerate(list(owed.items())[:REFUNDS_MAX])
        )


def releases(board: Board) -> Iterator[Move]:
    """The members of a gang are free again when its leader's run is over."""
    for run in board.runs.values():
        if not run.is_member or run.end is not None:
            continue
        leader = board.runs.get(run.leader)
        if leader is None or leader.end is not None:
            released = events.RunReleased(reason="the run of its gang is over")
            yield (about_run(run, released, run.job),)
