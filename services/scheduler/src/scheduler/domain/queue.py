"""Order the waiting jobs: lanes by class and mode, and the least charged participant in a lane.

The fold keeps the counters (`enqueue_job`, `dequeue_job`, `charge_lease`, `settle_charge`,
`release_lease`); `order_jobs` reads them (docs/adr/scheduling.md). The forecast says when each
waiting job may begin, from recent run times, or why it cannot.
"""

import statistics
from bisect import bisect_left, insort
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TypeVar

import msgspec

from harness.vocabulary import SUBMISSION_MODES
from scheduler.domain.match import Candidate, Need, explain_no_match, job_need
from scheduler.domain.state import Job, Lane, Pool, SchedulerState, World
from shared.events import CLASSES

# The assumed duration of a run before any is known.
TYPICAL_S = 30.0
RECENT_MAX = 32
RECENT_KEYS_MAX = 512
# A waiting job: when it came or has to begin, and its id.
Entry = TypeVar("Entry", tuple[int, str], tuple[datetime, str])
FORGET_EVERY = 256
IDLE_ACCOUNTS_MAX = 4096


@dataclass(frozen=True)
class Policy:
    """The numbers of the rules.

    No lane with work is passed over `passed_max` times in a row. A job of several GPUs is passed
    over `gang_passed_max` times before a host is kept free for it. A baseline begins
    `baseline_pause_s` after it was queued at the earliest. An agent is quarantined after
    `quarantine_after` failures of the platform in a row.
    """

    passed_max: int = 8
    gang_passed_max: int = 32
    quarantine_after: int = 3
    baseline_pause_s: float = 30.0


def lane_rank(lane: str) -> tuple[int, int]:
    """Return the place of a lane in the order of classes and modes; unnamed ones come last."""
    class_, _, mode = lane.partition("/")
    return _place(CLASSES, class_), _place(SUBMISSION_MODES, mode)


def _place(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name in names else len(names)


def enqueue_job(pool: Pool, job: Job) -> None:
    """Add a waiting job at the place that its age gives it."""
    lane = pool.lanes.get(job.lane) or pool.lanes.setdefault(job.lane, Lane())
    if job.payer not in lane.waiting:
        lane.waiting[job.payer] = []
        behind_s = lane.floor_s - pool.used_s.get(job.payer, 0.0)
        lane.joined_s[job.payer] = max(0.0, lane.joined_s.get(job.payer, 0.0), behind_s)
    insort(lane.waiting[job.payer], (job.queued_seq, job.id))
    insort(pool.deadlines, (job.deadline_at, job.id))
    if job.requires.count > 1:
        pool.gangs[job.id] = pool.leases


def dequeue_job(pool: Pool, job: Job) -> None:
    """Remove a job that no longer waits."""
    _dequeue(pool, job)
    _start_fresh(pool)


def _dequeue(pool: Pool, job: Job) -> None:
    lane = pool.lanes[job.lane]
    queue = lane.waiting[job.payer]
    _remove_sorted(queue, (job.queued_seq, job.id))
    _remove_sorted(pool.deadlines, (job.deadline_at, job.id))
    if not queue:
        del lane.waiting[job.payer]
    pool.gangs.pop(job.id, None)


def _remove_sorted(entries: list[Entry], entry: Entry) -> None:
    """Remove an entry of a sorted list; ValueError if it is not there."""
    place = bisect_left(entries, entry)
    if entries[place : place + 1] != [entry]:
        raise ValueError(f"{entry} does not wait")
    del entries[place]


def charge_lease(pool: Pool, job: Job) -> None:
    """Dequeue a leased job and charge its participant the usual cost of such a run."""
    _dequeue(pool, job)
    lane = pool.lanes[job.lane]
    job.charge_s = cost_s(pool, job)
    lane.floor_s = max(lane.floor_s, _time_s(pool, lane, job.payer))
    pool.used_s[job.payer] = pool.used_s.get(job.payer, 0.0) + job.charge_s
    pool.leased[job.id] = job.payer
    for other in pool.lanes.values():
        other.passed = other.passed + 1 if other.waiting else 0
    lane.passed = 0
    pool.leases += 1
    if job.requires.count > 1:
        pool.gang_at = pool.leases
    if pool.leases % FORGET_EVERY == 0:
        _forget_idle(pool)


def settle_charge(pool: Pool, job: Job, took_s: float) -> None:
    """Correct a participant's charge to the time for which the finished run held its agents."""
    if job.id in pool.leased:
        pool.used_s[job.payer] += took_s * job.requires.count - job.charge_s
    job.charge_s = 0.0
    release_lease(pool, job)


def release_lease(pool: Pool, job: Job) -> None:
    """Note that a job holds no agent any more."""
    pool.leased.pop(job.id, None)
    _start_fresh(pool)


def _start_fresh(pool: Pool) -> None:
    """Forget what everybody used once no job waits and no run is left."""
    if pool.leased or pool.is_waited_for:
        return
    pool.used_s = {}
    for lane in pool.lanes.values():
        lane.joined_s, lane.floor_s = {}, 0.0


def _time_s(pool: Pool, lane: Lane, account: str) -> float:
    return pool.used_s.get(account, 0.0) + lane.joined_s[account]


def overrun_s(pool: Pool, jobs: Mapping[str, Job], now: datetime) -> dict[str, float]:
    """Return for how long each participant has held agents beyond what was charged for it."""
    overruns_s: dict[str, float] = {}
    for id_, account in pool.leased.items():
        job = jobs.get(id_)
        if job is not None and job.leased_at is not None:
            held_s = (now - job.leased_at).total_seconds() * job.requires.count
            overruns_s[account] = overruns_s.get(account, 0.0) + max(0.0, held_s - job.charge_s)
    return overruns_s


def record_run_time(pool: Pool, job: Job, took_s: float) -> None:
    """Record how long a run with a verdict took."""
    recent = pool.recent_s.pop(_run_kind(job), [])
    pool.recent_s[_run_kind(job)] = [*recent, took_s][-RECENT_MAX:]
    if len(pool.recent_s) > RECENT_KEYS_MAX:
        del pool.recent_s[next(iter(pool.recent_s))]


def recent_s(pool: Pool, job: Job) -> list[float]:
    """Return how long the newest runs like this job took; a guess if there were none."""
    return pool.recent_s.get(_run_kind(job)) or [TYPICAL_S]


def cost_s(pool: Pool, job: Job) -> float:
    """Return for how many seconds a run of this job is expected to hold agents, added up."""
    return statistics.median(recent_s(pool, job)) * job.requires.count


def _run_kind(job: Job) -> str:
    return f"{job.problem}/{job.mode}/{job.class_ if job.chunk else ''}"


def _forget_idle(pool: Pool) -> None:
    """Forget participants without jobs who were charged no more than a newcomer, up to a limit."""
    lanes = pool.lanes.values()
    active = {*pool.leased.values(), *(account for lane in lanes for account in lane.waiting)}
    floor_s = min((lane.floor_s for lane in lanes), default=0.0)
    idle = {account for account, used_s in pool.used_s.items() if used_s > floor_s} - active
    remaining = active | (idle if len(idle) <= IDLE_ACCOUNTS_MAX else set())
    pool.used_s = _select(pool.used_s, remaining)
    for lane in lanes:
        lane.joined_s = _select(lane.joined_s, remaining)


def _select(times_s: Mapping[str, float], accounts: Container[str]) -> dict[str, float]:
    return {account: time_s for account, time_s in times_s.items() if account in accounts}


def gangs_due(pool: Pool, policy: Policy) -> list[str]:
    """Return the jobs of several GPUs that were passed over too often since the last such lease."""
    due_jobs = [
        (came_at, job)
        for job, came_at in pool.gangs.items()
        if pool.leases - max(came_at, pool.gang_at) >= policy.gang_passed_max
    ]
    return [job for _, job in sorted(due_jobs)]


@dataclass
class _LaneView:
    """A lane while it is ordered: a heap of (charged, age, account, place in its queue)."""

    lane: Lane
    heap: list[tuple[float, int, str, int]]
    passed: int

    def push(self, used_s: float, account: str, place: int) -> None:
        queue = self.lane.waiting[account]
        if place < len(queue):
            heappush(self.heap, (used_s, queue[place][0], account, place))


def order_jobs(
    pool: Pool,
    policy: Policy,
    taken: Container[str],
    cost: Callable[[str], float],
    overruns_s: Mapping[str, float],
) -> Iterator[str]:
    """Yield the waiting jobs in the order to try; the caller adds those that it leases to `taken`.

    A job that is not taken is skipped and costs its participant nothing. One due gang comes first.
    `overruns_s` is what participants hold beyond their charges now.
    """
    for gang in gangs_due(pool, policy):
        yield gang
        if gang in taken:
            break
    views = {
        name: _open_view(pool, lane, overruns_s)
        for name, lane in pool.lanes.items()
        if lane.waiting
    }
    ranks = {name: lane_rank(name) for name in views}
    while views:
        name = min(views, key=lambda name: _urgency(views[name], ranks[name], policy))
        view = views[name]
        if (yield from _yield_until_taken(view, taken, cost)):
            for other in views.values():
                other.passed += 1
            view.passed = 0
        if not view.heap:
            del views[name]


def _urgency(view: _LaneView, rank: tuple[int, int], policy: Policy) -> tuple[int, tuple[int, int]]:
    is_due = view.passed >= policy.passed_max - 1
    return (-view.passed if is_due else 1), rank


def _open_view(pool: Pool, lane: Lane, overruns_s: Mapping[str, float]) -> _LaneView:
    heap = [
        (_time_s(pool, lane, account) + overruns_s.get(account, 0.0), queue[0][0], account, 0)
        for account, queue in lane.waiting.items()
    ]
    heapify(heap)
    return _LaneView(lane, heap, lane.passed)


def _yield_until_taken(
    view: _LaneView, taken: Container[str], cost: Callable[[str], float]
) -> Generator[str, None, bool]:
    """Yield the jobs of a lane until one is taken; return whether one was."""
    while view.heap:
        used_s, _, account, place = heappop(view.heap)
        job = view.lane.waiting[account][place][1]
        if job in taken:  # a due gang, which was yielded first
            view.push(used_s + cost(job), account, place + 1)
            continue
        yield job
        is_taken = job in taken
        view.push(used_s + (cost(job) if is_taken else 0.0), account, place + 1)
        if is_taken:
            return True
    return False


JOBS_SHOWN_MAX = 300
RUNS_SHOWN_MAX = 200
JOBS_CHECKED_MAX = 2000
WHY_LENGTH_MAX = 200
KINDS_MAX = 16
MEDIAN, HIGH = 0.5, 0.9


class ForecastRow(msgspec.Struct, frozen=True, array_like=True):
    """A waiting submission: its place, in how many seconds it may begin, or why it cannot."""

    submission: str
    position: int
    eta_s: float | None
    eta_p90_s: float | None
    why: str
    queue_class: str


class CurrentRun(msgspec.Struct, frozen=True, array_like=True):
    """What an agent runs, and since when it was assigned."""

    agent: str
    kind: str
    submission: str
    assigned_at: datetime


class LauncherRow(msgspec.Struct, frozen=True):
    """A launcher that serves a pool: agents that run and that may run, and what today's cost."""

    name: str
    kind: str
    running: int
    running_max: int
    cost_today: float
    daily_cost_max: float
    toolchains: list[str]


class Forecast(msgspec.Struct, frozen=True):
    """A pool for those who wait.

    `free` and `busy` count slots of agents, `depth` all jobs; `jobs` and `runs` hold the first few.
    """

    gpu: str
    at: datetime
    paused: str | None
    free: int
    busy: int
    depth: int
    run_s: dict[str, float]
    jobs: list[ForecastRow]
    runs: list[CurrentRun]
    launchers: list[LauncherRow] = []


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value below which this share lies, by nearest rank; 0 if there are none.

    >>> quantile([4, 1, 3, 2], 0.5), quantile([], 0.9)
    (2, 0.0)
    """
    ranked = sorted(values)
    if not ranked:
        return 0.0
    return ranked[max(0, min(len(ranked) - 1, int(share * len(ranked) + 0.5) - 1))]


def build_forecast(
    state: SchedulerState, gpu: str, alive: Sequence[Candidate], world: World, policy: Policy
) -> Forecast:
    """Return how a pool would work off its jobs if no more came."""
    pool = state.pools.get(gpu) or Pool()
    serving = [
        candidate
        for candidate in alive
        if not candidate.out_of_service and not candidate.agent.cordon
    ]
    free = sum(len(candidate.free_slots) for candidate in serving)
    slot_count = sum(candidate.slot_count for candidate in serving)
    newest = list(pool.recent_s.values())[-KINDS_MAX:]
    durations_s = [duration_s for kind in newest for duration_s in kind]
    schedule = _PoolSchedule(state, pool, alive, serving, world)
    taken: set[str] = set()
    rows: list[ForecastRow] = []
    overruns_s = overrun_s(pool, state.jobs, world.now)
    jobs = order_jobs(pool, policy, taken, lambda id_: cost_s(pool, state.jobs[id_]), overruns_s)
    for id_ in jobs:
        taken.add(id_)
        job = state.jobs[id_]
        row = schedule.row(job, len(taken))
        if not job.is_side:
            rows.append(row)
        if len(rows) == JOBS_SHOWN_MAX or len(taken) == JOBS_CHECKED_MAX:
            break
    return Forecast(
        gpu=gpu,
        at=world.now,
        paused=pool.paused,
        free=free,
        busy=slot_count - free,
        depth=sum(len(queue) for lane in pool.lanes.values() for queue in lane.waiting.values()),
        run_s={
            "p50": round(quantile(durations_s, MEDIAN), 3),
            "p90": round(quantile(durations_s, HIGH), 3),
        },
        jobs=rows,
        runs=list(islice(_current_runs(state, alive), RUNS_SHOWN_MAX)),
        launchers=[
            LauncherRow(
                name=name,
                kind=launcher.registered.kind,
                running=len(launcher.instances),
                running_max=len(launcher.registered.agents),
                cost_today=round(launcher.cost_on(world.now), 4),
                daily_cost_max=launcher.registered.daily_cost_max,
                toolchains=launcher.registered.toolchains,
            )
            for name, launcher in state.launchers.items()
            if gpu in launcher.registered.prices
        ],
    )


def _current_runs(state: SchedulerState, alive: Sequence[Candidate]) -> Iterator[CurrentRun]:
    runs = ((candidate, run) for candidate in alive for run in candidate.agent.runs)
    for candidate, run_id in runs:
        run = state.runs.get(run_id)
        job = state.jobs.get(run.job) if run else None
        if run is not None and job is not None:
            yield CurrentRun(candidate.name, job.kind, job.submission, run.assigned_at)


@dataclass
class _PoolSchedule:
    """When each slot of a pool will be free, in the usual and in the worst case.

    An estimate: every agent is assumed to take every job that some agent could take.
    """

    state: SchedulerState
    pool: Pool
    alive: Sequence[Candidate]
    serving: Sequence[Candidate]
    world: World

    def __post_init__(self) -> None:
        self.whys: dict[Need, str] = {}
        self.free_in = {
            share: sorted(
                remaining_s
                for candidate in self.serving
                for remaining_s in self._remaining_s(candidate, share)
            )
            for share in (MEDIAN, HIGH)
        }

    def row(self, job: Job, position: int) -> ForecastRow:
        """Forecast a job at its place; it takes its slots' time from the jobs behind it."""
        need = job_need(job)
        if self.pool.paused is None and need not in self.whys:
            self.whys[need] = explain_no_match(need, self.alive)
        paused = f"the pool is paused: {self.pool.paused}"
        why = self.whys[need] if self.pool.paused is None else paused
        if why and job.instance and self.pool.paused is None:
            why = f"agent {job.instance} is being started for it"
        if why:
            why = why[:WHY_LENGTH_MAX]
            return ForecastRow(job.submission, position, None, None, why, job.class_)
        usual, late = (self._reserve_start(job, share) for share in (MEDIAN, HIGH))
        late = max(usual, late)
        usual, late = round(usual, 1), round(late, 1)
        return ForecastRow(job.submission, position, usual, late, "", job.class_)

    def _reserve_start(self, job: Job, share: float) -> float:
        heap = self.free_in[share]
        count = min(job.requires.count, len(heap))
        begin_s = max((heappop(heap) for _ in range(count)), default=0.0)
        for _ in range(count):
            heappush(heap, begin_s + quantile(recent_s(self.pool, job), share))
        return begin_s

    def _remaining_s(self, candidate: Candidate, share: float) -> list[float]:
        """Return after which time each slot of an agent is free."""
        slots = candidate.agent.slots[: candidate.slot_count]
        return [self._run_remaining_s(slot.run, share) for slot in slots]

    def _run_remaining_s(self, id_: str, share: float) -> float:
        run = self.state.runs.get(id_)
        job = self.state.jobs.get(run.job) if run else None
        if run is None or job is None:
            return 0.0
        elapsed_s = (self.world.now - run.assigned_at).total_seconds()
        return max(0.0, quantile(recent_s(self.pool, job), share) - elapsed_s)
