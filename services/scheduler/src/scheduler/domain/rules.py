"""The rules: each reads the state, the agents and the clock, and returns decisions."""

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from scheduler.domain import evaluations, launches, leases
from scheduler.domain.agent_fold import GANG_BROKEN
from scheduler.domain.match import list_candidates
from scheduler.domain.queue import Policy
from scheduler.domain.state import (
    Decision,
    Job,
    Pool,
    Run,
    SchedulerState,
    Submission,
    World,
    append_to_agent,
    append_to_job,
    append_to_run,
    fail_submission,
    give_up,
)
from shared import events, subjects
from shared.endings import AGENTS_LOST, ending_code
from shared.event_log import Append
from shared.states import STATES, state_deadline

REFUNDS_MAX = 100
# A submission may lose its agent by accident once.
LOST_MAX = 2
# The author's mistake, which every agent would find, and a time that is over on every agent.
FINAL_FAILURES = ("problem_fault", "profiler", STATES["running"].overdue)
SUBMISSION_OVER = "its submission is over"
# These make no rule due at once; the next tick is soon enough.
IDLE = frozenset({"JobLeased", "JobAssigned", "SlotReserved", "RunStarted"})
DEFAULT_POLICY = Policy()


def decide(
    state: SchedulerState, world: World, policy: Policy = DEFAULT_POLICY
) -> Iterator[Decision]:
    """Return every decision that is due; the facts of one decision are stored together or not."""
    are_agents_needed = any(pool.canary or pool.is_waited_for for pool in state.pools.values())
    candidates = list_candidates(state, world) if are_agents_needed else {}
    yield from _decide_agents(state, world, policy)
    yield from _return_quotas(state)
    for id_ in state.closing:
        submission = state.submissions[id_]
        yield from _decide_submission(state, submission, state.jobs[submission.job], world)
    # Nearly all jobs of a long queue just wait, and are not looked at.
    for id_ in state.active:
        yield from _decide_job(state, state.jobs[id_], world)
    for pool in state.pools.values():
        yield from _expire_waiting_jobs(state, pool, world)
    yield from _release_members(state)
    yield from leases.queue_rejudges(state, world)
    yield from leases.queue_comparisons(state, world)
    yield from leases.queue_checks(state)
    yield from evaluations.finish_evaluations(state)
    yield from leases.queue_canaries(state, world, candidates)
    yield from leases.assign_jobs(state, world, policy, candidates)
    yield from leases.preempt_jobs(state, world, candidates)
    if state.evaluations:
        yield from evaluations.stop_chunks(state, candidates)
    if state.launchers:
        yield from launches.end_instances(state, world)
        yield from launches.give_up_unlaunched(state, candidates)
        yield from launches.request_instances(state, world, policy, candidates)


def _decide_agents(state: SchedulerState, world: World, policy: Policy) -> Iterator[Decision]:
    """Record new registrations, and quarantine agents that failed too often."""
    suspects = _find_suspects(state, world)
    for name, reason in suspects.items():
        known = state.agents.get(name)
        failures, version = (known.failures, known.version) if known else (0, 0)
        quarantined = events.AgentQuarantined(reason=reason, failures=failures)
        yield (Append(subjects.agent(name), quarantined, version, name, name),)
    for name, offer in world.offers.items():
        if name in suspects:
            continue  # Both would expect the same version.
        known = state.agents.get(name)
        if known is None or known.registration != offer.registration:
            version = known.version if known else 0
            yield (Append(subjects.agent(name), offer.registration, version, name, name),)
    for name, agent in state.agents.items():
        is_withdrawn = agent.quarantine or agent.revoked or name in suspects
        if agent.failures >= policy.quarantine_after and not is_withdrawn:
            reason = f"{agent.failures} failures of the platform in a row"
            quarantined = events.AgentQuarantined(reason=reason, failures=agent.failures)
            yield (append_to_agent(state, name, quarantined),)


def _find_suspects(state: SchedulerState, world: World) -> dict[str, str]:
    """Return the agents to quarantine for misconduct, which need not be registered, and why."""
    return {
        name: reason
        for name, reason in world.misconduct.items()
        if not (name in state.agents and state.agents[name].quarantine)
    }


def _return_quotas(state: SchedulerState) -> Iterator[Decision]:
    """Return every account's due refunds in one batch, after the version of its quota.

    If the quota changed in between, the refund waits for the next pass, so nothing is paid twice.
    """
    for account, refunds in state.refunds.items():
        appends: list[Append] = []
        for submission, refund in list(refunds.items())[:REFUNDS_MAX]:
            returned = events.QuotaReturned(
                submission=submission, bucket=refund.bucket, cost=refund.cost, reason=refund.reason
            )
            expected = None if appends else state.quotas.get(account, 0)
            quota = subjects.quota(account)
            appends.append(Append(quota, returned, expected, submission, submission))
        yield tuple(appends)


def _expire_waiting_jobs(state: SchedulerState, pool: Pool, world: World) -> Iterator[Decision]:
    """End the jobs that just wait and are past their deadline."""
    for deadline_at, id_ in pool.deadlines:
        if not world.is_past(deadline_at):
            return
        if id_ not in state.active:
            yield from _decide_job(state, state.jobs[id_], world)


def _decide_submission(
    state: SchedulerState, submission: Submission, job: Job, world: World
) -> Iterator[Decision]:
    """Decide about a submission itself; the rules of its job decide about its work."""
    id_, deadline_at = submission.id, job.deadline_at
    if submission.cancel is not None and not _has_verdict(state, job):
        if not _is_half_leased(state, job):
            yield _cancel_submission(state, submission, job)
    elif job.is_over and world.is_settled:
        stage, since_at = STATES["ranking"], job.over_at or deadline_at
        if world.is_past(state_deadline("ranking", deadline_at, since_at)):
            reason = f"{stage.owner} did not decide on its verdict in time"
            yield tuple(fail_submission(state, id_, stage.overdue, reason))


def _has_verdict(state: SchedulerState, job: Job) -> bool:
    run = state.runs.get(job.run or "")
    return run is not None and run.job == job.id and run.end == "RunCompleted"


def _is_half_leased(state: SchedulerState, job: Job) -> bool:
    """Return whether orders that belong to the job's lease are still on their way.

    A gang's orders come in one batch with its lease, a lone agent's order comes separately.
    """
    if job.is_over or job.run is None:
        return False
    if len(job.agents) > 1:
        return state.seq < job.version + len(job.agents)
    run = state.runs.get(job.run)
    return run is None or run.job != job.id


def _cancel_submission(state: SchedulerState, submission: Submission, job: Job) -> Decision:
    """End a submission that is to be cancelled, with its job and all open runs."""
    reason = submission.cancel or "cancelled"
    finished = events.SubmissionFinished(
        outcome="cancelled",
        is_eligible=False,
        code="cancelled",
        reason=reason,
        job=submission.job,
        run=job.run,
    )
    aggregate = subjects.submission(submission.id)
    ending = Append(aggregate, finished, submission.version, submission.id, submission.id)
    return (ending, *(() if job.is_over else _cancel_job(state, job, reason)))


def _cancel_job(state: SchedulerState, job: Job, reason: str) -> Decision:
    cancelled = events.RunCancelled(reason=reason)
    return (
        append_to_job(job, events.JobCancelled(reason=reason, chunk=job.chunk)),
        *(append_to_run(run, cancelled, job.submission) for run in _open_runs(state, job)),
    )


def _open_runs(state: SchedulerState, job: Job) -> list[Run]:
    """Return the open runs of a job, its leader's first."""
    agents = [state.agents.get(name) for name in job.agents]
    runs = [state.runs.get(run) for agent in agents if agent is not None for run in agent.runs]
    return [run for run in runs if run is not None and run.job == job.id]


def _decide_job(state: SchedulerState, job: Job, world: World) -> Iterator[Decision]:
    if job.is_over:
        return
    is_orphan = state.is_orphan(job) or (job.chunk is not None and bool(job.cancel))
    if job.run is not None:
        yield from _decide_leased_job(state, job, is_orphan, world)
    elif job.cancel or is_orphan:
        yield _cancel_job(state, job, job.cancel or SUBMISSION_OVER)
    elif world.is_past(job.deadline_at):
        yield _expire_waiting_job(state, job)


def _expire_waiting_job(state: SchedulerState, job: Job) -> Decision:
    """End a job that no agent took in time; for a baseline that is no platform failure."""
    reason = "no agent took it before its deadline"
    given_up, *endings = give_up(state, job, STATES["queued"].overdue, reason)
    if job.is_baseline:
        endings = [
            replace(ending, fact=structs.replace(ending.fact, outcome="cancelled", reason=reason))
            for ending in endings
        ]
    return (given_up, *endings)


def _decide_leased_job(
    state: SchedulerState, job: Job, is_orphan: bool, world: World
) -> Iterator[Decision]:
    run = state.runs.get(job.run or "")
    if run is None or run.job != job.id:
        yield from leases.complete_leases(state, job, world)
    elif run.result is not None:
        yield evaluations.end_items(job, run, run.result)
    elif run.end == "RunCompleted" and job.chunk is None:
        finished = append_to_job(job, events.JobFinished(run=run.id, verdict=run.verdict))
        yield leases.judge_canary(state, job, run) or (finished,)
    elif is_orphan:
        yield _cancel_job(state, job, job.cancel or SUBMISSION_OVER)
    elif run.end is not None:
        yield _retry_or_give_up(state, job, run, world)
    else:
        # Only the first lost lease of a job ends; the other leases of a gang follow from it.
        for member in _open_runs(state, job) if len(job.agents) > 1 else (run,):
            expired = _find_expiry(state, member, job, world)
            if expired is not None:
                yield (append_to_run(member, expired, job.submission),)
                return


def _find_expiry(
    state: SchedulerState, run: Run, job: Job, world: World
) -> events.JobExpired | None:
    """Return why the lease is over, or None while it holds."""
    if world.has_listened and world.is_past(job.deadline_at):
        stage = STATES["running" if run.has_begun else "assigned"]
        reason = f"its deadline passed while it was {stage.name}, the matter of {stage.owner}"
        return events.JobExpired(reason=reason, code=stage.overdue)
    if run.reason:
        return events.JobExpired(reason=run.reason, code=run.code)
    offer, problem, code = world.offers.get(run.agent), "", ""
    if state.agents[run.agent].revoked:
        problem, code = "was revoked", "agent_revoked"
    elif offer is None and world.is_settled:
        problem, code = "fell silent", "agent_silent"
    elif offer is not None and offer.session != run.session:
        problem, code = "was restarted in the middle of the run", "agent_restarted"
    elif (
        offer is not None
        and not (run.has_begun or run.is_member)
        and world.has_listened
        and world.is_past(run.lease_until_at)
    ):
        problem, code = "did not start the run in time", STATES["assigned"].overdue
    elif world.has_listened and evaluations.is_overdue(state, job, run, world):
        problem, code = "did not end the chunk in time", evaluations.CHUNK_OVERDUE
    return events.JobExpired(reason=f"agent {run.agent} {problem}", code=code) if code else None


def _retry_or_give_up(state: SchedulerState, job: Job, run: Run, world: World) -> Decision:
    """Repeat the job, on another agent if one fits, or give it up.

    The log refuses all reports of an earlier run, so that only one attempt can have a verdict.
    """
    # In a broken gang a member failed, which is avoided already.
    must_avoid = run.code != GANG_BROKEN and run.agent not in job.avoid
    avoid = [*job.avoid, run.agent] if must_avoid else job.avoid
    requeued = events.JobRequeued(
        run=run.id, reason=run.reason, avoid_agents=avoid, chunk=job.chunk
    )
    if job.agents_lost >= LOST_MAX:
        if job.chunk is not None and job.chunk.count > 1:
            return evaluations.split_chunk(job, run, requeued)
        reason = f"its agent failed twice during the run (the last failure: {run.reason})"
        reason = f"{reason}, so it is not run again"
        return give_up(state, job, AGENTS_LOST, reason, "this costs no quota")
    is_final = run.code in FINAL_FAILURES
    if is_final or job.attempt >= job.attempts_max or world.is_past(job.deadline_at):
        return give_up(state, job, ending_code(run.code), run.reason)
    return (append_to_job(job, requeued),)


def _release_members(state: SchedulerState) -> Iterator[Decision]:
    """Free the members of a gang whose leader's run is over."""
    for run in state.runs.values():
        leader = state.runs.get(run.leader)
        if run.is_member and run.end is None and (leader is None or leader.end is not None):
            released = events.RunReleased(reason="the run of its gang is over")
            yield (append_to_run(run, released, run.job),)
