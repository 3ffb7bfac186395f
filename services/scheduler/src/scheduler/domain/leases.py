"""Lease the next jobs to free agents that fit; a gang is leased all at once.

Side jobs end no submission: canaries, rejudges, duels, confirmations, checks and chunks.
"""

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from harness.vocabulary import CHECK, DUEL
from scheduler.domain import evaluations, queue
from scheduler.domain.match import (
    Candidate,
    FreeAgents,
    FreeSlot,
    find_able_agents,
    job_need,
    team_gpus,
)
from scheduler.domain.queue import Policy
from scheduler.domain.state import (
    CANARY,
    Decision,
    Job,
    Pool,
    Run,
    SchedulerState,
    World,
    append_to_agent,
    append_to_job,
    append_to_run,
    best_key,
    board_key,
    canary_job,
    pooling_digest,
    rejudge_job,
    shared_fields,
)
from shared import events, subjects
from shared.event_log import Append
from shared.events import Requires
from shared.subjects import BASELINE_ACCOUNT, job_id_of

RANKED = "ranked"
# The modes in which times are in units of the fixed yardstick.
IN_UNITS = ("benchmark", RANKED)
START_S_MAX = 30.0
# A baseline waits while anybody else does, until it has waited long enough to take its turn.
BASELINE_TURN_S = 3600.0
# The scheduler that appended a lease has this long to append its order before others do.
ORDER_S_MAX = 2.0


def assign_jobs(
    state: SchedulerState, world: World, policy: Policy, alive: dict[str, list[Candidate]]
) -> Iterator[Decision]:
    """Lease every job that can start now, in every pool that is not paused."""
    for gpu, pool in state.pools.items():
        if pool.is_waited_for and pool.paused is None and gpu in alive:
            # The other agents are about to be quarantined.
            trusted = [
                candidate
                for candidate in alive[gpu]
                if candidate.agent.failures < policy.quarantine_after
            ]
            yield from _assign_pool(state, pool, policy, FreeAgents(trusted), world.now)


def _assign_pool(
    state: SchedulerState, pool: Pool, policy: Policy, free_agents: FreeAgents, now: datetime
) -> Iterator[Decision]:
    taken: set[str] = set()
    due_gangs = set(queue.gangs_due(pool, policy))
    if not free_agents.free_count:
        return
    # Whether only baselines wait. A new one lets its author go first, who is about to submit.
    is_quiet = all(lane.waiting.keys() <= {BASELINE_ACCOUNT} for lane in pool.lanes.values())
    baseline_pause_s = policy.baseline_pause_s if is_quiet else BASELINE_TURN_S
    overruns_s = queue.overrun_s(pool, state.jobs, now)
    gang_agents = evaluations.gang_agents(state, pool, free_agents.alive) if pool.gangs else ()
    for id_ in queue.order_jobs(
        pool, policy, taken, lambda id_: queue.cost_s(pool, state.jobs[id_]), overruns_s
    ):
        job = state.jobs[id_]
        submission = state.submissions.get(job.submission)
        is_wanted = job.is_side or (submission is not None and submission.cancel is None)
        if not is_wanted or job.cancel or now >= job.deadline_at:
            continue
        if job.is_baseline and (now - job.queued_at).total_seconds() < baseline_pause_s:
            continue
        need = evaluations.leave_to_gangs(job, job_need(job), gang_agents)
        # What nobody waits for would hold up what comes beside it.
        needs_idle = job.is_deferrable and not _has_turn(job, now)
        team = free_agents.take(need, job.avoid, needs_idle=needs_idle)
        if team:
            taken.add(id_)
            yield _lease(state, job, team, now)
            yield from _preempt_beside(state, job, team, now)
        elif id_ in due_gangs and free_agents.keep(need):
            due_gangs.clear()
        if not free_agents.free_count:
            return


def _has_turn(job: Job, now: datetime) -> bool:
    """Return whether a job has waited so long that it gives way to nobody any more."""
    return (now - job.queued_at).total_seconds() >= BASELINE_TURN_S


def preempt_jobs(
    state: SchedulerState, world: World, alive: dict[str, list[Candidate]]
) -> Iterator[Decision]:
    """Requeue a job that nobody waits for, in each pool where somebody waits and no slot is free.

    It costs that job no attempt. Having waited for `BASELINE_TURN_S`, a job keeps its agent, so
    that it ends even if somebody always waits.
    """
    for gpu, candidates in alive.items():
        pool = state.pools.get(gpu)
        if pool is None or pool.paused is not None:
            continue
        runs = ((candidate, run) for candidate in candidates for run in candidate.agent.runs)
        for candidate, run_id in runs:
            decision = _preempt(state, run_id, world.now)
            if decision and _is_needed(state, pool, candidate, candidates):
                yield decision
                break


def _preempt_beside(
    state: SchedulerState, job: Job, team: Sequence[FreeSlot], now: datetime
) -> Iterator[Decision]:
    """Requeue what nobody waits for beside a participant's job, whose times would wait for it."""
    runs = [run for candidate, _ in team for run in candidate.agent.runs]
    for run_id in runs if job.is_awaited else ():
        if decision := _preempt(state, run_id, now):
            yield decision


def _is_needed(
    state: SchedulerState, pool: Pool, candidate: Candidate, alive: Sequence[Candidate]
) -> bool:
    """Return whether a participant waits for a run that this agent can do, and no free one."""
    for lane in pool.lanes.values():
        for waiting in lane.waiting.values():
            job = state.jobs[waiting[0][1]]
            need = job_need(job)
            if not job.is_awaited or job.cancel or need.gpus > 1:
                continue
            able = find_able_agents(need, alive)
            if candidate in able and not any(agent.is_free for agent in able):
                return True
    return False


def _preempt(state: SchedulerState, run_id: str, now: datetime) -> Decision:
    """Requeue the job of a run if it gives way to others; empty if it does not."""
    run = state.runs.get(run_id)
    job = state.jobs.get(run.job) if run is not None and run.end is None else None
    if run is None or job is None or job.agents != [run.agent]:
        return ()
    if not job.is_deferrable or _has_turn(job, now):
        return ()
    reason = "a participant's submission needs the agent"
    requeued = events.JobRequeued(run=run.id, reason=reason, avoid_agents=job.avoid)
    cancelled = events.RunCancelled(reason=reason)
    return (append_to_run(run, cancelled, job.submission), append_to_job(job, requeued))


def _lease(state: SchedulerState, job: Job, team: Sequence[FreeSlot], now: datetime) -> Decision:
    """Return the job's lease and each agent's order.

    A job cannot be leased twice, because the lease expects the job's version. A slot cannot get two
    orders, because its next run has a fixed id and the order expects an empty history
    (docs/adr/leases-and-orders.md). A gang reserves the other slots of its agents in the same way.
    """
    candidates = [candidate for candidate, _ in team]
    names = [candidate.name for candidate in candidates]
    runs = [candidate.agent.next_run(candidate.name, place) for candidate, place in team]
    gang_agents, lease_until_at = names if len(names) > 1 else [], _lease_end(job, now)
    leased = events.JobLeased(
        run=runs[0],
        agent=names[0],
        attempt=job.attempt + 1,
        lease_until_at=lease_until_at,
        agents=gang_agents,
        chunk=job.chunk,
    )
    order_appends = []
    for candidate, run in zip(candidates, runs, strict=True):
        order = _build_order(state, job, candidate.offer.session, job.attempt + 1, lease_until_at)
        order = msgspec.structs.replace(order, gang=gang_agents, gpus=team_gpus(candidates))
        aggregate = subjects.run(candidate.name, run)
        order_appends.append(Append(aggregate, order, 0, job.id, job.submission))
    if gang_agents:
        for slot, run in zip(team, runs, strict=True):
            order_appends += _reserve_other_slots(slot, run, job)
    # Its id names this run: the log keeps a repeated lease once and refuses another as a conflict.
    lease = Append(subjects.job(job.id), leased, job.version, runs[0], job.submission)
    return (lease, *order_appends)


def _reserve_other_slots(slot: FreeSlot, run: str, job: Job) -> Iterator[Append]:
    """Keep every slot of an agent empty beside its run of a gang."""
    agent, name = slot.candidate.agent, slot.candidate.name
    for place in range(slot.candidate.slot_count):
        if place != slot.place:
            aggregate = subjects.run(name, agent.next_run(name, place))
            yield Append(aggregate, events.SlotReserved(run=run), 0, job.id, job.submission)


def complete_leases(state: SchedulerState, job: Job, world: World) -> Iterator[Decision]:
    """Append the missing order of a lone agent's lease, whose scheduler may have died.

    Every scheduler builds the same event, so the log keeps one. If the run with that id belongs to
    another job, the lease ends instead.
    """
    if len(job.agents) != 1 or job.run is None or job.leased_at is None:
        return  # A gang's orders are stored in one batch with its lease.
    (name,) = job.agents
    if state.agents[name].find_slot(name, job.run) is None:
        reason = f"agent {name} was given another run at the same moment"
        requeued = events.JobRequeued(run=job.run, reason=reason, avoid_agents=job.avoid)
        yield (append_to_job(job, requeued),)
        return
    offer = world.offers.get(name)
    is_heard = offer is not None or world.is_settled
    if is_heard and world.now >= job.leased_at + timedelta(seconds=ORDER_S_MAX):
        # If the agent is gone, the rule for lost agents ends this run.
        session = offer.session if offer is not None else ""
        order = _build_order(state, job, session, job.attempt, _lease_end(job, world.now))
        yield (Append(subjects.run(name, job.run), order, 0, job.id, job.submission),)


def _lease_end(job: Job, now: datetime) -> datetime:
    return min(now + timedelta(seconds=START_S_MAX), job.deadline_at)


def _build_order(
    state: SchedulerState, job: Job, session: str, attempt: int, lease_until_at: datetime
) -> events.JobAssigned:
    fields = shared_fields(job, events.JobAssigned) | msgspec.structs.asdict(job.options)
    fields["attempt"] = attempt
    if job.mode in IN_UNITS:
        board = board_key(job.problem_digest, job.gpu)
        fields["yardstick_us"] = state.yardsticks.get(board, {})
    return events.JobAssigned(
        job=job.id,
        session=session,
        lease_until_at=lease_until_at,
        best_us=_best_us(state, job),
        **fields,
    )


def _best_us(state: SchedulerState, job: Job) -> float:
    """Return the score that a participant's ranked run has to beat, 0 if it runs to its end.

    A further run of the best one's own source is pooled with it, so it runs to its end. So does one
    for practice, which is not compared with what came before the deadline.
    """
    best = state.bests.get(best_key(job.problem_digest, job.gpu, job.account))
    is_own = job.mode == RANKED and not (job.is_side or job.is_baseline)
    submission = state.submissions.get(job.submission)
    if best is None or not is_own or submission is None or submission.is_practice:
        return 0.0
    return 0.0 if best.source == pooling_digest(submission, job) else best.score_us


CANARY_S_MAX = 900.0
CANARY_MODE = "benchmark"
# This many good canaries define the usual time; before that, a slow one is no drift.
CANARY_FIRST = 3
CANARY_PAUSE_S_MIN = 1.0
# Keeps a time that an agent claims within what JSON can hold.
CANARY_RATIO_MAX = 1e6
REJUDGE_S_MAX = 24 * 3600.0
REJUDGE_BATCH_MAX = 100
REJUDGE_ATTEMPTS_MAX = 3
# The longest wait of a duel, a confirmation or a noisy run that is timed again, which come after
# all jobs that await a verdict.
REPEAT_S_MAX = 24 * 3600.0
# It is repeated once if the platform failed, then it ends without a result.
REPEAT_ATTEMPTS_MAX = 2
REPEAT_CLASS = "rejudge"
# A second agent shows whether the problem or the first agent failed.
CHECK_ATTEMPTS_MAX = 2
CHECK_REQUEST = "check.json"


def queue_rejudges(state: SchedulerState, world: World) -> Iterator[Decision]:
    """Queue a job for each submission of a rejudge that has none yet."""
    for id_, rejudge in state.rejudges.items():
        yield tuple(
            _queue_job(
                state,
                rejudge_job(id_, item.submission),
                id_,
                item,
                problem=rejudge.problem,
                problem_digest=rejudge.to_digest,
                gpu=item.gpu,
                mode="ranked",
                deadline_at=world.now + timedelta(seconds=REJUDGE_S_MAX),
                attempts_max=REPEAT_ATTEMPTS_MAX if rejudge.is_retime else REJUDGE_ATTEMPTS_MAX,
                class_="rejudge",
                rejudge=id_,
            )
            for item in rejudge.items[:REJUDGE_BATCH_MAX]
        )


def _queue_job(
    state: SchedulerState,
    id_: str,
    corr: str,
    item: events.RejudgeItem | events.DuelSide | events.CanaryChosen,
    **fields: Any,
) -> Append:
    """Queue a job that runs the source of a submission, which may be over."""
    queued = events.JobQueued(
        submission=item.submission,
        account=item.account,
        source=item.source,
        name=item.name,
        requires=state.requires.get(fields["problem_digest"], Requires()),
        **fields,
    )
    return Append(subjects.job(id_), queued, 0, id_, corr)


def queue_comparisons(state: SchedulerState, world: World) -> Iterator[Decision]:
    """Queue a job for each duel and each confirmation that has none yet.

    They come behind all jobs that await a verdict. Any agent that has not run it may confirm a run.
    """
    for id_, duel in state.duels.items():
        rival = duel.second
        yield _queue_repetition(
            state, world, id_, duel, mode=DUEL, duel=id_, rival=rival.source, rival_name=rival.name
        )
    for id_, requested in state.confirmations.items():
        excluded = [requested.agent, *requested.other_agents]
        yield _queue_repetition(
            state, world, id_, requested, mode="ranked", confirmation=id_, excluded_agents=excluded
        )


def queue_checks(state: SchedulerState) -> Iterator[Decision]:
    """Queue a job for each check of a problem that has none yet."""
    for id_, requested in state.checks.items():
        queued = events.JobQueued(
            submission=id_,
            account=requested.account,
            problem=requested.problem,
            problem_digest=requested.problem_digest,
            gpu=requested.gpu,
            mode=CHECK,
            deadline_at=requested.deadline_at,
            attempts_max=CHECK_ATTEMPTS_MAX,
            class_=CHECK,
            requires=requested.requires,
            source=requested.request,
            name=CHECK_REQUEST,
            check=id_,
        )
        job = job_id_of(id_)
        yield (Append(subjects.job(job), queued, 0, job, id_),)


def _queue_repetition(
    state: SchedulerState,
    world: World,
    id_: str,
    requested: events.DuelRequested | events.ConfirmationRequested,
    **fields: Any,
) -> Decision:
    item = requested.first if isinstance(requested, events.DuelRequested) else requested.item
    queued = _queue_job(
        state,
        job_id_of(id_),
        id_,
        item,
        problem=requested.problem,
        problem_digest=requested.problem_digest,
        gpu=requested.gpu,
        deadline_at=world.now + timedelta(seconds=REPEAT_S_MAX),
        attempts_max=REPEAT_ATTEMPTS_MAX,
        class_=REPEAT_CLASS,
        **fields,
    )
    return (queued,)


def queue_canaries(
    state: SchedulerState, world: World, alive: dict[str, list[Candidate]]
) -> Iterator[Decision]:
    """Queue the next canary of every agent that is due for one, cordoned ones included."""
    for gpu, pool in state.pools.items():
        if pool.canary is None or pool.paused is not None:
            continue
        chosen = pool.canary.chosen
        every = timedelta(seconds=max(chosen.every_s, CANARY_PAUSE_S_MIN))
        for candidate in alive.get(gpu, ()):
            agent = candidate.agent
            is_able = (
                not candidate.out_of_service
                and not agent.launcher
                and CANARY_MODE in candidate.registration.modes
            )
            is_due = agent.canary_at is None or world.now >= agent.canary_at + every
            if not is_able or not is_due or agent.canary_job or not agent.version:
                continue
            queued = _queue_job(
                state,
                canary_job(candidate.name, agent.canaries),
                chosen.submission,
                chosen,
                problem=chosen.problem,
                problem_digest=chosen.problem_digest,
                gpu=candidate.registration.gpu,
                mode=CANARY_MODE,
                deadline_at=world.now + timedelta(seconds=CANARY_S_MAX),
                attempts_max=1,
                class_=CANARY,
                agent=candidate.name,
            )
            yield (queued,)


def judge_canary(state: SchedulerState, job: Job, run: Run) -> Decision:
    """Judge an agent by its finished canary, and end the canary; empty for other jobs.

    An agent that is slower than usual is quarantined at once. While the usual time is unknown, no
    agent is: a canary that fails then is the fault of the operator who chose it.
    """
    canary = state.pools[job.gpu].canary
    if job.class_ != CANARY or canary is None or job.cancel:
        return ()
    usual_times, agent, ratio = canary.times_us, state.agents[run.agent], 1.0
    if usual_times:
        ratio = min(run.time_us / statistics.median(usual_times), CANARY_RATIO_MAX)
    ratio = round(ratio, 4) if run.time_us > 0 else 0.0
    is_drift = ratio > canary.chosen.ratio_max and len(usual_times) >= CANARY_FIRST
    is_good = run.verdict == "passed" and run.time_us > 0 and not is_drift
    judgement = events.CanaryJudged(run=run.id, ratio=ratio, is_good=is_good)
    appends = [append_to_agent(state, run.agent, judgement)]
    if not is_good and len(usual_times) >= CANARY_FIRST and not agent.quarantine:
        why = f"took {ratio:g} times as long as usual" if ratio else f"ended {run.verdict}"
        fact = events.AgentQuarantined(reason=f"its canary {why}", failures=agent.failures)
        # After CanaryJudged in the same batch, which is where the version is expected.
        appends.append(Append(subjects.agent(run.agent), fact, None, run.id, run.agent))
    finished = events.JobFinished(run=run.id, verdict=run.verdict)
    return (*appends, append_to_job(job, finished))
