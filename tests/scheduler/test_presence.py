"""Who is alive, as heartbeats say it."""

import asyncio

import msgspec
import pytest

from scheduler.service import Heartbeat, Presence
from tests.scheduler.histories import CPU
from tests.support.memory import MemoryBus
from tests.support.waits import eventually


def said(*, is_free: bool = True, gpu: str = "CPU") -> bytes:
    registration = msgspec.structs.replace(CPU, gpu=gpu)
    return msgspec.json.encode(Heartbeat("s", is_free, registration))


async def test_news_is_what_differs_from_before() -> None:
    bus, presence = MemoryBus(), Presence(1.0)
    watching = asyncio.create_task(presence.watch(bus))
    await bus.beat("a1", said(), 10)
    await asyncio.wait_for(presence.news(), 30)
    await bus.beat("a1", said(), 10)
    await bus.beat("a1", said(), 10)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(presence.news(), 0.1)
    await bus.beat("a1", said(is_free=False), 10)
    await asyncio.wait_for(presence.news(), 30)
    await bus.leave("a1")
    await asyncio.wait_for(presence.news(), 30)
    assert presence.offers() == {}
    watching.cancel()


@pytest.mark.parametrize("words", [b"not json", b"{}", said(gpu="a name > with.dots")])
async def test_an_agent_that_cannot_be_understood_is_not_there_and_harms_nobody(
    words: bytes,
) -> None:
    bus, presence = MemoryBus(), Presence(1.0)
    watching = asyncio.create_task(presence.watch(bus))
    await bus.beat("a1", said(), 10)
    await eventually(presence.offers)
    await bus.beat("a1", words, 10)
    await eventually(lambda: not presence.offers())
    await bus.beat("a2", said(), 10)
    await eventually(presence.offers)
    assert not watching.done()
    watching.cancel()
