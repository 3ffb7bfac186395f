"""The log while nats-server is killed and restarted on the same port."""

import asyncio
import itertools
from functools import partial

import pytest
from nats.aio.client import Client

from shared.errors import Failed
from shared.event_log import Conflict, EventLog
from shared.nats.connection import connect, retry_request
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed
from shared.nats.pull import PullLimits
from shared.servers.nats import NatsServer
from shared.subjects import STREAM
from tests.contracts.samples import JOB, has, ids, new_event, seqs
from tests.contracts.servers import consumers, restart
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.server,
]

QUICK = PullLimits(heartbeat_s=0.5)
WRITTEN = 400


async def write(log: EventLog, aggregate: str, stored: list[str]) -> None:
    """Be one of two rivals on an aggregate: append after its end repeatedly."""
    while len(stored) < WRITTEN:
        history = await log.history(aggregate)
        event = new_event(aggregate, history[-1].seq if history else 0)
        try:
            await log.append(event)
        except Conflict:
            continue
        stored.append(event.envelope.id)


async def test_rivals_keep_every_chain_whole_while_the_server_is_killed(
    own_nats: NatsServer, client: Client
) -> None:
    other = await connect(own_nats.login(), "rival")
    stored: list[str] = []
    aggregates = [f"job.j{number}" for number in range(4)]
    rivals = itertools.product((NatsLog(client), NatsLog(other)), aggregates)
    writers = [asyncio.create_task(write(log, aggregate, stored)) for log, aggregate in rivals]
    for kill_at in (WRITTEN // 4, WRITTEN // 2, WRITTEN * 3 // 4):
        await eventually(partial(has, stored, kill_at), within_s=30)
        restart(own_nats)
    await asyncio.gather(*writers)
    histories = [await NatsLog(client).history(aggregate) for aggregate in aggregates]
    stored_ids = [id_ for history in histories for id_ in ids(history)]
    assert sorted(stored_ids) == sorted(stored)
    assert await NatsLog(client).last() == len(stored)
    await other.close()


async def test_rival_batches_stay_whole_while_the_server_is_killed(
    own_nats: NatsServer, client: Client
) -> None:
    log, last_seqs = NatsLog(client), list[int]()

    async def pairs(name: str) -> None:
        for number in range(100):
            aggregates = f"job.{name}{number}", f"run.a1.{name}{number}"
            last_seqs.append(
                await log.append_all([new_event(aggregate, 0) for aggregate in aggregates])
            )

    writers = [asyncio.create_task(pairs(name)) for name in "ab"]
    for kill_at in (50, 100):
        await eventually(partial(has, last_seqs, kill_at), within_s=30)
        restart(own_nats)
    await asyncio.gather(*writers)
    assert sorted(last_seqs) == list(range(2, 401, 2))
    assert await log.last() == 400


async def test_an_append_outlasts_an_outage(own_nats: NatsServer, client: Client) -> None:
    own_nats.kill()
    appending = asyncio.create_task(NatsLog(client).append(new_event(JOB, 0)))
    await asyncio.wait({appending}, timeout=0.5)
    assert not appending.done()
    own_nats.start()
    assert await asyncio.wait_for(appending, 30) == 1


async def test_patience_with_a_server_ends(own_nats: NatsServer, client: Client) -> None:
    own_nats.kill()
    with pytest.raises(Failed, match=r"in 0\.3 s"):
        await retry_request(client, lambda: client.request("nobody", b"", 1), within_s=0.3)
    own_nats.start()


async def test_a_feed_reads_each_event_once_while_the_server_is_killed(
    own_nats: NatsServer, client: Client
) -> None:
    log, feed = NatsLog(client), NatsFeed(client, 0, QUICK)
    for number in range(10):
        await log.append_all([new_event(f"job.j{number}", None if n else 0) for n in range(1000)])
    read_seqs: list[int] = []
    for kill_at in (2000, 6000):
        while len(read_seqs) < kill_at:
            read_seqs += seqs(await asyncio.wait_for(feed.take(most=200), 10))
        restart(own_nats)
    while len(read_seqs) < 10_000:
        read_seqs += seqs(await asyncio.wait_for(feed.take(), 10))
    assert read_seqs == list(range(1, 10_001))
    await log.append(new_event(JOB, None))
    assert seqs(await asyncio.wait_for(feed.take(), 10)) == [10_001]
    assert feed.restarts >= 1
    await feed.close()


async def test_a_feed_goes_on_when_its_consumer_is_deleted(client: Client) -> None:
    log, feed = NatsLog(client), NatsFeed(client, 0, QUICK)
    await log.append(new_event(JOB, 0))
    assert seqs(await feed.take()) == [1]
    (name,) = await consumers(client, STREAM)
    await client.request(f"$JS.API.CONSUMER.DELETE.{STREAM}.{name}", b"", 2)
    await log.append(new_event(JOB, 1))
    assert seqs(await asyncio.wait_for(feed.take(), 10)) == [2]
    await feed.close()


async def test_a_feed_on_a_closed_connection_fails(client: Client) -> None:
    feed = NatsLog(client).follow(0)
    await client.close()
    with pytest.raises(Failed, match="closed"):
        await asyncio.wait_for(feed.take(), 5)
