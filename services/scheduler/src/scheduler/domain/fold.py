"""The fold: what each event changes of submissions, jobs, quotas and rejudges on the board."""

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.domain import fair, machines
from scheduler.domain.board import (
    ATTEMPTS_MAX,
    OPEN_SUBMISSIONS_MAX,
    Board,
    Job,
    Refund,
    Rejudge,
    Submission,
)
from shared import events
from shared.event_log import Recorded
from shared.events import Blob, Requires
from shared.ids import BASELINE_ACCOUNT, submission_job
from shared.subjects import last_token
from shared.wire import UnknownEvent, is_genuine, is_of_agent

# A queue of many versions of a problem is none; the oldest demands are forgotten past this.
REQUIRES_MAX = 4096
NOTHING = Blob(digest="", bytes=0)
RETURNED = ("infra_failed", "cancelled")


def evolve(board: Board, event: Recorded) -> Board:
    """The board after one more event; one that it saw changes nothing. Errors: UnknownEvent."""
    if event.seq <= board.seq:
        return board
    board.seq, board.last_id = event.seq, event.envelope.id
    change = _CHANGES.get(event.envelope.type) or machines.CHANGES.get(event.envelope.type)
    if change is None or not is_genuine(event.envelope):
        machines.strayed(board, event)
        return board
    try:
        fact = event.fact
    except (msgspec.MsgspecError, UnknownEvent):
        # Agents write there what they like, and stop nobody by it.
        if not is_of_agent(event.envelope):
            raise
        machines.strayed(board, event)
        return board
    change(board, event, fact, last_token(event.envelope.agg))
    return board


def _received(board: Board, event: Recorded, fact: events.SubmissionReceived, id_: str) -> None:
    board.open_count[fact.account] = board.open_count.get(fact.account, 0) + 1
    submission = board.submissions[id_] = Submission(
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
        class_=fact.class_,
        requires=fact.requires,
        bucket=fact.bucket,
        cost=fact.cost,
        case=fact.case,
    )
    has_room = board.open_count[fact.account] <= OPEN_SUBMISSIONS_MAX
    if fact.is_queued and (has_room or fact.account == BASELINE_ACCOUNT):
        _open_job(board, event, submission)


def _open_job(board: Board, event: Recorded, submission: Submission) -> Job:
    """The job of a submission waits from the moment at which the submission was received.

    Nothing is on the job's history yet: the first lease expects that.
    """
    submission.job = submission_job(submission.id)
    job = board.jobs[submission.job] = Job(
        id=submission.job,
        version=0,
        submission=submission.id,
        account=submission.account,
        problem=submission.problem,
        problem_digest=submission.problem_digest,
        gpu=submission.gpu,
        mode=submission.mode,
        class_=submission.class_,
        requires=submission.requires,
        source=submission.source,
        name=submission.name,
        deadline_at=submission.deadline_at,
        attempts_max=ATTEMPTS_MAX,
        queued_seq=event.seq,
        queued_at=event.envelope.at,
        case=submission.case,
    )
    fair.wait(board.pool(job.gpu), job)
    return job


def _cancel_requested(
    board: Board, event: Recorded, fact: events.SubmissionCancelRequested, id_: str
) -> None:
    submission = board.submissions.get(id_)
    if submission is not None:
        submission.version, submission.cancel = event.seq, fact.reason


def _rejected(board: Board, _event: Recorded, fact: events.SubmissionRejected, id_: str) -> None:
    _submission_over(board, id_, fact.code)


def _finished(board: Board, _event: Recorded, fact: events.SubmissionFinished, id_: str) -> None:
    _submission_over(board, id_, fact.code if fact.outcome in RETURNED else "")


def _submission_over(board: Board, id_: str, refund: str) -> None:
    submission = board.submissions.pop(id_, None)
    if submission is None:
        return
    account = submission.account
    board.open_count[account] -= 1
    if refund and submission.bucket and submission.cost:
        owed = Refund(submission.bucket, submission.cost, refund)
        board.refunds.setdefault(account, {})[id_] = owed
    _close_account(board, account)
    job = board.jobs.get(submission.job or "")
    if job is not None:
        machines.forget_job(board, job)


def _close_account(board: Board, account: str) -> None:
    """What is kept of a participant goes with the last that is open or owed."""
    if board.open_count.get(account) == 0:
        del board.open_count[account]
    if account not in board.open_count and account not in board.refunds:
        board.quotas.pop(account, None)


def _queued(board: Board, event: Recorded, fact: events.JobQueued, id_: str) -> None:
    known = board.jobs.get(id_)
    if known is not None:
        # By a scheduler with a lower limit of open submissions; the job waits already.
        known.version = event.seq
        return
    submission = board.submissions.get(fact.submission)
    job = board.jobs[id_] = Job(
        id=id_,
        version=event.seq,
        submission=fact.submission,
        account=fact.account,
        problem=fact.problem,
        problem_digest=fact.problem_digest,
        gpu=fact.gpu,
        mode=fact.mode,
        class_=fact.class_,
        requires=fact.requires,
        # Of a submission that ended at the same moment: it is cancelled, never run.
        source=fact.source or (submission.source if submission else NOTHING),
        name=fact.name or (submission.name if submission else ""),
        deadline_at=fact.deadline_at,
        attempts_max=fact.attempts_max,
        queued_seq=event.seq,
        queued_at=event.envelope.at,
        agent=fact.agent,
        rejudge=fact.rejudge,
        case=submission.case if submission and not fact.duel else 0,
        duel=fact.duel,
        rival=fact.rival,
        rival_name=fact.rival_name,
        confirmation=fact.confirmation,
        excluded=fact.excluded_agents,
    )
    fair.wait(board.pool(job.gpu), job)
    if job.class_ == "canary":
        machines.canary_queued(board, job)
    elif job.rejudge:
        _item_queued(board, job)
    elif job.duel:
        board.duels.pop(job.duel, None)
    elif job.confirmation:
        board.confirmations.pop(job.confirmation, None)
    elif submission is not None:
        submission.job = id_


def _item_queued(board: Board, job: Job) -> None:
    rejudge = board.rejudges.get(job.rejudge)
    if rejudge is None:
        job.cancel = "the rejudge is over"
        return
    rejudge.items = [item for item in rejudge.items if item.submission != job.submission]
    if not rejudge.items:
        del board.rejudges[job.rejudge]


def _leased(board: Board, event: Recorded, fact: events.JobLeased, id_: str) -> None:
    job = board.jobs.get(id_) or _job_beyond_limit(board, event, id_)
    if job is None:
        return
    fair.lease(board.pool(job.gpu), job)
    job.version, job.run, job.attempt = event.seq, fact.run, fact.attempt
    job.agents, job.leased_at = fact.agents or [fact.agent], event.envelope.at
    machines.promise(board, job)


def _job_beyond_limit(board: Board, event: Recorded, id_: str) -> Job | None:
    """A job that was leased when the limit of open submissions was higher than now."""
    submission = board.submissions.get(event.envelope.corr)
    if submission is None or submission.job or submission_job(submission.id) != id_:
        return None
    return _open_job(board, event, submission)


def _requeued(board: Board, event: Recorded, fact: events.JobRequeued, id_: str) -> None:
    job = board.jobs.get(id_)
    if job is None:
        return
    run = board.runs.get(fact.run)
    if run is not None and run.job == id_:
        del board.runs[fact.run]
    else:
        # No agent was ever given it: that costs neither an attempt nor time.
        job.attempt -= 1
        fair.settle(board.pool(job.gpu), job, 0.0)
        machines.break_promise(board, job)
    job.version, job.run, job.agents, job.avoid = event.seq, None, [], fact.avoid_agents
    fair.wait(board.pool(job.gpu), job)


def _job_over(board: Board, event: Recorded, _fact: events.Fact, id_: str) -> None:
    job = board.jobs.get(id_)
    if job is None:
        return
    if job.run is None:
        fair.leave(board.pool(job.gpu), job)
    machines.break_promise(board, job)
    job.version, job.is_over, job.over_at = event.seq, True, event.envelope.at
    machines.canary_over(board, job)
    machines.forget_job(board, job)


def _quota_taken(board: Board, event: Recorded, _fact: events.QuotaTaken, id_: str) -> None:
    board.quotas[id_] = event.seq


def _quota_limited(board: Board, event: Recorded, _fact: events.QuotaLimitSet, id_: str) -> None:
    if id_ in board.quotas:
        board.quotas[id_] = event.seq


def _quota_returned(board: Board, event: Recorded, fact: events.QuotaReturned, id_: str) -> None:
    board.quotas[id_] = event.seq
    owed = board.refunds.get(id_, {})
    owed.pop(fact.submission, None)
    if not owed:
        board.refunds.pop(id_, None)
    _close_account(board, id_)


def _published(board: Board, _event: Recorded, fact: events.ProblemPublished, _id: str) -> None:
    if fact.requires != Requires():
        board.requires[fact.digest] = fact.requires
    if len(board.requires) > REQUIRES_MAX:
        del board.requires[next(iter(board.requires))]


def _rejudge_asked(board: Board, _event: Recorded, fact: events.RejudgeRequested, id_: str) -> None:
    if fact.items:
        board.rejudges[id_] = Rejudge(fact.problem, fact.to_digest, list(fact.items))


def _duel_requested(board: Board, _event: Recorded, fact: events.DuelRequested, id_: str) -> None:
    board.duels[id_] = fact


def _duel_over(board: Board, _event: Recorded, _fact: events.DuelJudged, id_: str) -> None:
    board.duels.pop(id_, None)


def _confirmation_requested(
    board: Board, _event: Recorded, fact: events.ConfirmationRequested, id_: str
) -> None:
    board.confirmations[id_] = fact


def _confirmation_over(
    board: Board, _event: Recorded, _fact: events.ConfirmationJudged, id_: str
) -> None:
    board.confirmations.pop(id_, None)


def _rejudge_over(board: Board, _event: Recorded, _fact: events.Fact, id_: str) -> None:
    board.rejudges.pop(id_, None)
    for job in board.jobs.values():
        if job.rejudge == id_:
            job.cancel = "the rejudge is over"


_CHANGES: dict[str, Callable[[Board, Recorded, Any, str], None]] = {
    "SubmissionReceived": _received,
    "SubmissionCancelRequested": _cancel_requested,
    "SubmissionRejected": _rejected,
    "SubmissionFinished": _finished,
    "JobQueued": _queued,
    "JobLeased": _leased,
    "JobRequeued": _requeued,
    "JobFinished": _job_over,
    "JobGivenUp": _job_over,
    "JobCancelled": _job_over,
    "QuotaTaken": _quota_taken,
    "QuotaLimitSet": _quota_limited,
    "QuotaReturned": _quota_returned,
    "ProblemPublished": _published,
    "DuelRequested": _duel_requested,
    "DuelJudged": _duel_over,
    "ConfirmationRequested": _confirmation_requested,
    "ConfirmationJudged": _confirmation_over,
    "RejudgeRequested": _rejudge_asked,
    "RejudgeApplied": _rejudge_over,
    "RejudgeDiscarded": _rejudge_over,
}
