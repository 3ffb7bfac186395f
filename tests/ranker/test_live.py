"""Live state: undecodable messages are ignored and stop nothing."""

import asyncio

import msgspec
import pytest

from ranker.service.progress import Live
from shared.events import SLOTS_MAX, AgentRegistered
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
    for topic in ("progress.a1.s1", "queue.CPU"):
        await bus.tell(topic, words)
        await bus.tell(topic.replace("1", "2").replace("CPU", "H200"), b'{"jobs":[]}')
    await eventually(lambda: live.progress and live.queues)
    assert (list(live.progress), list(live.queues)) == (["a2"], ["H200"])
    watching.cancel()


async def test_an_agent_reports_progress_of_its_own_run_alone() -> None:
    bus, live = MemoryBus(), Live()
    watching = asyncio.create_task(live.watch_progress(bus))
    await asyncio.sleep(0)
    await bus.tell("progress.a1.s1", b'{"done":1}')
    for number in range(2000):
        await bus.tell(f"progress.evil.s{number}", b'{"done":9}')
    await bus.tell("progress.evil.s1", b'{"done":9}')
    await bus.tell("progress.a1.s3", b'{"done":2}')
    await eventually(lambda: live.find_progress("s3", "a1"))
    assert live.find_progress("s1", "a1") == {"done": 1}
    assert live.find_progress("s2", "a1") is None
    assert live.find_progress("s1", None) is None
    assert len(live.progress) == 2
    assert max(map(len, live.progress.values())) == SLOTS_MAX
    watching.cancel()
