"""Whose job is next: lanes by class and mode, and in a lane whoever was charged least (ADR 0030).

The fold keeps the counters (`wait`, `leave`, `lease`, `settle`); `order` reads them.
"""

import statistics
from bisect import insort
from collections.abc import Callable, Container, Generator, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from scheduler.domain.board import Job, Lane, Pool
from shared.events import CLASSES

# What a run is thought to take before any was seen.
TYPICAL_S = 30.0
RECENT_MAX = 32
RECENT_KEYS_MAX = 512
FORGET_EVERY = 256
IDLE_ACCOUNTS_MAX = 4096


@dataclass(frozen=True)
class Policy:
    """What an operator orders: who is first, and when an agent is not trusted any more.

    No lane that has work is passed over `passed_max` times in a row for those before it; a job of
    several GPUs is passed over `gang_passed_max` times before a host is kept free for it.
    """

    classes: tuple[str, ...] = CLASSES
    modes: tuple[str, ...] = ("test", "benchmark", "profile", "ranked")
    passed_max: int = 8
    gang_passed_max: int = 32
    quarantine_after: int = 3

    def rank(self, lane: str) -> tuple[int, int]:
        """The place of a lane; what is not named comes last."""
        class_, _, mode = lane.partition("/")
        return _place(self.classes, class_), _place(self.modes, mode)


def _place(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name in names else len(names)


def wait(pool: Pool, job: Job) -> None:
    """A job waits, at the place that its age gives it."""
    lane = pool.lanes.get(job.lane) or pool.lanes.setdefault(job.lane, Lane())
    if job.account not in lane.waiting:
        lane.waiting[job.account] = []
        lane.used_s[job.account] = max(lane.used_s.get(job.account, 0.0), lane.floor_s)
    insort(lane.waiting[job.account], (job.queued_seq, job.id))
    if job.requires.count > 1:
        pool.gangs[job.id] = pool.leases


def leave(pool: Pool, job: Job) -> None:
    """A job waits no more."""
    lane = pool.lanes[job.lane]
    queue = lane.waiting[job.account]
    queue.remove((job.queued_seq, job.id))
    if not queue:
        del lane.waiting[job.account]
    pool.gangs.pop(job.id, None)


def lease(pool: Pool, job: Job) -> None:
    """A waiting job was given out: its participant is charged what such a run usually takes."""
    leave(pool, job)
    lane = pool.lanes[job.lane]
    job.charge_s = cost_s(pool, job)
    lane.floor_s = max(lane.floor_s, lane.used_s[job.account])
    lane.used_s[job.account] += job.charge_s
    for other in pool.lanes.values():
        other.passed = other.passed + 1 if other.waiting else 0
    lane.passed = 0
    pool.leases += 1
    if job.requires.count > 1:
        pool.gang_at = pool.leases
    if not lane.waiting:
        # Whoever comes to an empty lane comes anew.
        lane.used_s, lane.floor_s = {}, 0.0
    elif pool.leases % FORGET_EVERY == 0:
        _forget_idle(lane)


def settle(pool: Pool, job: Job, took_s: float) -> None:
    """A run is over: its participant is charged what it really took."""
    lane = pool.lanes[job.lane]
    if job.account in lane.used_s:
        lane.used_s[job.account] += took_s * job.requires.count - job.charge_s
    job.charge_s = 0.0


def remember(pool: Pool, job: Job, took_s: float) -> None:
    """So long did a run take that came to a verdict."""
    recent = pool.recent_s.pop(_kind(job), [])
    pool.recent_s[_kind(job)] = [*recent, took_s][-RECENT_MAX:]
    if len(pool.recent_s) > RECENT_KEYS_MAX:
        del pool.recent_s[next(iter(pool.recent_s))]


def recent_s(pool: Pool, job: Job) -> list[float]:
    """How long the newest runs like this job took, in seconds; a guess if there were none."""
    return pool.recent_s.get(_kind(job)) or [TYPICAL_S]


def cost_s(pool: Pool, job: Job) -> float:
    """What a run of this job is thought to cost, in GPU-seconds."""
    return statistics.median(recent_s(pool, job)) * job.requires.count


def _kind(job: Job) -> str:
    return f"{job.problem}/{job.mode}"


def _forget_idle(lane: Lane) -> None:
    """Who neither waits nor was charged more than a newcomer is one; and there is a limit."""
    kept = {
        account: used_s
        for account, used_s in lane.used_s.items()
        if account in lane.waiting or used_s > lane.floor_s
    }
    if len(kept) - len(lane.waiting) > IDLE_ACCOUNTS_MAX:
        kept = {account: used_s for account, used_s in kept.items() if account in lane.waiting}
    lane.used_s = kept


def gangs_due(pool: Pool, policy: Policy) -> list[str]:
    """The jobs of several GPUs that were passed over too often since the last such lease."""
    due = [
        (came_at, job)
        for job, came_at in pool.gangs.items()
        if pool.leases - max(came_at, pool.gang_at) >= policy.gang_passed_max
    ]
    return [job for _, job in sorted(due)]


@dataclass
class _View:
    """A lane while it is being ordered: a heap of (charged, age, account, place in its queue)."""

    lane: Lane
    heap: list[tuple[float, int, str, int]]
    passed: int

    def push(self, used_s: float, account: str, place: int) -> None:
        queue = self.lane.waiting[account]
        if place < len(queue):
            heappush(self.heap, (used_s, queue[place][0], account, place))


def order(
    pool: Pool, policy: Policy, taken: Container[str], cost: Callable[[str], float]
) -> Iterator[str]:
    """The waiting jobs as they should be tried; put into `taken` those that are given out.

    A job that was not taken is passed by, and costs its participant nothing. One gang that is due
    comes first.
    """
    for gang in gangs_due(pool, policy):
        yield gang
        if gang in taken:
            break
    views = {name: _view(lane) for name, lane in pool.lanes.items() if lane.waiting}
    ranks = {name: policy.rank(name) for name in views}
    while views:
        name = min(views, key=lambda name: _urgency(views[name], ranks[name], policy))
        view = views[name]
        if (yield from _until_taken(view, taken, cost)):
            for other in views.values():
                other.passed += 1
            view.passed = 0
        if not view.heap:
            del views[name]


def _urgency(view: _View, rank: tuple[int, int], policy: Policy) -> tuple[int, tuple[int, int]]:
    is_due = view.passed >= policy.passed_max - 1
    return (-view.passed if is_due else 1), rank


def _view(lane: Lane) -> _View:
    heap = [
        (lane.used_s[account], queue[0][0], account, 0) for account, queue in lane.waiting.items()
    ]
    heapify(heap)
    return _View(lane, heap, lane.passed)


def _until_taken(
    view: _View, taken: Container[str], cost: Callable[[str], float]
) -> Generator[str, None, bool]:
    """Try the jobs of a lane until one is taken; whether one was."""
    while view.heap:
        used_s, _, account, place = heappop(view.heap)
        job = view.lane.waiting[account][place][1]
        if job in taken:  # a gang that was first of all
            view.push(used_s + cost(job), account, place + 1)
            continue
        yield job
        is_taken = job in taken
        view.push(used_s + (cost(job) if is_taken else 0.0), account, place + 1)
        if is_taken:
            return True
    return False
