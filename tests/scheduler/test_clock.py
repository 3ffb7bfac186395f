"""A scheduler whose clock is wrong ends nothing as overdue, and goes on with everything else."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from nats.aio.client import Client

from scheduler.domain.rules import decide
from scheduler.domain.state import SchedulerState, World
from scheduler.service import (
    CLOCK_PART,
    CLOCK_SKEW_S_MAX,
    READING_S_MAX,
    SNAPSHOT,
    Presence,
    Scheduler,
    ServerClock,
)
from shared import subjects
from shared.clock import new_id, now
from shared.events import RejudgeRequested
from shared.nats.blobs import NatsSnapshots
from shared.nats.bus import NatsBus, server_time
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.snapshots import FoldSnapshots
from tests.scheduler.histories import (
    OFFER,
    T0,
    given_received,
    given_running,
    names,
    received,
    world,
)
from tests.scheduler.test_on_nats import JOBS, Crowd, say
from tests.scheduler.test_service import NoMetrics
from tests.support.examples import example_event
from tests.support.waits import eventually

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


class Hands:
    """A wall clock and a monotonic one, set by the test."""

    def __init__(self) -> None:
        self.wall, self.monotonic_s = NOON, 100.0
        self.clock = ServerClock(lambda: self.wall, lambda: self.monotonic_s)

    def go(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.monotonic_s += seconds


def test_a_clock_that_agrees_is_trusted_and_its_time_is_its_own() -> None:
    hands = Hands()
    hands.clock.take(NOON + timedelta(seconds=1), 99.5, 100.5)
    hands.go(30)
    assert hands.clock.skew_s() == -1
    assert (hands.clock.is_trusted(), hands.clock.trouble()) == (True, "")
    assert hands.clock.now() == NOON + timedelta(seconds=30)


@pytest.mark.parametrize("hours", [2, -2])
def test_a_step_of_the_clock_shows_at_once_and_the_servers_time_goes_on(hours: int) -> None:
    hands = Hands()
    hands.clock.take(NOON, 100, 100)
    hands.go(3)
    hands.wall += timedelta(hours=hours)
    assert not hands.clock.is_trusted()
    assert hands.clock.now() == NOON + timedelta(seconds=3)
    word = "ahead of" if hours > 0 else "behind"
    assert f"7200 s {word} the log server's" in hands.clock.trouble()


def test_what_is_not_known_or_was_known_too_long_ago_is_not_trusted() -> None:
    hands = Hands()
    assert (hands.clock.is_trusted(), hands.clock.now()) == (False, NOON)
    hands.clock.take(NOON, 100, 100)
    assert hands.clock.is_trusted()
    hands.go(READING_S_MAX + 1)
    assert hands.clock.trouble() == "the log server's time is not known"
    # An answer that came late says too little.
    hands.clock.take(hands.wall, hands.monotonic_s - 10, hands.monotonic_s)
    assert not hands.clock.is_trusted()


def test_the_limit_is_a_few_seconds() -> None:
    hands = Hands()
    hands.clock.take(NOON - timedelta(seconds=CLOCK_SKEW_S_MAX), 100, 100)
    assert hands.clock.is_trusted()
    hands.wall += timedelta(seconds=0.1)
    assert not hands.clock.is_trusted()


def test_nothing_is_past_while_the_clock_is_not_trusted() -> None:
    assert World(NOON).is_past(NOON)
    assert not World(NOON, is_clock_trusted=False).is_past(NOON - timedelta(hours=2))


@pytest.mark.parametrize("state", ["queued", "leased", "running"])
def test_leases_and_deadlines_hold_while_the_clock_is_not_trusted(state: str) -> None:
    history = given_running() if state == "running" else given_received()
    history.settle(world() if state == "queued" else world(OFFER))
    late = world(replace(OFFER, is_free=False), now=T0 + timedelta(days=2))
    ends = {"JobExpired", "JobGivenUp"}
    assert not ends & {*names(list(decide(history.state, replace(late, is_clock_trusted=False))))}
    assert ends & {*names(list(decide(history.state, late)))}


@asynccontextmanager
async def scheduling(url: str, clock: ServerClock) -> AsyncIterator[dict[str, str | None]]:
    """A scheduler with this clock, which it compares with the server's; what health says."""
    nc = await connect(url, "scheduler")
    bus, presence = NatsBus(nc), Presence(silent_s_max=5.0)
    health = dict[str, str | None]()
    log, metrics = NatsLog(nc), NoMetrics()
    snapshots = FoldSnapshots(log, NatsSnapshots(nc), SNAPSHOT, "1", SchedulerState)
    scheduler = Scheduler(log, presence, metrics, bus, snapshots, clock, tick_s=0.02)
    skews: list[float] = []
    watching = clock.watch(partial(server_time, nc), health.__setitem__, skews.append)
    loops = (presence.watch(bus), watching, scheduler.run())
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        await eventually(lambda: CLOCK_PART in health)
        yield health
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await nc.close()


@pytest.mark.server
@pytest.mark.parametrize("hours", [2, -2])
async def test_work_is_given_out_and_finished_beside_a_clock_two_hours_off(
    nats_url: str, nats_client: Client, nats_log: NatsLog, hours: int
) -> None:
    log, crowd = nats_log, Crowd(nats_log, NatsBus(nats_client))
    clock = ServerClock(lambda: now() + timedelta(hours=hours))
    async with scheduling(nats_url, clock) as health:
        assert "this machine's clock is 7200 s" in (health[CLOCK_PART] or "")
        for number in range(JOBS):
            submission = received(f"p{number % 7}", deadline_at=now() + timedelta(hours=1))
            await say(log, subjects.submission(new_id()), submission, 0)
        await asyncio.wait_for(crowd.serve(), 60)
    assert set(crowd.leased.values()) == {1}
    ends = Counter[str]()
    feed, seq, last = log.follow(0), 0, await log.last()
    while seq < last:
        for event in await feed.take():
            seq = event.seq
            ends[event.envelope.type] += 1
            # What it says bears the server's time, not its own.
            assert abs((event.envelope.at - now()).total_seconds()) < 600
    await feed.close()
    assert (ends["RunCompleted"], ends["JobExpired"]) == (JOBS, 0)
    assert not {"JobExpired", "JobGivenUp", "SubmissionFinished", "JobRequeued"} & ends.keys()


@pytest.mark.server
async def test_what_is_overdue_ends_once_the_clock_is_right_again(
    nats_url: str, nats_log: NatsLog
) -> None:
    log = nats_log
    ahead = [timedelta(hours=2)]
    clock = ServerClock(lambda: now() + ahead[0])
    aggregate = subjects.submission(new_id())
    async with scheduling(nats_url, clock):
        await say(log, aggregate, received(deadline_at=now() + timedelta(seconds=1)), 0)
        # The log shows when the scheduler has looked at this, and so at the submission before it.
        await say(log, subjects.rejudge("r1"), example_event(RejudgeRequested), 0)
        await eventually(lambda: queued(log))
        deadline_at = now() + timedelta(seconds=1)
        await eventually(lambda: now() > deadline_at)
        assert [event.envelope.type for event in await log.history(aggregate)] == [
            "SubmissionReceived"
        ]
        ahead[0] = timedelta()
        await eventually(lambda: ended(log, aggregate))


async def queued(log: NatsLog) -> bool:
    """Whether the scheduler has queued the rejudge."""
    feed = log.follow(0)
    try:
        return any(event.envelope.type == "JobQueued" for event in await feed.take())
    finally:
        await feed.close()


async def ended(log: NatsLog, aggregate: str) -> bool:
    return (await log.history(aggregate))[-1].envelope.type == "SubmissionFinished"
