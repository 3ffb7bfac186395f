"""The bus while nats-server is killed and restarted on the same port."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from shared.bus import AgentHeartbeat
from shared.errors import Failed
from shared.nats.bus import NatsBus
from shared.nats.event_log import NatsLog
from shared.nats.inbox import NatsInbox, agent_inbox_config
from shared.nats.streams import LEASES_STREAM
from shared.servers.nats import NatsServer
from shared.subjects import STREAM
from tests.contracts.samples import new_event, next_delivery
from tests.contracts.servers import restart
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
]

A1 = agent_inbox_config("a1")


async def said(beats: AsyncIterator[AgentHeartbeat], within_s: float = 10.0) -> AgentHeartbeat:
    return await asyncio.wait_for(anext(beats), within_s)


async def test_agents_are_heard_again_after_a_restart(own_nats: NatsServer, client: Client) -> None:
    bus = NatsBus(client)
    beats = bus.beats()
    await bus.beat("a1", b"before", 15)
    assert await said(beats) == AgentHeartbeat("a1", b"before")
    restart(own_nats)
    await bus.beat("a1", b"after", 15)
    assert await said(beats) == AgentHeartbeat("a1", b"after")


async def test_an_agent_lost_with_the_server_is_gone_after_its_time(
    own_nats: NatsServer, client: Client
) -> None:
    bus = NatsBus(client)
    beats = bus.beats()
    await bus.beat("a1", b"before", 1)
    assert await said(beats) == AgentHeartbeat("a1", b"before")
    restart(own_nats)
    assert await said(beats) == AgentHeartbeat("a1", None)


async def test_all_agents_are_said_again_after_a_reconnection(client: Client) -> None:
    bus = NatsBus(client)
    beats = bus.beats()
    await bus.beat("a1", b"here", 30)
    assert await said(beats) == AgentHeartbeat("a1", b"here")
    await client.force_reconnect()
    assert await said(beats) == AgentHeartbeat("a1", b"here")


async def test_a_watcher_outlives_its_bucket(client: Client) -> None:
    bus = NatsBus(client)
    beats = bus.beats()
    await bus.beat("a1", b"here", 30)
    assert await said(beats) == AgentHeartbeat("a1", b"here")
    await client.request(f"$JS.API.STREAM.DELETE.{LEASES_STREAM}", b"", 2)
    await bus.beat("a1", b"again", 30)
    assert await said(beats) == AgentHeartbeat("a1", b"again")


async def test_an_inbox_is_silent_in_an_outage_and_goes_on_after(
    own_nats: NatsServer, client: Client
) -> None:
    inbox = await NatsBus(client).inbox("a1")
    assert await inbox.next(0.1) is None
    own_nats.kill()
    assert await inbox.next(0.5) is None
    own_nats.start()
    await NatsLog(client).append(new_event("run.a1.r1", 0))
    delivery = await next_delivery(inbox)
    await delivery.ack()
    assert await inbox.next(0.3) is None
    await inbox.close()


async def test_an_inbox_that_a_restarted_server_forgot_begins_where_its_agent_did(
    own_nats: NatsServer, client: Client
) -> None:
    log, bus = NatsLog(client), NatsBus(client)
    earlier = await bus.inbox("a1")
    for number in (1, 2):
        await log.append(new_event(f"run.a1.r{number}", 0))
    await (await next_delivery(earlier)).ack()
    await earlier.close()
    began = await log.last()
    restart(own_nats)
    await log.append(new_event("run.a1.r3", 0))
    inbox = await bus.inbox("a1", began)
    assert (await next_delivery(inbox)).recorded.seq == 3
    await inbox.close()


async def test_an_inbox_outlives_its_consumer(client: Client) -> None:
    inbox = await NatsBus(client).inbox("a1")
    assert await inbox.next(0.1) is None
    await client.request(f"$JS.API.CONSUMER.DELETE.{STREAM}.gpu-agent-a1", b"", 2)
    await NatsLog(client).append(new_event("run.a1.r1", 0))
    delivery = await next_delivery(inbox)
    assert delivery.recorded.seq == 1
    await delivery.ack()
    await inbox.close()


async def test_what_is_in_hand_is_acknowledged_after_a_restart(
    own_nats: NatsServer, client: Client
) -> None:
    inbox = NatsInbox(client, A1, ack_wait_s=1)
    await NatsLog(client).append(new_event("run.a1.r1", 0))
    delivery = await next_delivery(inbox)
    restart(own_nats)
    acknowledging = asyncio.create_task(delivery.ack())
    assert await inbox.next(2) is None
    await asyncio.wait_for(acknowledging, 30)
    assert await inbox.next(1.5) is None
    await inbox.close()


async def test_long_work_does_not_use_up_the_deliveries(client: Client) -> None:
    inbox = NatsInbox(client, A1, ack_wait_s=0.2)
    await NatsLog(client).append(new_event("run.a1.r1", 0))
    first = await next_delivery(inbox)
    assert await inbox.next(1.5) is None
    await inbox.close()
    heir = NatsInbox(client, A1, ack_wait_s=0.2)
    assert (await next_delivery(heir)).recorded == first.recorded
    await heir.close()


async def test_what_a_dead_process_had_in_hand_comes_to_the_next(client: Client) -> None:
    dying = NatsInbox(client, A1, ack_wait_s=0.5)
    await NatsLog(client).append(new_event("run.a1.r1", 0))
    first = await next_delivery(dying)
    await dying.close()
    heir = NatsInbox(client, A1, ack_wait_s=0.5)
    assert (await next_delivery(heir)).recorded == first.recorded
    await heir.close()


async def test_what_came_too_late_for_a_process_comes_to_the_next_at_once(client: Client) -> None:
    stopping = NatsInbox(client, A1)
    assert await stopping.next(0.1) is None
    await NatsLog(client).append(new_event("run.a1.r1", 0))
    await eventually(lambda: stopping._received)
    await stopping.close()
    heir = NatsInbox(client, A1)
    assert (await next_delivery(heir)).recorded.seq == 1
    await heir.close()


async def test_a_bus_on_a_closed_connection_fails(client: Client) -> None:
    bus = NatsBus(client)
    await client.close()
    with pytest.raises(Failed, match="closed"):
        await bus.tell("progress.s1", b"")
    with pytest.raises(Failed, match="closed"):
        await anext(bus.hear("progress.s1"))
    with pytest.raises(Failed, match="closed"):
        await bus.beat("a1", b"", 15)
