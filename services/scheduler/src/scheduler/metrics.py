"""The scheduler's metrics: queues, agents, decisions and the bus."""

import asyncio
from collections import Counter as Count
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from itertools import chain, takewhile

from prometheus_client import Counter, Gauge, Histogram

from scheduler.domain.match import Candidate
from scheduler.domain.state import Agent, Decision, Job, SchedulerState, World
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Append
from shared.events import EPHEMERAL, CanaryJudged, EvaluationFinished, JobLeased
from shared.nats.bus import BusStatus
from shared.subjects import last_token

START = "warpboard_scheduler"
LOOK_S = 1.0
WATCH_S = 5.0
# From an idle pool to a queue that lasts a whole evening.
WAIT_S = (0.1, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
STATES = ("free", "busy", "cordoned", "drained", "quarantined", "silent")


class SchedulerMetrics:
    """Gauges of the state, updated once a second, and counters of decisions.

    Labels are GPU types, and agents until they are revoked: never submissions or participants,
    whose number has no bound.
    """

    def __init__(self) -> None:
        self.queues = QueueMetrics()
        self.evaluations = EvaluationMetrics()
        self.machines = AgentMetrics()
        self.launchers = LauncherMetrics()
        self.open = Gauge(f"{START}_open_submissions", "Submissions not over")
        self.overdue = Gauge(f"{START}_overdue_submissions", "Open past their deadline")
        self.lag = Gauge(f"{START}_lag_events", "Events not yet folded")
        self.events = Counter(f"{START}_events", "Events said", ["type"])
        self.clock_skew = Gauge(
            f"{START}_clock_skew_seconds", "How far our clock is ahead of the log server's"
        )
        self.forestalled = Counter(f"{START}_decisions_forestalled", "Said first by another")
        self.state = SchedulerState()
        self.looked_at: datetime | None = None

    def looked(self, state: SchedulerState, world: World, behind: int) -> None:
        """Update the gauges from the state and the world."""
        self.state = state
        self.lag.set(behind)
        self.machines.heard(world)
        if self.looked_at and world.now - self.looked_at < timedelta(seconds=LOOK_S):
            return
        self.looked_at = world.now
        self.open.set(len(state.submissions))
        self.overdue.set(_count_overdue(state, world.now))
        gpus = self.machines.look(state, world)
        self.queues.look(state, world.now, gpus)
        self.launchers.look(state, world.now)

    def said(self, decision: Decision) -> None:
        """Count the events of a stored decision."""
        for append in decision:
            self.events.labels(type(append.fact).__name__).inc()
            if isinstance(append.fact, JobLeased):
                self.queues.leased(self.state.jobs.get(last_token(append.aggregate)))
            elif isinstance(append.fact, CanaryJudged):
                self.machines.judged(append, append.fact)
            elif isinstance(append.fact, EvaluationFinished):
                self.evaluations.finished(append.fact)

    def conflicted(self) -> None:
        """Count a decision that another scheduler appended first."""
        self.forestalled.inc()


def _count_overdue(state: SchedulerState, at: datetime) -> int:
    """Return how many open submissions are past their deadline."""
    late = set[str]()
    for pool in state.pools.values():
        due = takewhile(lambda entry: entry[0] < at, pool.deadlines)
        late.update(state.jobs[id_].submission for _, id_ in due)
    own_jobs = (state.submissions[id_].job for id_ in state.closing)
    jobs = (state.jobs[id_] for id_ in chain(state.active, own_jobs))
    late.update(job.submission for job in jobs if job.deadline_at < at)
    return len(late & state.submissions.keys())


class QueueMetrics:
    """How many jobs wait and run per GPU type, and how long they waited."""

    def __init__(self) -> None:
        gpu = ["gpu"]
        self.depth = Gauge(f"{START}_queue_depth_jobs", "Jobs waiting", gpu)
        self.running = Gauge(f"{START}_running_jobs", "Jobs on an agent", gpu)
        self.oldest = Gauge(f"{START}_oldest_queued_age_seconds", "Age of the first in line", gpu)
        self.oldest_evaluation = Gauge(
            f"{START}_oldest_evaluation_age_seconds", "Age of the oldest evaluation that waits", gpu
        )
        self.paused = Gauge(f"{START}_pool_paused", "1 while an operator holds a pool back", gpu)
        self.wait = Histogram(
            f"{START}_queue_wait_seconds", "From queued to leased", gpu, buckets=WAIT_S
        )
        self.gpus: set[str] = set()

    def look(self, state: SchedulerState, at: datetime, gpus: set[str]) -> None:
        """Measure the queues of these GPU types, and of all that were ever seen.

        Baselines are left out, because nobody waits for them: without an agent of their GPU type
        they wait for a day. The ages of evaluations are apart, because they wait for all others.
        """
        depth, oldest_jobs = Count[str](), list[Job]()
        for gpu, pool in state.pools.items():
            lanes = (lane.waiting.values() for lane in pool.lanes.values())
            for queue in chain.from_iterable(lanes):
                # The jobs of a queue are of one participant and one class.
                oldest_job = state.jobs[queue[0][1]]
                if not oldest_job.is_baseline:
                    depth[gpu] += len(queue)
                    oldest_jobs.append(oldest_job)
        active = (state.jobs[id_] for id_ in state.active)
        running = Count(job.gpu for job in active if job.run is not None)
        ages = (
            (self.oldest, _oldest_by_gpu(job for job in oldest_jobs if job.chunk is None)),
            (self.oldest_evaluation, _oldest_by_gpu(job for job in oldest_jobs if job.chunk)),
        )
        self.gpus |= gpus | depth.keys() | running.keys() | state.pools.keys()
        for gpu in self.gpus:
            known_pool = state.pools.get(gpu)
            self.depth.labels(gpu).set(depth[gpu])
            self.running.labels(gpu).set(running[gpu])
            for gauge, oldest in ages:
                gauge.labels(gpu).set(max(0.0, (at - oldest.get(gpu, at)).total_seconds()))
            is_paused = known_pool is not None and known_pool.paused is not None
            self.paused.labels(gpu).set(is_paused)
            self.wait.labels(gpu)

    def leased(self, job: Job | None) -> None:
        """Record how long a leased job waited, unless it is a part of an evaluation."""
        if job is not None and job.chunk is None:
            wait_s = (now() - job.queued_at).total_seconds()
            self.wait.labels(job.gpu).observe(max(0.0, wait_s))


def _oldest_by_gpu(jobs: Iterable[Job]) -> dict[str, datetime]:
    oldest: dict[str, datetime] = {}
    for job in jobs:
        oldest[job.gpu] = min(job.queued_at, oldest.get(job.gpu, job.queued_at))
    return oldest


class EvaluationMetrics:
    """How the items of evaluations ended, and how long their runs held devices."""

    def __init__(self) -> None:
        self.items = Counter(
            f"{START}_evaluation_items", "Items of evaluations that are over", ["outcome"]
        )
        self.device = Counter(
            f"{START}_evaluation_device_seconds", "How long their runs held devices"
        )
        for outcome in ("completed", "failed", "cancelled"):
            self.items.labels(outcome)

    def finished(self, evaluation: EvaluationFinished) -> None:
        """Count the items and the device time of an evaluation that is over."""
        self.items.labels("completed").inc(evaluation.completed)
        self.items.labels("failed").inc(evaluation.failed)
        self.items.labels("cancelled").inc(evaluation.cancelled)
        self.device.inc(evaluation.device_s)


class AgentMetrics:
    """How many agents are in each state, when each was last heard, and how its last canary ran."""

    def __init__(self) -> None:
        self.agents = Gauge(f"{START}_agents", "Agents that are not revoked", ["state"])
        self.pool = Gauge(f"{START}_pool_agents", "Living agents that take jobs", ["gpu"])
        self.slots = Gauge(
            f"{START}_pool_slots", "Slots of living agents that take jobs", ["gpu", "state"]
        )
        self.seen = Gauge(
            f"{START}_agent_last_seen_seconds", "Since an agent was last heard", ["agent"]
        )
        self.ratio = Gauge(
            f"{START}_canary_time_ratio",
            "An agent's last canary over the pool's usual time, 0 before its first",
            ["agent"],
        )
        self.refusals = Counter(
            f"{START}_agent_refusals", "Requests of an agent that were refused", ["agent"]
        )
        self.uploads = Counter(
            f"{START}_agent_upload_bytes", "Bytes that an agent sent to be stored", ["agent"]
        )
        self.canaries = Counter(f"{START}_canaries", "Canaries by how they ran", ["outcome"])
        for outcome in ("good", "bad"):
            self.canaries.labels(outcome)
        self.heard_at: dict[str, datetime] = {}
        self.shown: set[str] = set()

    def heard(self, world: World) -> None:
        """Record which agents are alive."""
        self.heard_at |= dict.fromkeys(world.offers, world.now)

    def look(self, state: SchedulerState, world: World) -> set[str]:
        """Update the agents that are not revoked, and return their GPU types."""
        states, serving, names = Count[str](), Count[str](), set[str]()
        slots = Count[tuple[str, str]]()
        for name, agent in state.agents.items():
            if agent.registration is not None and not agent.revoked:
                current = agent_state(name, agent, world)
                if current == "silent" and EPHEMERAL in agent.registration.details:
                    continue  # It left after its job.
                names.add(name)
                states[current] += 1
                gpu, is_serving = agent.registration.gpu, current in ("free", "busy")
                serving[gpu] += is_serving
                if is_serving:
                    candidate = Candidate(world.offers[name], agent)
                    free_count = len(candidate.free_slots)
                    slots[gpu, "free"] += free_count
                    slots[gpu, "busy"] += candidate.slot_count - free_count
        for label in STATES:
            self.agents.labels(label).set(states[label])
        for gpu, count in serving.items():
            self.pool.labels(gpu).set(count)
            for use in ("free", "busy"):
                self.slots.labels(gpu, use).set(slots[gpu, use])
        self._show(names, world.now)
        return set(serving)

    def _show(self, names: set[str], at: datetime) -> None:
        for gone in self.shown - names:
            self.heard_at.pop(gone, None)
            self.seen.remove(gone)
            self.ratio.remove(gone)
            self.refusals.remove(gone)
            self.uploads.remove(gone)
        for name in names:
            # An agent not heard since our own start is silent from then on.
            silent = at - self.heard_at.setdefault(name, at)
            self.seen.labels(name).set(silent.total_seconds())
        for new in names - self.shown:
            self.ratio.labels(new)
            self.refusals.labels(new)
            self.uploads.labels(new)
        self.shown = names

    def count_refusal(self, agent: str) -> None:
        """Count a refused request; an agent without a registration is counted too."""
        self.refusals.labels(agent).inc()

    def count_upload(self, agent: str, size: int) -> None:
        """Count bytes that an agent sent to be stored."""
        self.uploads.labels(agent).inc(size)

    def judged(self, append: Append, canary: CanaryJudged) -> None:
        """Record how a canary ran on an agent."""
        self.canaries.labels("good" if canary.is_good else "bad").inc()
        self.ratio.labels(last_token(append.aggregate)).set(canary.ratio)


class LauncherMetrics:
    """The agents that launchers start: how many there are, what they cost, how many never came."""

    def __init__(self) -> None:
        name = ["launcher"]
        self.instances = Gauge(f"{START}_launcher_agents", "Agents asked for and not gone", name)
        self.cost = Gauge(f"{START}_launcher_cost_today", "Cost of a launcher's agents today", name)
        self.cost_max = Gauge(f"{START}_launcher_cost_max", "What they may cost on a day", name)
        self.failures = Gauge(
            f"{START}_launcher_failures", "Agents that never came, or left their job waiting", name
        )

    def look(self, state: SchedulerState, at: datetime) -> None:
        """Update all launchers that were ever registered."""
        for name, launcher in state.launchers.items():
            self.instances.labels(name).set(len(launcher.instances))
            self.cost.labels(name).set(launcher.cost_on(at))
            self.cost_max.labels(name).set(launcher.registered.daily_cost_max)
            self.failures.labels(name).set(launcher.failures)


class BusMetrics:
    """What NATS reports about the log, dead letters and named consumers."""

    def __init__(self) -> None:
        name = ["consumer"]
        self.log_events = Gauge(f"{START}_log_events", "The log's last sequence")
        self.log_bytes = Gauge(f"{START}_log_bytes", "The log on disk")
        self.dead = Counter(f"{START}_dead_letters", "Deliveries that were given up")
        self.letters = Gauge(f"{START}_open_dead_letters", "Of these, what nobody redrove")
        self.pending = Gauge(f"{START}_consumer_pending_events", "Not sent yet", name)
        self.unacknowledged = Gauge(f"{START}_consumer_unacknowledged_events", "In hand", name)
        self.redelivered = Gauge(f"{START}_consumer_redelivered_events", "Sent again", name)
        self.acknowledged = Gauge(f"{START}_consumer_acknowledged_events", "Done with", name)
        self.connected = Gauge(f"{START}_bus_up", "1 while NATS answers")
        self.dead_seen = 0

    def told(self, vitals: BusStatus) -> None:
        """Update the gauges from NATS; a consumer that no longer exists loses its series."""
        self.connected.set(1)
        self.log_events.set(vitals.events)
        self.log_bytes.set(vitals.log_bytes)
        self.dead.inc(max(0, vitals.dead_letters - self.dead_seen))
        self.letters.set(vitals.open_letters)
        self.dead_seen = max(self.dead_seen, vitals.dead_letters)
        for gauge in (self.pending, self.unacknowledged, self.redelivered, self.acknowledged):
            gauge.clear()
        for reader in vitals.readers:
            self.pending.labels(reader.name).set(reader.pending)
            self.unacknowledged.labels(reader.name).set(reader.unacknowledged)
            self.redelivered.labels(reader.name).set(reader.redelivered)
            self.acknowledged.labels(reader.name).set(reader.acknowledged)

    async def watch(self, look: Callable[[], Awaitable[BusStatus]]) -> None:
        """Poll NATS until cancelled."""
        while True:
            try:
                self.told(await look())
            except Failed:
                self.connected.set(0)
            await asyncio.sleep(WATCH_S)


def agent_state(name: str, agent: Agent, world: World) -> str:
    """Return an agent's state in one word."""
    offer = world.offers.get(name)
    if offer is None:
        return "silent"
    if agent.quarantine or offer.registration.quarantine:
        return "quarantined"
    if agent.drain or agent.cordon:
        return "drained" if agent.drain else "cordoned"
    return "free" if offer.is_free else "busy"
