"""The fold's other half: what each event changes of runs, agents and pools on the board."""

import statistics
from collections.abc import Callable
from typing import Any

from scheduler.domain import fair
from scheduler.domain.board import Agent, Board, Canary, Job, Run, next_run
from shared import events
from shared.event_log import Recorded
from shared.subjects import last_token
from shared.wire import is_of_agent

CANARY_TIMES_MAX = 50
# What an agent says may fill an event; what is said because of it has to fit into one too.
REASON_LENGTH_MAX = 2000
WORD_LENGTH_MAX = 64
# How a run ends when what it ran took its agent or its harness down.
DEADLY = ("supervisor", "sandbox", "device", "agent_silent", "agent_restarted")
# A leader's run ends so when it lost a member.
GANG_BROKEN = "gang_broken"
# An operator took the agent away; what it ran is not to blame.
REPEATED = ("agent_revoked",)
# Ends that say nothing against the agent.
BLAMELESS = ("problem_fault", "memory", "drained", "overdue_running", GANG_BROKEN, *REPEATED)


def canary_queued(board: Board, job: Job) -> None:
    """An agent has its next canary."""
    agent = board.agent(job.agent)
    agent.canaries += 1
    agent.canary_at, agent.canary_job = job.queued_at, job.id


def canary_over(board: Board, job: Job) -> None:
    """An agent's canary is over, if the job is one."""
    agent = board.agents.get(job.agent)
    if agent is not None and agent.canary_job == job.id:
        agent.canary_job = ""


def promise(board: Board, job: Job) -> None:
    """A lone agent has a lease and not yet its order: nobody else may count on it."""
    agent = board.agent(job.agents[0])
    if len(job.agents) == 1 and job.run == next_run(job.agents[0], agent.last_run):
        agent.run = job.run


def break_promise(board: Board, job: Job) -> None:
    """A lease is over; if its order never came, its agent is free again."""
    agent = board.agents.get(job.agents[0]) if job.agents else None
    if agent is not None and agent.run == job.run and agent.run not in board.runs:
        agent.run = ""


def _assigned(board: Board, event: Recorded, fact: events.JobAssigned, id_: str) -> None:
    name, job = _writer(event), board.jobs.get(fact.job)
    if job is None or job.run is None or not _is_leased(board, job, name, id_):
        strayed(board, event)
        return
    board.runs[id_] = Run(
        id=id_,
        agent=name,
        job=fact.job,
        version=event.seq,
        session=fact.session,
        leader=job.run,
        assigned_at=event.envelope.at,
        lease_until_at=fact.lease_until_at,
    )
    agent = board.agent(name)
    agent.run = agent.last_run = id_


def _writer(event: Recorded) -> str:
    """The agent on whose subject an event of a run lies."""
    return event.envelope.agg.split(".")[1]


def _is_leased(board: Board, job: Job, name: str, id_: str) -> bool:
    """Whether the lease of the job, which no agent can write, means this run of this agent."""
    if id_ in board.runs or name not in job.agents:
        return False
    if name == job.agents[0]:
        return id_ == job.run
    return id_ == next_run(name, board.agent(name).last_run)


def strayed(board: Board, event: Recorded) -> None:
    """What means nothing still moves the version of the run on whose subject it lies."""
    if not is_of_agent(event.envelope):
        return
    id_ = last_token(event.envelope.agg)
    run = board.runs.get(id_)
    if run is None or run.agent != _writer(event):
        _name_spoilt(board, event, id_)
    elif run.end is None:
        run.version = event.seq


def _run_moved(board: Board, event: Recorded, fact: Any, id_: str) -> None:
    run = board.runs.get(id_)
    if run is None or run.agent != _writer(event):
        _name_spoilt(board, event, id_)
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
        _run_over(board, event, run, fact)


def _name_spoilt(board: Board, event: Recorded, id_: str) -> None:
    """An agent that writes where its next order belongs gets it elsewhere, and a bad mark."""
    agent = board.agents.get(_writer(event))
    if agent is not None and id_ == next_run(_writer(event), agent.last_run):
        agent.last_run = id_
        agent.failures += 1


def _run_over(board: Board, event: Recorded, run: Run, fact: events.Fact) -> None:
    agent, job = board.agent(run.agent), board.jobs.get(run.job)
    if agent.run == run.id:
        agent.run = ""
    _judge_agent(agent, run, fact)
    if run.is_member or job is None:
        del board.runs[run.id]
    if job is None:
        return
    if run.is_member:
        _member_over(board, job, run)
    else:
        _leader_over(board, event, run, fact, job)


def _leader_over(board: Board, event: Recorded, run: Run, fact: events.Fact, job: Job) -> None:
    # By the agent's clock, which is believed no further than its time went.
    took_s = (min(event.envelope.at, job.deadline_at) - run.assigned_at).total_seconds()
    took_s = max(0.0, took_s)
    fair.settle(board.pool(job.gpu), job, took_s)
    job.took_down += run.code in DEADLY
    if isinstance(fact, events.RunCompleted) and fact.verdict == "passed":
        run.time_us = _time_us(fact)
    if isinstance(fact, events.RunCompleted) and job.class_ != "canary":
        fair.remember(board.pool(job.gpu), job, took_s)
    if job.is_over:
        # Its job was forgotten for all but this.
        board.runs.pop(run.id, None)
    elif isinstance(fact, events.RunCompleted) and not job.is_side:
        _end_job(board, event, job)


def _end_job(board: Board, event: Recorded, job: Job) -> None:
    """A verdict ends a submission's job; in older logs JobFinished says so once more."""
    job.is_over = True
    # By the agent's clock, which cannot put off the decision that is due now.
    job.over_at = min(event.envelope.at, job.deadline_at)
    forget_job(board, job)


def forget_job(board: Board, job: Job) -> None:
    """Drop a job from the board when it and its submission are over."""
    if not job.is_over or (not job.is_side and job.submission in board.submissions):
        return
    del board.jobs[job.id]
    run = board.runs.get(job.run or "")
    if run is not None and run.job == job.id and run.end is not None:
        del board.runs[run.id]


def _judge_agent(agent: Agent, run: Run, fact: events.Fact) -> None:
    if run.end == "RunCompleted":
        agent.failures = 0
    elif isinstance(fact, events.RunFailed) and fact.has_passed_self_test:
        return
    elif run.end in ("RunFailed", "JobExpired") and run.code not in BLAMELESS:
        agent.failures += 1


def _member_over(board: Board, job: Job, run: Run) -> None:
    """A gang that lost a member is no gang: its leader's run is to expire, by the member's fault.

    Where an operator took the member away, nobody is at fault.
    """
    leader = board.runs.get(run.leader)
    if leader is not None and leader.end is None and job.run == leader.id:
        leader.reason = f"agent {run.agent} of its gang was lost: {run.reason}"
        leader.code = run.code if run.code in REPEATED else GANG_BROKEN
        job.avoid = sorted({*job.avoid, run.agent})


def _time_us(fact: events.RunCompleted) -> float:
    """The geometric mean over the timed cases, 0 if there is no time."""
    times = [case.time_us for case in fact.cases if case.stage == "time" and case.time_us]
    return statistics.geometric_mean(times) if times and min(times) > 0 else 0.0


def _agent_said(board: Board, event: Recorded, fact: events.Fact, id_: str) -> None:
    """Anything on an agent's aggregate moves its version."""
    agent = board.agent(id_)
    agent.version = event.seq
    match fact:
        case events.AgentRegistered():
            agent.registration = fact
        case events.AgentEnrolled():
            agent.is_enrolled, agent.revoked = True, ""
        case events.AgentRevoked():
            agent.is_enrolled, agent.revoked = False, fact.reason or "revoked"
        case events.AgentCordoned():
            agent.cordon = fact.reason or "cordoned"
        case events.AgentDrained():
            agent.drain = fact.reason or "drained"
        case events.AgentQuarantined():
            agent.quarantine = fact.reason or "quarantined"
        case events.AgentReleased():
            agent.cordon = agent.drain = agent.quarantine = ""
            agent.failures = 0


def _canary_judged(board: Board, event: Recorded, fact: events.CanaryJudged, id_: str) -> None:
    board.agent(id_).version = event.seq
    run = board.runs.get(fact.run)
    job = run and board.jobs.get(run.job)
    canary = job and board.pool(job.gpu).canary
    if run and canary and fact.is_good:
        canary.times_us = [*canary.times_us, run.time_us][-CANARY_TIMES_MAX:]


def _pool_paused(board: Board, _event: Recorded, fact: events.PoolPaused, id_: str) -> None:
    board.pool(id_).paused = fact.reason


def _pool_resumed(board: Board, _event: Recorded, _fact: events.PoolResumed, id_: str) -> None:
    board.pool(id_).paused = None


def _canary_chosen(board: Board, event: Recorded, fact: events.CanaryChosen, id_: str) -> None:
    _drop_canaries(board, id_)
    board.pool(id_).canary = Canary(event.seq, fact)


def _canary_removed(board: Board, _event: Recorded, _fact: events.CanaryRemoved, id_: str) -> None:
    _drop_canaries(board, id_)
    board.pool(id_).canary = None


def _drop_canaries(board: Board, gpu: str) -> None:
    for job in board.jobs.values():
        if job.class_ == "canary" and job.gpu == gpu:
            job.cancel = "the pool has another canary, or none"


CHANGES: dict[str, Callable[[Board, Recorded, Any, str], None]] = {
    "JobAssigned": _assigned,
    "RunStarted": _run_moved,
    "RunStageFinished": _run_moved,
    "RunCompleted": _run_moved,
    "RunFailed": _run_moved,
    "JobExpired": _run_moved,
    "RunCancelled": _run_moved,
    "RunReleased": _run_moved,
    "AgentRegistered": _agent_said,
    "AgentEnrolled": _agent_said,
    "AgentRevoked": _agent_said,
    "AgentCordoned": _agent_said,
    "AgentDrained": _agent_said,
    "AgentQuarantined": _agent_said,
    "AgentReleased": _agent_said,
    "CanaryJudged": _canary_judged,
    "PoolPaused": _pool_paused,
    "PoolResumed": _pool_resumed,
    "CanaryChosen": _canary_chosen,
    "CanaryRemoved": _canary_removed,
}
