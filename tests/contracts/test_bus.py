"""Contract of the bus, in memory and on NATS."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from shared.bus import AgentHeartbeat, Bus
from tests.contracts.conftest import World
from tests.contracts.samples import new_event, next_delivery

Said = TypeVar("Said")


async def said(what: AsyncIterator[Said], within_s: float = 10.0) -> Said:
    return await asyncio.wait_for(anext(what), within_s)


async def test_a_watcher_hears_first_all_agents_then_changes(bus: Bus) -> None:
    await bus.beat("a1", b"one", 30)
    await bus.beat("a2", b"two", 30)
    await bus.beat("a1", b"three", 30)
    beats = bus.beats()
    assert {await said(beats), await said(beats)} == {
        AgentHeartbeat("a1", b"three"),
        AgentHeartbeat("a2", b"two"),
    }
    await bus.beat("a3", b"four", 30)
    assert await said(beats) == AgentHeartbeat("a3", b"four")


async def test_an_agent_that_leaves_is_gone_at_once(bus: Bus) -> None:
    beats = bus.beats()
    await bus.beat("a1", b"here", 30)
    assert await said(beats) == AgentHeartbeat("a1", b"here")
    await bus.leave("a1")
    assert await said(beats, within_s=10) == AgentHeartbeat("a1", None)


async def test_an_agent_that_left_is_not_among_the_living(bus: Bus) -> None:
    await bus.beat("a1", b"here", 30)
    await bus.leave("a1")
    await bus.beat("a2", b"here", 30)
    assert await said(bus.beats()) == AgentHeartbeat("a2", b"here")


async def test_a_silent_agent_is_gone_when_its_time_is_over(bus: Bus) -> None:
    await bus.beat("a1", b"here", 1)
    beats = bus.beats()
    assert await said(beats) == AgentHeartbeat("a1", b"here")
    assert await said(beats, within_s=10) == AgentHeartbeat("a1", None)


async def test_an_agent_that_beats_on_lives_on(bus: Bus) -> None:
    beats = bus.beats()
    await bus.beat("a1", b"0", 1)
    assert await said(beats) == AgentHeartbeat("a1", b"0")
    await bus.beat("a1", b"1", 30)
    assert await said(beats) == AgentHeartbeat("a1", b"1")
    with pytest.raises(TimeoutError):
        await said(beats, within_s=1.6)


async def test_an_id_that_is_no_word_has_no_heartbeat(bus: Bus) -> None:
    with pytest.raises(ValueError, match="not an id"):
        await bus.beat("a.1", b"", 5)


async def test_what_is_told_is_heard_on_its_topic(bus: Bus) -> None:
    heard = bus.hear("progress.>")
    first = asyncio.create_task(said(heard))
    await asyncio.sleep(0.05)
    await bus.tell("other.s1", b"not this")
    await bus.tell("progress.s1", b"build")
    assert await first == ("progress.s1", b"build")


async def test_a_passing_word_has_a_limit(bus: Bus) -> None:
    with pytest.raises(ValueError, match="over"):
        await bus.tell("progress.s1", bytes(65 * 1024))


async def test_an_inbox_has_the_runs_of_its_agent_alone(world: World) -> None:
    await world.log.append(new_event("run.a2.r1", 0))
    await world.log.append(new_event("job.j1", 0))
    mine = new_event("run.a1.r1", 0)
    seq = await world.log.append(mine)
    inbox = await world.bus.inbox("a1")
    delivery = await next_delivery(inbox)
    assert (delivery.recorded.seq, delivery.recorded.envelope) == (seq, mine.envelope)
    await delivery.ack()
    assert await inbox.next(0.3) is None
    await inbox.close()


async def test_an_inbox_waits_for_what_is_to_come(world: World) -> None:
    inbox = await world.bus.inbox("a1")
    waiting = asyncio.create_task(inbox.next(5))
    await asyncio.sleep(0)
    seq = await world.log.append(new_event("run.a1.r1", 0))
    delivery = await waiting
    assert delivery is not None
    assert delivery.recorded.seq == seq
    await inbox.close()


async def test_a_delivery_put_back_comes_again_after_its_time(world: World) -> None:
    await world.log.append(new_event("run.a1.r1", 0))
    inbox = await world.bus.inbox("a1")
    first = await next_delivery(inbox)
    await first.retry(0.5)
    assert await inbox.next(0.2) is None
    again = await next_delivery(inbox)
    assert again.recorded == first.recorded
    await again.ack()
    assert await inbox.next(0.3) is None
    await inbox.close()


async def test_what_is_in_hand_does_not_hold_up_the_rest(world: World) -> None:
    await world.log.append(new_event("run.a1.r1", 0))
    await world.log.append(new_event("run.a1.r2", 0))
    inbox = await world.bus.inbox("a1")
    first, second = await next_delivery(inbox), await next_delivery(inbox)
    assert (first.recorded.seq, second.recorded.seq) == (1, 2)
    await second.ack()
    await first.ack()
    await inbox.close()


async def test_an_inbox_goes_on_where_it_stopped(world: World) -> None:
    for number in (1, 2):
        await world.log.append(new_event(f"run.a1.r{number}", 0))
    inbox = await world.bus.inbox("a1")
    first = await next_delivery(inbox)
    await first.ack()
    await inbox.close()
    later = await world.bus.inbox("a1")
    assert (await next_delivery(later)).recorded.seq == 2
    await later.close()
