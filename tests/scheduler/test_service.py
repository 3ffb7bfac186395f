"""The scheduler's loop on a log and a bus in memory: restarts and rivals change nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec

from scheduler.domain.board import Board
from scheduler.domain.moves import Move, World
from scheduler.presence import Heartbeat, Presence
from scheduler.service import Scheduler
from shared import events, subjects
from shared.clock import new_id, now
from shared.event_log import New, Recorded
from shared.events import Blob, Fact
from shared.memory import MemoryBus, MemoryLog, MemorySnapshots
from shared.testing import eventually
from shared.wire import Stamp, seal
from tests.scheduler.histories import CPU, completed


class NoMetrics:
    """Nobody watches."""

    def looked(self, board: Board, world: World, behind: int) -> None:
        """Nothing to show."""

    def said(self, move: Move) -> None:
        """Nothing to count."""

    def conflicted(self) -> None:
        """Nothing to count."""


@asynccontextmanager
async def scheduling(
    log: MemoryLog, bus: MemoryBus, snapshots: MemorySnapshots | None = None, code: str = "1"
) -> AsyncIterator[Scheduler]:
    """A scheduler at work."""
    presence = Presence(silent_s_max=1.0)
    kept = snapshots or MemorySnapshots()
    scheduler = Scheduler(log, presence, NoMetrics(), bus, kept, code, tick_s=0.02)
    tasks = [asyncio.create_task(presence.watch(bus)), asyncio.create_task(scheduler.run())]
    try:
        yield scheduler
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def beat(bus: MemoryBus, agent: str, *, is_free: bool = True, session: str = "s1") -> None:
    said = msgspec.json.encode(Heartbeat(session, is_free, CPU))
    await bus.beat(agent, said, 10)


async def say(log: MemoryLog, agg: str, fact: Fact) -> int:
    return await log.append(New(seal(fact, agg, Stamp(new_id(), now(), "test", "", "")), None))


async def receive(log: MemoryLog, submission: str) -> None:
    received = events.SubmissionReceived(
        account="ada",
        problem="identity",
        problem_number=1,
        problem_digest="d",
        gpu="CPU",
        mode="test",
        source=Blob(digest="x", bytes=1),
        name="kernel.py",
        deadline_at=now() + timedelta(hours=1),
        via="http",
    )
    await say(log, subjects.submission(submission), received)


def of_type(log: MemoryLog, name: str) -> list[Recorded]:
    return [event for event in log.since(0) if event.envelope.type == name]


async def work(log: MemoryLog, jobs: int) -> None:
    """An agent that gives every order a verdict, until so many are done."""
    done: set[str] = set()
    while len(done) < jobs:
        orders = [e for e in of_type(log, "JobAssigned") if e.envelope.agg not in done]
        for order in orders:
            await say(log, order.envelope.agg, completed())
            done.add(order.envelope.agg)
        await log.grow(0.05)


async def test_every_job_is_given_once_and_finished() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with scheduling(log, bus):
        await beat(bus, "a1")
        for number in range(5):
            await receive(log, f"s{number}")
        await work(log, 5)
        await eventually(lambda: len(of_type(log, "JobFinished")) == 5)
    leases = Counter(event.envelope.agg for event in of_type(log, "JobLeased"))
    assert set(leases.values()) == {1}


async def test_rivals_lease_no_job_twice() -> None:
    log = MemoryLog()
    bus = MemoryBus(log)
    async with AsyncExitStack() as rivals:
        for _ in range(3):
            await rivals.enter_async_context(scheduling(log, bus))
        for agent in ("a1", "a2", "a3"):
            await beat(bus, agent)
        for number in range(12):
            await receive(log, f"s{number}")
        await work(log, 12)
        await eventually(lambda: len(of_type(log, "JobFinished")) == 12)
    for name in ("JobQueued", "JobLeased", "JobFinished"):
        counts = Counter(event.envelope.agg for event in of_type(log, name))
        assert set(counts.values()) == {1}, name


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
        await eventually(lambda: again.board.seq == before and again.agents.offers())
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

        await eventually(is_given_again, within_s=5)
    assert [event.envelope.type for event in log.since(0)].count("JobExpired") == 1
