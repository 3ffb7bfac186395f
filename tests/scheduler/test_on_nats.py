"""Three schedulers on a real server, and what a restart reads there."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import msgspec
import pytest
from nats.aio.client import Client

from scheduler.domain.state import SchedulerState
from scheduler.service import SNAPSHOT, Heartbeat, Presence, Scheduler
from shared import subjects
from shared.clock import new_id, now
from shared.event_log import EventLog, NewEvent, RecordedEvent
from shared.events import Fact
from shared.nats.blobs import PART_BYTES, NatsSnapshots, snapshot_drafts
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.snapshots import FoldSnapshots
from shared.wire import EventMetadata, make_envelope
from tests.scheduler.histories import CPU, ENROLLED, completed, received
from tests.scheduler.test_service import NoMetrics, agreeing_clock
from tests.support.waits import eventually
from tests.support.writers import written

pytestmark = pytest.mark.server

AGENTS = tuple(f"a{number}" for number in range(8))
JOBS = 60
LEASES = {"JobLeased": 1, "JobRequeued": -1}


@asynccontextmanager
async def scheduling(url: str) -> AsyncIterator[Scheduler]:
    """A scheduler with a connection of its own, which keeps a snapshot at its end."""
    nc = await connect(url, "scheduler")
    bus, presence = NatsBus(nc), Presence(silent_s_max=5.0)
    log = NatsLog(nc)
    snapshots = FoldSnapshots(log, NatsSnapshots(nc), SNAPSHOT, "1", SchedulerState)
    scheduler = Scheduler(log, presence, NoMetrics(), bus, snapshots, agreeing_clock())
    tasks = [asyncio.create_task(presence.watch(bus)), asyncio.create_task(scheduler.run())]
    try:
        yield scheduler
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await scheduler.keep()
        await nc.close()


async def say(log: EventLog, aggregate: str, fact: Fact, expected: int) -> None:
    aggregate, actor = written(aggregate, fact)
    await log.append(
        NewEvent(
            make_envelope(fact, aggregate, EventMetadata(new_id(), now(), actor, "", "")), expected
        )
    )


class Crowd:
    """Agents that give every order a verdict at once, and look for an order too many."""

    def __init__(self, log: EventLog, bus: NatsBus) -> None:
        self.log, self.bus = log, bus
        self.busy: set[str] = set()
        self.running: set[str] = set()
        self.twice: list[str] = []
        self.seen = Counter[str]()
        self.leased = Counter[str]()

    async def beat(self, agent: str) -> None:
        heartbeat = Heartbeat(agent, agent not in self.busy, CPU)
        await self.bus.beat(agent, msgspec.json.encode(heartbeat), 10)

    async def serve(self) -> None:
        for agent in AGENTS:
            await say(self.log, subjects.agent(agent), ENROLLED, 0)
        await asyncio.gather(*map(self.beat, AGENTS))
        feed = self.log.follow(0)
        async with asyncio.TaskGroup() as runs:
            while self.seen["RunCompleted"] < JOBS:
                for event in await feed.take():
                    self.seen[event.envelope.type] += 1
                    # A lease that lost its agent to another's was none.
                    if event.envelope.type in ("JobLeased", "JobRequeued"):
                        self.leased[event.envelope.aggregate] += LEASES[event.envelope.type]
                    if event.envelope.type == "JobAssigned":
                        self._begin(event)
                        runs.create_task(self._run(event))
                    if event.envelope.type == "RunCompleted":
                        self.running.discard(event.envelope.aggregate.split(".")[1])
        await feed.close()

    def _begin(self, order: RecordedEvent) -> None:
        """By the log's order alone: a next order may be there before the last one's answer."""
        agent = order.envelope.aggregate.split(".")[1]
        if agent in self.running:
            self.twice.append(order.envelope.aggregate)
        self.running.add(agent)

    async def _run(self, order: RecordedEvent) -> None:
        agent = order.envelope.aggregate.split(".")[1]
        self.busy.add(agent)
        await self.beat(agent)
        await say(self.log, order.envelope.aggregate, completed(), order.seq)
        self.busy.discard(agent)
        await self.beat(agent)


async def test_three_schedulers_give_no_job_and_no_agent_away_twice(
    nats_url: str, nats_client: Client, nats_log: NatsLog
) -> None:
    log, crowd = nats_log, Crowd(nats_log, NatsBus(nats_client))
    async with AsyncExitStack() as stack:
        rivals = [await stack.enter_async_context(scheduling(nats_url)) for _ in range(3)]
        for number in range(JOBS):
            rival = received(f"p{number % 7}", deadline_at=now() + timedelta(hours=1))
            await say(log, subjects.submission(new_id()), rival, 0)
        await asyncio.wait_for(crowd.serve(), 60)
        last = await log.last()
        await eventually(lambda: all(rival.state.seq == last for rival in rivals))
        assert rivals[0].state == rivals[1].state == rivals[2].state
    assert crowd.twice == []
    assert set(crowd.leased.values()) == {1}
    assert crowd.seen["JobAssigned"] == JOBS
    async with scheduling(nats_url) as again:
        await eventually(lambda: again.state.seq == last)
        assert again.kept_seq == last
        assert again.state == rivals[0].state
    assert await log.last() == last


@pytest.mark.usefixtures("nats_log")
async def test_a_writer_of_a_snapshot_that_is_killed_leaves_the_one_before(
    nats_url: str, nats_client: Client
) -> None:
    snapshots = NatsSnapshots(nats_client)
    whole = random.Random(1).randbytes(3 * PART_BYTES)
    await snapshots.save(SNAPSHOT, whole)
    for sent_count in range(5):
        killed = await connect(nats_url, "killed")
        drafts = snapshot_drafts(SNAPSHOT, random.Random(2).randbytes(4 * PART_BYTES))
        assert len(drafts) > sent_count
        batch = {"Nats-Batch-Id": f"killed {sent_count}"}
        for place, draft in enumerate(drafts[:sent_count], 1):
            headers = draft.headers | batch | {"Nats-Batch-Sequence": str(place)}
            await killed.publish(draft.subject, draft.data, headers=headers)
        await killed.flush()
        await killed.close()
        assert await snapshots.load(SNAPSHOT) == whole
    await snapshots.save(SNAPSHOT, b"newer")
    assert await snapshots.load(SNAPSHOT) == b"newer"
