"""The fold: what each event changes of submissions, jobs, quotas and rejudges."""

from typing import TypeAlias, assert_never, get_args

import msgspec

from scheduler.domain import agent_fold, evaluations, launches, queue
from scheduler.domain.state import (
    ATTEMPTS_MAX,
    CANARY,
    BestScore,
    Canary,
    Job,
    Refund,
    Rejudge,
    SchedulerState,
    Submission,
    best_key,
    board_key,
    pooling_digest,
    shared_fields,
)
from shared import events
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, AnyFact, Blob, Requires, RunOptions
from shared.subjects import job_id_of, last_token
from shared.wire import UnknownEvent, is_genuine, is_written_by_agent

# No queue holds this many problem versions; beyond it the oldest requirements are forgotten.
REQUIRES_MAX = 4096
# Without them a run is only slower, or timed in a unit of its own, which ranker converts.
BESTS_MAX, YARDSTICKS_MAX = 10_000, 10_000
NO_BLOB = Blob(digest="", bytes=0)
# Of a submission in the quota of a contest.
CONTEST_COST = 1
RETURNED = ("infra_failed", "cancelled")
REJUDGE_OVER = "the rejudge is over"


# What the scheduler has no use for. A type that neither this nor `_apply` names fails mypy.
IgnoredFact: TypeAlias = (
    events.AccessFact
    | events.ContestFact
    | events.ModerationFact
    | events.PlatformFact
    | events.LeaderboardFact
    | events.RejudgeJudged
    | events.RejudgePreviewed
    | events.RunDiscarded
    | events.DeviceTimeReserved
    | events.DeviceTimeShared
    | events.DeviceTimeSettled
)
# What takes a submission off its leaderboards.
RemovalFact: TypeAlias = (
    events.SubmissionHeld | events.SubmissionDisqualified | events.SubmissionWithdrawn
)
_FOLDED = frozenset(CATALOGUE) - (
    {kind.__name__ for kind in get_args(IgnoredFact)}
    - {kind.__name__ for kind in get_args(RemovalFact)}
)


def evolve(state: SchedulerState, event: RecordedEvent) -> SchedulerState:
    """Apply one event to the state and return it; a repeated event changes nothing.

    Raises UnknownEvent.
    """
    if event.seq <= state.seq:
        return state
    state.seq = event.seq
    if event.envelope.type not in _FOLDED or not is_genuine(event.envelope):
        agent_fold.advance_run_version(state, event)
        return state
    try:
        fact = event.fact
    except (msgspec.MsgspecError, UnknownEvent):
        # Agents may write anything there; that must not stop the fold.
        if not is_written_by_agent(event.envelope):
            raise
        agent_fold.advance_run_version(state, event)
        return state
    _apply(state, event, fact, last_token(event.envelope.aggregate))
    return state


def _apply(  # noqa: C901, PLR0912  (one case for each event)
    state: SchedulerState, event: RecordedEvent, fact: AnyFact, id_: str
) -> None:
    """Apply a fact about the aggregate `id_`; the most frequent types come first.

    Each type that does not match costs 0.2 µs (CPython 3.11, 2026-11).
    """
    match fact:
        case events.RunStarted() | events.RunCompleted():
            agent_fold.apply_run_event(state, event, fact, id_)
        case events.SubmissionReceived():
            _receive_submission(state, event, fact, id_)
        case events.JobLeased():
            _lease_job(state, event, fact, id_)
        case events.JobAssigned():
            agent_fold.apply_assignment(state, event, fact, id_)
        case events.SubmissionFinished():
            _record_best(state, fact, id_)
            _end_submission(state, id_, fact)
        case events.SubmissionsOpened() | events.QuotaTaken():
            state.quotas[id_] = event.seq
        case events.JobFinished() | events.JobGivenUp() | events.JobCancelled():
            _end_job(state, event, fact, id_)
        case events.JobQueued():
            _queue_job(state, event, fact, id_)
        case events.JobRequeued():
            _requeue_job(state, event, fact, id_)
        case events.RunFailed() | events.JobExpired() | events.RunCancelled():
            agent_fold.apply_run_event(state, event, fact, id_)
        case events.RunReleased():
            agent_fold.apply_run_event(state, event, fact, id_)
        case events.SlotReserved():
            agent_fold.apply_slot_reservation(state, event, id_)
        case events.SubmissionCancelRequested():
            if (submission := state.submissions.get(id_)) is not None:
                submission.version, submission.cancel = event.seq, fact.reason
                state.closing[id_] = None
        case events.QuotaReturned():
            _return_quota(state, event, fact, id_)
        case _:
            _apply_rare(state, event, fact, id_)


RareFact: TypeAlias = (
    IgnoredFact
    | agent_fold.RegistrationFact
    | events.LauncherFact
    | events.CanaryJudged
    | events.PoolFact
    | RemovalFact
    | events.ComparisonFact
    | events.ProblemPublished
    | events.ProblemCheckRequested
    | evaluations.EvaluationFact
    | events.YardstickFixed
    | events.QuotaLimitSet
    | events.QuotaShared
    | events.RejudgeRequested
    | events.RejudgeApplied
    | events.RejudgeDiscarded
)


def _apply_rare(  # noqa: C901, PLR0912  (one case for each event)
    state: SchedulerState, event: RecordedEvent, fact: RareFact, id_: str
) -> None:
    if isinstance(fact, agent_fold.RegistrationFact):
        agent_fold.apply_agent_event(state, event, fact, id_)
        return
    if isinstance(fact, events.LauncherFact):
        launches.apply_launcher_event(state, event, fact, id_)
        return
    if isinstance(fact, evaluations.EvaluationFact):
        evaluations.apply_event(state, event, fact, id_)
        return
    match fact:
        case events.CanaryJudged():
            agent_fold.record_judgement(state, event, fact, id_)
        case events.PoolPaused():
            state.pool(id_).paused = fact.reason
        case events.PoolResumed():
            state.pool(id_).paused = None
        case events.CanaryChosen():
            agent_fold.choose_canary(state, id_, Canary(event.seq, fact))
        case events.CanaryRemoved():
            agent_fold.choose_canary(state, id_, None)
        case events.QuotaLimitSet() | events.QuotaShared():
            if id_ in state.quotas:
                state.quotas[id_] = event.seq
        case events.ProblemPublished():
            _publish_problem(state, fact)
        case events.SubmissionHeld() | events.SubmissionDisqualified():
            _forget_bests(state, id_)
        case events.SubmissionWithdrawn():
            _forget_bests(state, id_)
        case events.YardstickFixed():
            _fix_yardstick(state, fact)
        case events.DuelRequested():
            state.duels[id_] = fact
        case events.DuelJudged():
            state.duels.pop(id_, None)
        case events.ConfirmationRequested():
            state.confirmations[id_] = fact
        case events.ConfirmationJudged():
            state.confirmations.pop(id_, None)
        case events.ProblemCheckRequested():
            state.checks[fact.check] = fact
        case events.RejudgeRequested():
            if fact.items:
                state.rejudges[id_] = Rejudge(
                    fact.problem, fact.to_digest, list(fact.items), fact.is_retime
                )
        case events.RejudgeApplied():
            # Results of many submissions may have been replaced by slower ones.
            state.bests.clear()
            _end_rejudge(state, id_)
        case events.RejudgeDiscarded():
            _end_rejudge(state, id_)
        case _ if isinstance(fact, IgnoredFact):
            return  # `evolve` does not even decode these.
        case _:
            assert_never(fact)


def _receive_submission(
    state: SchedulerState, event: RecordedEvent, fact: events.SubmissionReceived, id_: str
) -> None:
    state.open_count[fact.account] = state.open_count.get(fact.account, 0) + 1
    submission = state.submissions[id_] = Submission(
        id=id_, version=event.seq, job=job_id_of(id_), **shared_fields(fact, Submission)
    )
    job = Job(
        id=submission.job,
        # The job's history is still empty, as its first lease expects.
        version=0,
        submission=id_,
        attempts_max=ATTEMPTS_MAX,
        queued_seq=event.seq,
        queued_at=event.envelope.at,
        options=RunOptions(**shared_fields(fact, RunOptions)),
        **shared_fields(fact, Job),
    )
    _add_job(state, job)
    if submission.contest_bucket:
        key = submission.contest_quota
        state.open_count[key] = state.open_count.get(key, 0) + 1


def _add_job(state: SchedulerState, job: Job) -> None:
    state.jobs[job.id] = job
    queue.enqueue_job(state.pool(job.gpu), job)
    state.index_job(job)


def _end_submission(state: SchedulerState, id_: str, fact: events.SubmissionFinished) -> None:
    refund_reason = fact.code if fact.outcome in RETURNED else ""
    submission = state.submissions.pop(id_, None)
    if submission is None:
        return
    state.closing.pop(id_, None)
    account = submission.account
    state.open_count[account] -= 1
    if refund_reason and submission.bucket and submission.cost:
        refund = Refund(submission.bucket, submission.cost, refund_reason)
        state.refunds.setdefault(account, {})[id_] = refund
    _close_account(state, account)
    job = state.jobs.get(submission.job)
    if submission.contest_bucket:
        key = submission.contest_quota
        state.open_count[key] -= 1
        # The stages of a run show how it goes, so who cancels one has used their turn.
        was_seen = fact.outcome == "cancelled" and job is not None and job.attempt > 0
        if refund_reason and not was_seen:
            refund = Refund(submission.contest_bucket, CONTEST_COST, refund_reason)
            state.refunds.setdefault(key, {})[id_] = refund
        _close_account(state, key)
    if job is not None:
        state.index_job(job)
        agent_fold.forget_job(state, job)


def _close_account(state: SchedulerState, account: str) -> None:
    """Forget an account that has nothing open and is owed nothing."""
    if state.open_count.get(account) == 0:
        del state.open_count[account]
    if account not in state.open_count and account not in state.refunds:
        state.quotas.pop(account, None)


def _queue_job(
    state: SchedulerState, event: RecordedEvent, fact: events.JobQueued, id_: str
) -> None:
    submission = state.submissions.get(fact.submission)
    own = state.jobs.get(submission.job) if submission else None
    fields = shared_fields(fact, Job)
    # If the submission ended at the same moment, the job is cancelled and never runs.
    fields["source"] = fact.source or (own.source if own else NO_BLOB)
    fields["name"] = fact.name or (own.name if own else "")
    job = Job(
        id=id_,
        version=event.seq,
        queued_seq=event.seq,
        queued_at=event.envelope.at,
        options=own.options if own and not fact.duel else RunOptions(),
        **fields,
    )
    _add_job(state, job)
    if job.class_ == CANARY:
        agent = state.agent(job.agent)
        agent.canaries += 1
        agent.canary_at, agent.canary_job = job.queued_at, job.id
    elif job.rejudge:
        _drop_queued_item(state, job)
    elif job.duel:
        state.duels.pop(job.duel, None)
    elif job.confirmation:
        state.confirmations.pop(job.confirmation, None)
    elif job.check:
        state.checks.pop(job.check, None)
    elif job.chunk:
        evaluations.add_half(state, job)
    state.index_job(job)


def _end_rejudge(state: SchedulerState, id_: str) -> None:
    state.rejudges.pop(id_, None)
    for job in state.jobs.values():
        if job.rejudge == id_:
            job.cancel = REJUDGE_OVER
            state.index_job(job)


def _drop_queued_item(state: SchedulerState, job: Job) -> None:
    rejudge = state.rejudges.get(job.rejudge)
    if rejudge is None:
        job.cancel = REJUDGE_OVER
        return
    job.is_retime = rejudge.is_retime
    rejudge.items = [item for item in rejudge.items if item.submission != job.submission]
    if not rejudge.items:
        del state.rejudges[job.rejudge]


def _lease_job(
    state: SchedulerState, event: RecordedEvent, fact: events.JobLeased, id_: str
) -> None:
    job = state.jobs.get(id_)
    if job is None:
        return
    queue.charge_lease(state.pool(job.gpu), job)
    job.version, job.run, job.attempt = event.seq, fact.run, fact.attempt
    job.agents, job.leased_at = fact.agents or [fact.agent], event.envelope.at
    state.index_job(job)
    # A slot of a lone agent is reserved until its order comes.
    if job.instance:
        launches.record_lease(state, job)
    (name, *members) = job.agents
    slot = state.agent(name).find_slot(name, fact.run) if not members else None
    if slot is not None:
        slot.take(fact.run, is_whole=False)


def _release_reservation(state: SchedulerState, job: Job) -> None:
    """Free the agent of a lease that ended before its order came."""
    agent = state.agents.get(job.agents[0]) if job.agents else None
    if agent is not None and job.run in agent.runs and job.run not in state.runs:
        agent.free_slot(job.run)
        queue.release_lease(state.pool(job.gpu), job)


def _requeue_job(
    state: SchedulerState, event: RecordedEvent, fact: events.JobRequeued, id_: str
) -> None:
    job = state.jobs.get(id_)
    if job is None:
        return
    run = state.runs.get(fact.run)
    if run is not None and run.job == id_:
        del state.runs[fact.run]
        # It gave way to a participant's job.
        job.attempt -= run.end == "RunCancelled"
    else:
        # No agent ever got it: that costs neither an attempt nor time.
        job.attempt -= 1
        queue.settle_charge(state.pool(job.gpu), job, 0.0)
        _release_reservation(state, job)
    job.version, job.run, job.agents, job.avoid = event.seq, None, [], fact.avoid_agents
    evaluations.continue_chunk(state, job, fact)
    queue.enqueue_job(state.pool(job.gpu), job)
    state.index_job(job)


def _end_job(
    state: SchedulerState,
    event: RecordedEvent,
    fact: events.JobFinished | events.JobGivenUp | events.JobCancelled,
    id_: str,
) -> None:
    job = state.jobs.get(id_)
    if job is None:
        return
    evaluations.end_chunk(state, job, fact)
    if job.run is None:
        queue.dequeue_job(state.pool(job.gpu), job)
    elif (run := state.runs.get(job.run)) is not None and run.end is None:
        # A cancelled run held its agent, too.
        agent_fold.settle_run(state, event, run, job)
    _release_reservation(state, job)
    job.version, job.is_over, job.over_at = event.seq, True, event.envelope.at
    state.index_job(job)
    agent = state.agents.get(job.agent)
    if agent is not None and agent.canary_job == job.id:
        agent.canary_job = ""
    agent_fold.forget_job(state, job)


def _return_quota(
    state: SchedulerState, event: RecordedEvent, fact: events.QuotaReturned, id_: str
) -> None:
    state.quotas[id_] = event.seq
    refunds = state.refunds.get(id_, {})
    refunds.pop(fact.submission, None)
    if not refunds:
        state.refunds.pop(id_, None)
    _close_account(state, id_)


def _publish_problem(state: SchedulerState, fact: events.ProblemPublished) -> None:
    if fact.requires != Requires():
        state.requires[fact.digest] = fact.requires
    if len(state.requires) > REQUIRES_MAX:
        del state.requires[next(iter(state.requires))]


def _fix_yardstick(state: SchedulerState, fact: events.YardstickFixed) -> None:
    key = board_key(fact.problem_digest, fact.gpu)
    state.yardsticks.setdefault(key, fact.times_us)
    if len(state.yardsticks) > YARDSTICKS_MAX:
        del state.yardsticks[next(iter(state.yardsticks))]
    restated = {score.submission: score.score_us for score in fact.restated}
    for best in state.bests.values():
        best.score_us = restated.get(best.submission, best.score_us)


def _record_best(state: SchedulerState, fact: events.SubmissionFinished, id_: str) -> None:
    """Record the score of a submission that is ranked, if it may be its participant's best.

    Scores of runs that were timed alone are not comparable with those in units of a yardstick.
    """
    submission = state.submissions.get(id_)
    if submission is None or not fact.is_eligible or fact.yardstick_us is None:
        return
    if fact.score_us is None:
        return
    job = state.jobs[submission.job]
    key = best_key(job.problem_digest, job.gpu, submission.account)
    best, score_us, source = state.bests.get(key), fact.score_us, pooling_digest(submission, job)
    if best is not None and best.source == source:
        score_us = max(score_us, best.score_us)
    elif best is not None and best.score_us <= score_us:
        return
    state.bests[key] = BestScore(id_, source, score_us)
    if len(state.bests) > BESTS_MAX:
        del state.bests[next(iter(state.bests))]


def _forget_bests(state: SchedulerState, submission: str) -> None:
    """Forget a best score whose submission no longer counts."""
    state.bests = {key: best for key, best in state.bests.items() if best.submission != submission}
