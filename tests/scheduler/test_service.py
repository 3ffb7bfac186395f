"""The scheduler's loop on a log and a bus in memory: restarts and rivals change nothing."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from scheduler.domain.fold import evolve
from scheduler.domain.state import Agent, Decision, SchedulerState, World
from scheduler.service import (
    SNAPSHOT,
    Heartbeat,
    Presence,
    Scheduler,
    ServerClock,
)
from shared import events, subjects
from shared.clock import new_id, now
from shared.event_log import NewEvent, RecordedEvent
from shared.events import Fact, JobAssigned
from shared.snapshots import FoldSnapshots
from shared.wire import EventMetadata, make_envelope
from tests.scheduler.histories import CPU, completed, received, started
from tests.support.memory import MemoryBus, MemoryLog, MemorySnapshots
from tests.support.waits import eventually
from tests.support.writers import written


class NoMetrics:
    """Nobody watches."""

    def looked(self, state: SchedulerState, world: World, behind: int) -> None:
        """Nothing to show."""

    def said(self, move: Decision) -> None:
        """Nothing to count."""

    def conflicted(self) -> None:
        """Nothing to count."""


def agreeing_clock() -> ServerClock:
    """A clock that agrees with a server of the same machine."""
    clock = ServerClock()
    at = time.monotonic()
    clock.take(now(), at, at)
    return clock


def keeping(
    log: MemoryLog, store: MemorySnapshots, code: str = "1"
) -> FoldSnapshots[SchedulerState]:
    """The scheduler's snapshots."""
    return FoldSnapshots(log, store, SNAPSHOT, code, SchedulerState)


@asynccontextmanager
async def scheduling(
    log: MemoryLog, bus: MemoryBus, snapshots: MemorySnapshots | None = None, code: str = "1"
) -> AsyncIterator[Scheduler]:
    """A scheduler at work."""
    presence, clock = Presence(silent_s_max=1.0), agreeing_clock()
    kept = keeping(log, snapshots or MemorySnapshots(), code)
    scheduler = Scheduler(log, presence, NoMetrics(), bus, kept, clock, tick_s=0.02)
    tasks = [asyncio.create_task(presence.watch(bus)), asyncio.create_task(scheduler.run())]
    try:
        yield scheduler
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def beat(bus: MemoryBus, agent: str, *, is_free: bool = True, session: str = "s1") -> None:
    heartbeat = msgspec.json.encode(Heartbeat(session, is_free, CPU))
    await bus.beat(agent, heartbeat, 10)


async def say(log: MemoryLog, aggregate: str, fact: Fact) -> int:
    aggregate, actor = written(aggregate, fact)
    return await log.append(
        NewEvent(
            make_envelope(fact, aggregate, EventMetadata(new_id(), now(), actor, "", "")), None
        )
    )


async def receive(log: MemoryLog, submission: str) -> None:
    fact = received(mode="test", deadline_at=now() + timedelta(hours=1))
    await say(log, subjects.submission(submission), fact)


def has_ended(scheduler: Scheduler, jobs: int) -> bool:
    """Whether so many jobs have their verdict, and none is open."""
    state = scheduler.state
    return len(state.jobs) == jobs and all(job.is_over for job in state.jobs.values())


def of_type(log: MemoryLog, name: str) -> list[RecordedEvent]:
    return [event for event in log.since(0) if event.envelope.type == name]


async def work(log: MemoryLog, jobs: int) -> None:
    """An agent that gives every order a verdict, until so many are done."""
    finished: set[str] = set()
    while len(finished) < jobs:
        orders = [e for e in of_type(log, "JobAssigned") if e.envelope.aggregate not in finished]
        for order in orders:
            await say(log, order.envelope.aggregate, completed())
            finished.add(order.envelope.aggregate)
        await log.grow(0.05)


async def test_every_job_is_given_once_and_finished() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with scheduling(log, bus) as scheduler:
        await beat(bus, "a1")
        for number in range(5):
            await receive(log, f"s{number}")
        await work(log, 5)
        await eventually(lambda: has_ended(scheduler, 5))
    leases = Counter(event.envelope.aggregate for event in of_type(log, "JobLeased"))
    assert set(leases.values()) == {1}


async def test_rivals_lease_no_job_twice() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with AsyncExitStack() as rivals:
        schedulers = [await rivals.enter_async_context(scheduling(log, bus)) for _ in range(3)]
        for agent in ("a1", "a2", "a3"):
            await beat(bus, agent)
        for number in range(12):
            await receive(log, f"s{number}")
        await work(log, 12)
        await eventually(lambda: all(has_ended(scheduler, 12) for scheduler in schedulers))
    facts = [event.fact for event in log.since(0)]
    orders = Counter(fact.job for fact in facts if isinstance(fact, JobAssigned))
    assert set(orders.values()) == {1}
    # A lease that lost its agent to another's was none.
    void = Counter(event.envelope.aggregate for event in of_type(log, "JobRequeued"))
    leases = Counter(event.envelope.aggregate for event in of_type(log, "JobLeased"))
    assert set((leases - void).values()) == {1}


async def test_two_that_find_a_lease_without_its_order_say_it_once() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with scheduling(log, bus) as killed:
        await receive(log, "s1")
        await eventually(lambda: killed.state.jobs)
    (job,) = killed.state.jobs.values()
    leased = events.JobLeased(
        run=Agent().next_run("a1", 0),
        agent="a1",
        attempt=1,
        lease_until_at=now() + timedelta(seconds=30),
    )
    await say(log, subjects.job(job.id), leased)
    async with scheduling(log, bus), scheduling(log, bus) as other:
        await beat(bus, "a1")
        await eventually(lambda: of_type(log, "JobAssigned"))
        await work(log, 1)
        await eventually(lambda: has_ended(other, 1) and other.state.seq == len(log.since(0)))
    assert len(of_type(log, "JobAssigned")) == len(of_type(log, "JobLeased")) == 1


async def test_a_restarted_scheduler_says_nothing_again() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    await receive(log, "s1")
    async with scheduling(log, bus):
        await beat(bus, "a1")
        await eventually(lambda: of_type(log, "JobAssigned"))
    before = await log.last()
    async with scheduling(log, bus) as again:
        await beat(bus, "a1", is_free=False)
        await eventually(lambda: again.state.seq == before and again.agents.offers())
        await asyncio.sleep(0.2)  # Ten looks, at which it could say something.
    assert await log.last() == before


async def test_an_agent_that_falls_silent_loses_its_run() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with scheduling(log, bus):
        await beat(bus, "a1")
        await receive(log, "s1")
        await eventually(lambda: of_type(log, "JobAssigned"))
        await bus.leave("a1")

        async def is_given_again() -> bool:
            await beat(bus, "a2")
            return len(of_type(log, "JobAssigned")) == 2

        await eventually(is_given_again)
    assert [event.envelope.type for event in log.since(0)].count("JobExpired") == 1


async def test_a_restarted_scheduler_reads_what_is_new_alone() -> None:
    log, snapshots = MemoryLog(), MemorySnapshots()
    bus = MemoryBus(log)
    async with scheduling(log, bus, snapshots) as first:
        await beat(bus, "a1")
        for number in range(3):
            await receive(log, f"s{number}")
        await work(log, 3)
        await eventually(lambda: has_ended(first, 3))
        await eventually(lambda: first.state.seq == len(log.since(0)))
        await first.keep()
    async with scheduling(log, bus, snapshots) as again:
        await eventually(lambda: again.state.seq == first.state.seq)
        assert again.kept_seq == first.state.seq
        assert again.state == first.state
        await receive(log, "s9")
        await eventually(lambda: len(of_type(log, "JobAssigned")) == 4)


async def test_a_snapshot_is_written_every_so_many_events() -> None:
    log, snapshots = MemoryLog(), MemorySnapshots()
    bus = MemoryBus(log)
    async with scheduling(log, bus, snapshots) as scheduler:
        scheduler.snapshot_events, scheduler.snapshot_s = 5, 0.0
        for number in range(6):
            await receive(log, f"s{number}")
        await eventually(lambda: scheduler.kept_seq >= 5)
    snapshot = await keeping(log, snapshots).load()
    assert snapshot is not None
    assert snapshot.seq == snapshot.state.seq == scheduler.kept_seq


@pytest.mark.parametrize("spoil", ["other code", "other log", "shorter log", "damage"])
async def test_a_snapshot_that_does_not_fit_is_not_believed(spoil: str) -> None:
    log, snapshots = MemoryLog(), MemorySnapshots()
    bus = MemoryBus(log)
    await receive(log, "s1")
    state = SchedulerState()
    for event in log.since(0):
        state = evolve(state, event)
    state.submissions.clear()
    other = MemoryLog()
    for number in range(9 if spoil == "shorter log" else 1):
        await receive(other, f"other{number}")
    spoilt_log = other if spoil in ("other log", "shorter log") else log
    state.seq = await spoilt_log.last()
    kept = keeping(spoilt_log, snapshots, "2" if spoil == "other code" else "1")
    await kept.save(state, state.seq)
    if spoil == "damage":
        await snapshots.save(SNAPSHOT, (await snapshots.load(SNAPSHOT) or b"")[:-9])
    async with scheduling(log, bus, snapshots) as scheduler:
        await eventually(lambda: "s1" in scheduler.state.submissions)


async def test_whoever_waits_is_told_of_the_queue() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    heard: dict[str, bytes] = {}

    async def listen() -> None:
        words = bus.hear("queue.>")
        while True:
            topic, data = await anext(words)
            heard[topic] = data

    listening = asyncio.create_task(listen())
    async with scheduling(log, bus):
        await receive(log, "s1")
        await eventually(lambda: b"no agent of CPU is alive" in heard.get("queue.CPU", b""))
    listening.cancel()
    forecast = msgspec.json.decode(heard["queue.CPU"])
    assert forecast["jobs"] == [["s1", 1, None, None, "no agent of CPU is alive", "practice"]]
    fields = {"gpu", "at", "paused", "free", "busy", "depth", "run_s", "jobs", "runs", "launchers"}
    assert set(forecast) == fields


async def test_a_free_agent_is_given_work_at_once_not_at_the_next_tick() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with scheduling(log, bus) as scheduler:
        scheduler.tick_s = 60.0
        await receive(log, "s1")
        await eventually(lambda: scheduler.state.jobs)
        await beat(bus, "a1")
        await eventually(lambda: of_type(log, "JobAssigned"))


async def test_the_start_of_a_run_makes_nobody_look_and_its_end_does_at_once() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with scheduling(log, bus) as scheduler:
        await beat(bus, "a1")
        await receive(log, "s1")
        (order,) = await eventually(lambda: of_type(log, "JobAssigned"))
        await eventually(lambda: scheduler.state.seq == order.seq)
        scheduler.tick_s = 60.0
        await eventually(lambda: not scheduler.is_due)
        decided_at = scheduler.decided_at
        seq = await say(log, order.envelope.aggregate, started())
        await eventually(lambda: scheduler.state.seq == seq)
        assert scheduler.decided_at == decided_at
        await say(log, order.envelope.aggregate, completed())
        await eventually(lambda: has_ended(scheduler, 1))
        await eventually(lambda: scheduler.decided_at > decided_at)
