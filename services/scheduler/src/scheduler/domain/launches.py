"""Ask launchers for agents: which job needs one, which launcher has room, and what never came.

A launcher is asked for an agent for a single job, which gets no other. All limits are those that it
registered.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from scheduler.domain import queue
from scheduler.domain.match import Candidate, find_able_agents, job_need
from scheduler.domain.queue import Policy
from scheduler.domain.state import (
    HOUR_S,
    Decision,
    Instance,
    Job,
    Launcher,
    SchedulerState,
    World,
    give_up,
)
from shared import events, subjects
from shared.event_log import Append, RecordedEvent

# A job is given up after this many agents that were to run it never came, or left it waiting.
LAUNCHES_MAX = 2
RUNNER_FAILED = "runner_failed"
JOBS_CHECKED_MAX = 1000
# After the deadline of its job an agent has this long to leave.
LEAVE_S_MAX = 60.0


def apply_launcher_event(
    state: SchedulerState, event: RecordedEvent, fact: events.LauncherFact, name: str
) -> None:
    """Apply an event of a launcher's history; each one advances its version."""
    launcher = state.launchers.get(name)
    if isinstance(fact, events.LauncherRegistered):
        former_agents = launcher.registered.agents if launcher else []
        for agent in former_agents:
            state.agent(agent).launcher = ""
        for agent in fact.agents:
            state.agent(agent).launcher = name
        launcher = launcher or state.launchers.setdefault(name, Launcher(fact))
        launcher.registered = fact
    if launcher is None:
        return
    launcher.version = event.seq
    if isinstance(fact, events.InstanceRequested):
        _open_instance(state, launcher, event, fact)
    elif isinstance(fact, events.InstanceEnded):
        _close_instance(state, launcher, event, fact)


def _open_instance(
    state: SchedulerState, launcher: Launcher, event: RecordedEvent, fact: events.InstanceRequested
) -> None:
    job = state.jobs.get(fact.job)
    if job is not None:
        job.instance = fact.agent
    deadline_at = job.deadline_at if job is not None else fact.start_by_at
    launcher.instances[fact.agent] = Instance(
        request=event.envelope.id,
        agent=fact.agent,
        job=fact.job,
        price=fact.price,
        requested_at=event.envelope.at,
        start_by_at=fact.start_by_at,
        end_by_at=deadline_at + timedelta(seconds=LEAVE_S_MAX),
    )


def _close_instance(
    state: SchedulerState, launcher: Launcher, event: RecordedEvent, fact: events.InstanceEnded
) -> None:
    instance = launcher.instances.get(fact.agent)
    # The end of an earlier request of the agent may come late.
    if instance is None or instance.request != fact.request:
        return
    del launcher.instances[fact.agent]
    ended_at = event.envelope.at
    took_s = max(0.0, (ended_at - instance.requested_at).total_seconds())
    day = ended_at.date().isoformat()
    if launcher.day != day:
        launcher.day, launcher.spent = day, 0.0
    launcher.spent += instance.price * took_s / HOUR_S
    job = state.jobs.get(fact.job)
    if job is None or job.instance != fact.agent:
        return
    job.instance = ""
    if job.run is None and not job.is_over:
        job.launches += 1
        state.index_job(job)
        job.launch_problem = fact.reason or "the agent left without running it"
        launcher.failures += 1


def record_lease(state: SchedulerState, job: Job) -> None:
    """Record that the agent that was started for a job has its lease."""
    launcher = state.launchers.get(state.agent(job.instance).launcher)
    if launcher is not None and job.agents == [job.instance]:
        launcher.instances[job.instance].has_job = True


def end_instances(state: SchedulerState, world: World) -> Iterator[Decision]:
    """End what never started, what nobody needs any more, and what should have left."""
    for name, launcher in state.launchers.items():
        for instance in launcher.instances.values():
            reason = _find_end(state, launcher, instance, world)
            if reason is None:
                continue
            ended = events.InstanceEnded(
                agent=instance.agent, job=instance.job, reason=reason, request=instance.request
            )
            aggregate = subjects.launcher(name)
            yield (Append(aggregate, ended, launcher.version, instance.job, instance.job),)
            break  # The version of the launcher is now another one.


def _find_end(
    state: SchedulerState, launcher: Launcher, instance: Instance, world: World
) -> str | None:
    """Return why an instance is over, None while it may go on."""
    job = state.jobs.get(instance.job)
    if not instance.has_job and (job is None or job.is_over or job.run is not None):
        return "its job no longer waits"
    if instance.agent in world.offers or not world.is_settled:
        return None
    if not instance.has_job and world.is_past(instance.start_by_at):
        return f"no agent came within {launcher.registered.start_s_max:g} s"
    return "its launcher never reported its end" if world.is_past(instance.end_by_at) else None


def give_up_unlaunched(
    state: SchedulerState, alive: dict[str, list[Candidate]]
) -> Iterator[Decision]:
    """End the jobs for which no agent could be started and which no live agent takes."""
    for job in (state.jobs[id_] for id_ in state.active):
        if job.launches < LAUNCHES_MAX or job.run is not None or job.is_over or job.instance:
            continue
        if not find_able_agents(job_need(job), alive.get(job.gpu, ())):
            reason = f"no agent could be started for it: {job.launch_problem}"
            yield give_up(state, job, RUNNER_FAILED, reason)


def request_instances(
    state: SchedulerState, world: World, policy: Policy, alive: dict[str, list[Candidate]]
) -> Iterator[Decision]:
    """Ask launchers for agents for the jobs that no live agent takes, each for one at a time."""
    busy_launchers: set[str] = set()
    served = {gpu for launcher in state.launchers.values() for gpu in launcher.registered.prices}
    for gpu in sorted(served) if world.is_settled else ():
        pool = state.pools.get(gpu)
        if pool is None or pool.paused is not None or not pool.is_waited_for:
            continue
        taken: set[str] = set()
        jobs = queue.order_jobs(pool, policy, taken, lambda _: queue.TYPICAL_S, {})
        for _, id_ in zip(range(JOBS_CHECKED_MAX), jobs, strict=False):
            job = state.jobs[id_]
            if not _needs_instance(state, job, world, alive.get(gpu, ())):
                continue
            request = _choose_launcher(state, job, world, busy_launchers)
            if request is not None:
                taken.add(id_)
                yield (request,)


def _needs_instance(
    state: SchedulerState, job: Job, world: World, alive: Sequence[Candidate]
) -> bool:
    """Return whether a participant, or an author, waits for a job that no live agent takes."""
    submission = state.submissions.get(job.submission)
    is_wanted = not job.is_side and submission is not None and submission.cancel is None
    if job.cancel or not (is_wanted or job.check):
        return False
    if job.is_baseline or job.instance or job.requires.count > 1 or job.launches >= LAUNCHES_MAX:
        return False
    return not world.is_past(job.deadline_at) and not find_able_agents(job_need(job), alive)


def _choose_launcher(
    state: SchedulerState, job: Job, world: World, busy: set[str]
) -> Append | None:
    """Return the request to the cheapest launcher with room, and add it to the busy ones."""
    offers = [
        (launcher.registered.prices[job.gpu], name, launcher)
        for name, launcher in state.launchers.items()
        if job.gpu in launcher.registered.prices
        and job.requires.runner in ("", name)
        and name not in busy
        and _has_toolchains(launcher.registered, job)
    ]
    for price, name, launcher in sorted(offers, key=lambda offer: offer[:2]):
        registered = launcher.registered
        is_spent = price > 0 and launcher.cost_on(world.now) >= registered.daily_cost_max
        free_agents = [
            agent
            for agent in registered.agents
            if agent not in launcher.instances
            # One that is late, or leaves only now.
            and agent not in world.offers
            and not state.agents[agent].out_of_service
        ]
        if is_spent or not free_agents:
            continue
        busy.add(name)
        requested = events.InstanceRequested(
            agent=free_agents[0],
            job=job.id,
            gpu=job.gpu,
            price=price,
            start_by_at=world.now + timedelta(seconds=registered.start_s_max),
        )
        aggregate = subjects.launcher(name)
        return Append(aggregate, requested, launcher.version, job.id, job.submission)
    return None


def _has_toolchains(registered: events.LauncherRegistered, job: Job) -> bool:
    """Return whether the agents of a launcher have what a job needs, as far as it knows."""
    offered = registered.toolchains
    return not offered or set(job.requires.toolchains) <= set(offered)
