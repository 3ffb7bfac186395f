"""The second half of the fold: what each event changes of runs, agents and pools."""

import statistics
from datetime import datetime
from typing import TypeAlias, assert_never

from scheduler.domain import evaluations, queue
from scheduler.domain.state import CANARY, Canary, Job, Run, SchedulerState, Slot
from shared import events
from shared.event_log import RecordedEvent
from shared.subjects import history_of, last_token

CANARY_TIMES_MAX = 50
# An agent may fill an event with text; our own event that quotes it has to fit into one as well.
REASON_LENGTH_MAX = 2000
WORD_LENGTH_MAX = 64
# The codes of all runs of an agent that died; together they are one failure.
AGENT_GONE_CODES = ("agent_silent", "agent_restarted")
# The codes of a run whose agent or harness died or hung.
AGENT_LOSS_CODES = (
    *("supervisor", "sandbox", "device", *AGENT_GONE_CODES),
    *(evaluations.CHUNK_OVERDUE, evaluations.BAD_CHUNK),
)
# The code of a leader's run whose gang lost a member.
GANG_BROKEN = "gang_broken"
# An operator took the agent away; the submission is not to blame.
REPEATED = ("agent_revoked",)
# Codes that do not count against the agent. A machine that is too busy for ranked runs still tests.
BLAMELESS_CODES = (
    *("problem_fault", "memory", "noisy", "profiler", "drained", "overdue_running", GANG_BROKEN),
    *REPEATED,
)


RegistrationFact: TypeAlias = (
    events.AgentRegistered
    | events.AgentEnrolled
    | events.AgentRevoked
    | events.AgentCordoned
    | events.AgentDrained
    | events.AgentQuarantined
    | events.AgentReleased
)


def apply_assignment(
    state: SchedulerState, event: RecordedEvent, fact: events.JobAssigned, id_: str
) -> None:
    """Start a run of a leased job; an order that no lease names changes nothing else."""
    name, job = _writing_agent(event), state.jobs.get(fact.job)
    slot = _find_leased_slot(state, job, name, id_)
    if job is None or job.run is None or slot is None:
        advance_run_version(state, event)
        return
    state.runs[id_] = Run(
        id=id_,
        agent=name,
        job=fact.job,
        version=event.seq,
        token=event.seq,
        session=fact.session,
        leader=job.run,
        assigned_at=event.envelope.at,
        lease_until_at=fact.lease_until_at,
    )
    slot.take(id_, is_whole=len(job.agents) > 1)
    slot.last_run = id_


def apply_slot_reservation(state: SchedulerState, event: RecordedEvent, id_: str) -> None:
    """Give the slot another id for its next run; its agent's run of a gang keeps it empty."""
    name = _writing_agent(event)
    if (slot := state.agent(name).find_slot(name, id_)) is not None:
        slot.last_run = id_


def _writing_agent(event: RecordedEvent) -> str:
    """Return the agent on whose subject a run's event lies."""
    return event.envelope.aggregate.split(".")[1]


def _find_leased_slot(state: SchedulerState, job: Job | None, name: str, id_: str) -> Slot | None:
    """Return the slot of a run of this agent that the job's lease, which no agent writes, names."""
    if job is None or id_ in state.runs or name not in job.agents:
        return None
    if name == job.agents[0] and id_ != job.run:
        return None
    return state.agent(name).find_slot(name, id_)


def advance_run_version(state: SchedulerState, event: RecordedEvent) -> None:
    """Advance the version of the run whose subject holds an event without other effect."""
    if not history_of(event.envelope.aggregate).startswith("run."):
        return
    id_ = last_token(event.envelope.aggregate)
    run = state.runs.get(id_)
    if run is None or run.agent != _writing_agent(event):
        _record_spoilt_name(state, event, id_)
    elif run.end is None:
        run.version = event.seq


def apply_run_event(
    state: SchedulerState, event: RecordedEvent, fact: events.RunFact, id_: str
) -> None:
    """Apply an event of a run after its assignment; a terminal one ends the run."""
    run = state.runs.get(id_)
    if run is None or run.agent != _writing_agent(event):
        _record_spoilt_name(state, event, id_)
        return
    if run.end is not None:
        return
    run.version = event.seq
    if isinstance(fact, events.RunStarted):
        run.has_begun = True
    elif type(fact).is_terminal:
        run.end = event.envelope.type
        run.code = getattr(fact, "code", "")[:WORD_LENGTH_MAX]
        run.reason = getattr(fact, "reason", "")[:REASON_LENGTH_MAX]
        run.verdict = getattr(fact, "verdict", "")[:WORD_LENGTH_MAX]
        _end_run(state, event, run, fact)


def _record_spoilt_name(state: SchedulerState, event: RecordedEvent, id_: str) -> None:
    """An agent wrote where its next order belongs: use the next name, and count a failure."""
    agent = state.agents.get(_writing_agent(event))
    slot = agent.find_slot(_writing_agent(event), id_) if agent is not None else None
    if agent is not None and slot is not None:
        slot.last_run = id_
        agent.failures += 1


def _end_run(state: SchedulerState, event: RecordedEvent, run: Run, fact: events.Fact) -> None:
    agent, job = state.agent(run.agent), state.jobs.get(run.job)
    agent.free_slot(run.id)
    has_passed_self_test = isinstance(fact, events.RunFailed) and fact.has_passed_self_test
    if run.end == "RunCompleted":
        agent.failures = 0
    elif run.end in ("RunFailed", "JobExpired") and not has_passed_self_test:
        is_gone = run.code in AGENT_GONE_CODES
        is_counted = is_gone and run.session == agent.lost_session
        agent.failures += run.code not in BLAMELESS_CODES and not is_counted
        agent.lost_session = run.session if is_gone else agent.lost_session
    if run.is_member or job is None:
        del state.runs[run.id]
    if job is None:
        return
    if not run.is_member:
        _end_leader_run(state, event, run, fact, job)
        return
    # A gang that lost a member is broken: its leader's run expires, by the member's fault. If an
    # operator took the member away, nobody is at fault.
    leader = state.runs.get(run.leader)
    if leader is not None and leader.end is None and job.run == leader.id:
        job.agents_lost += leader.has_begun and run.code in AGENT_LOSS_CODES
        leader.reason = f"agent {run.agent} of its gang was lost: {run.reason}"
        leader.code = run.code if run.code in REPEATED else GANG_BROKEN
        job.avoid = sorted({*job.avoid, run.agent})


def _end_leader_run(
    state: SchedulerState, event: RecordedEvent, run: Run, fact: events.Fact, job: Job
) -> None:
    ended_at, took_s = settle_run(state, event, run, job)
    if job.chunk is not None and isinstance(fact, events.RunCompleted):
        _read_chunk_result(state, event, run, fact, job)
    job.agents_lost += run.has_begun and run.code in AGENT_LOSS_CODES
    if isinstance(fact, events.RunCompleted):
        times = [case.time_us for case in fact.cases if case.stage == "time" and case.time_us]
        if fact.verdict == "passed" and times and min(times) > 0:
            run.time_us = statistics.geometric_mean(times)
        if job.class_ != CANARY:
            queue.record_run_time(state.pool(job.gpu), job, took_s)
    if job.is_over:
        # The run was the last thing that kept this job.
        state.runs.pop(run.id, None)
    elif isinstance(fact, events.RunCompleted) and not job.is_side:
        # A verdict ends a submission's job.
        job.is_over, job.over_at = True, ended_at
        state.index_job(job)
        forget_job(state, job)


def _read_chunk_result(
    state: SchedulerState, event: RecordedEvent, run: Run, fact: events.RunCompleted, job: Job
) -> None:
    """Record the verdicts of a chunk; without those that fit the order, its agent failed."""
    run.result = evaluations.read_result(state, event, run, fact, job)
    if run.result is None:
        run.code, run.reason = evaluations.BAD_CHUNK, "its verdicts do not fit its order"
        state.agent(run.agent).failures += 1


def settle_run(
    state: SchedulerState, event: RecordedEvent, run: Run, job: Job
) -> tuple[datetime, float]:
    """Charge a run that an event ended for its time; return when it ended, and that time."""
    # By the agent's clock, which is trusted up to the deadline, and must not delay the decision.
    ended_at = min(event.envelope.at, job.deadline_at)
    took_s = max(0.0, (ended_at - run.assigned_at).total_seconds())
    if job.chunk is not None and job.submission in state.evaluations:
        state.evaluations[job.submission].device_s += took_s
    queue.settle_charge(state.pool(job.gpu), job, took_s)
    return ended_at, took_s


def forget_job(state: SchedulerState, job: Job) -> None:
    """Drop a job when it and its submission are over."""
    if not job.is_over or (not job.is_side and job.submission in state.submissions):
        return
    queue.release_lease(state.pool(job.gpu), job)
    del state.jobs[job.id]
    state.active.pop(job.id, None)
    run = state.runs.get(job.run or "")
    if run is not None and run.job == job.id and run.end is not None:
        del state.runs[run.id]


def apply_agent_event(
    state: SchedulerState, event: RecordedEvent, fact: RegistrationFact, id_: str
) -> None:
    """Apply an event of an agent's history; each one advances its version."""
    agent = state.agent(id_)
    agent.version = event.seq
    match fact:
        case events.AgentRegistered():
            agent.registration = fact
            agent.slots += [Slot() for _ in range(fact.slots - len(agent.slots))]
        case events.AgentEnrolled():
            agent.is_enrolled, agent.sign_key, agent.revoked = True, fact.sign_key, ""
        case events.AgentRevoked():
            agent.is_enrolled, agent.sign_key = False, ""
            agent.revoked = fact.reason or "revoked"
        case events.AgentCordoned():
            agent.cordon = fact.reason or "cordoned"
        case events.AgentDrained():
            agent.drain = fact.reason or "drained"
        case events.AgentQuarantined():
            agent.quarantine = fact.reason or "quarantined"
        case events.AgentReleased():
            agent.cordon = agent.drain = agent.quarantine = ""
            agent.failures = 0
        case _:
            assert_never(fact)


def record_judgement(
    state: SchedulerState, event: RecordedEvent, fact: events.CanaryJudged, id_: str
) -> None:
    """Record how an agent's canary was judged; a good one's time counts for the pool."""
    state.agent(id_).version = event.seq
    run = state.runs.get(fact.run)
    job = run and state.jobs.get(run.job)
    canary = job and state.pool(job.gpu).canary
    if run and canary and fact.is_good:
        canary.times_us = [*canary.times_us, run.time_us][-CANARY_TIMES_MAX:]


def choose_canary(state: SchedulerState, gpu: str, canary: Canary | None) -> None:
    """Replace the canary of a pool, or remove it; the old one's jobs are cancelled."""
    for job in state.jobs.values():
        if job.class_ == CANARY and job.gpu == gpu:
            job.cancel = "the pool has another canary, or none"
            state.index_job(job)
    state.pool(gpu).canary = canary
