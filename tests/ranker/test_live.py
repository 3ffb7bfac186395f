"""Live state: undecodable messages are ignored and stop nothing."""

import asyncio

import msgspec
import pytest

from ranker.service.progress import Live
from shared.events import AgentRegistered
from tests.support.examples import example_event
from tests.support.memory import MemoryBus
from tests.support.waits import eventually

OFFER = {"session": "s", "is_free": True, "registration": example_event(AgentRegistered)}
GOOD = msgspec.json.encode(OFFER)


@pytest.mark.parametrize("words", [b"\xff", b"not json", b"[]", b"7", b'{"registration":[]}'])
async def test_a_heartbeat_that_cannot_be_read_is_no_agent(words: bytes) -> None:
    bus, live = MemoryBus(), Live()
    watching = asyncio.create_task(live.watch_agents(bus))
    await bus.beat("a1", GOOD, 10)
    await eventually(lambda: "a1" in live.agents)
    await bus.beat("a1", words, 10)
    await eventually(lambda: "a1" not in live.agents)
    await bus.beat("a2", GOOD, 10)
    await eventually(lambda: "a2" in live.agents)
    watching.cancel()


@pytest.mark.parametrize("words", [b"\xff", b"not json", b"[]", b"7"])
async def test_a_word_that_cannot_be_read_is_not_heard(words: bytes) -> None:
    bus, live = MemoryBus(), Live()
    watching = asyncio.gather(live.watch_progress(bus), live.watch_queues(bus))
    await asyncio.sleep(0)
    for topic in ("progress.s1", "queue.CPU"):
        await bus.tell(topic, words)
        await bus.tell(topic.replace("1", "2").replace("CPU", "H200"), b'{"jobs":[]}')
    await eventually(lambda: live.progress and live.queues)
    assert (list(live.progress), list(live.queues)) == (["s2"], ["H200"])
    watching.cancel()
