"""Readers whose consumer falls silent, and durable ones whose server is killed repeatedly."""

import asyncio
import json
import os
import signal
from functools import partial

import pytest
from nats.aio.client import Client

from shared.bus import Inbox
from shared.health import LOG_PART
from shared.nats.bus import NatsBus
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed
from shared.nats.inbox import InboxConfig, NatsInbox
from shared.nats.pull import PullLimits
from shared.nats.reader import ReaderMonitor
from shared.nats.reader_requests import ReaderRequests, log_state
from shared.nats.streams import LogMonitor
from shared.servers.nats import NatsServer
from tests.contracts.samples import JOB, RUN, new_event, seqs
from tests.support.waits import eventually

pytestmark = [
    pytest.mark.server,
]

QUICK = PullLimits(heartbeat_s=0.3)
FROZEN_S = 1.5
CHECK_S = 0.2
NEWS = InboxConfig("test-effects", ("ranking.>",), only_news=True)
RECORD = "ranking.matmul.H200"


async def test_a_feed_whose_consumer_falls_silent_is_rebuilt(client: Client) -> None:
    log, feed = NatsLog(client), NatsFeed(client, 0, QUICK)
    await log.append(new_event(JOB, 0))
    assert seqs(await feed.take()) == [1]
    subscription = feed._pull._subscription
    assert subscription is not None
    await subscription.unsubscribe()
    await log.append(new_event(JOB, 1))
    assert seqs(await asyncio.wait_for(feed.take(), 30)) == [2]
    assert feed.restarts == 1
    await feed.close()


@pytest.mark.long
async def test_a_feed_outlasts_a_server_that_hangs(own_nats: NatsServer, client: Client) -> None:
    log, feed = NatsLog(client), NatsFeed(client, 0, QUICK)
    await log.append(new_event(JOB, 0))
    assert seqs(await feed.take()) == [1]
    taking = asyncio.create_task(feed.take())
    assert own_nats.process is not None
    os.kill(own_nats.process.pid, signal.SIGSTOP)
    await eventually(lambda: feed.silent_s > FROZEN_S)
    os.kill(own_nats.process.pid, signal.SIGCONT)
    await log.append(new_event(JOB, 1))
    assert seqs(await asyncio.wait_for(taking, 30)) == [2]
    assert feed.restarts >= 1
    await eventually(lambda: feed.silent_s < FROZEN_S)
    await feed.close()


@pytest.mark.long
async def test_a_log_counts_the_restarts_of_its_feeds(own_nats: NatsServer, client: Client) -> None:
    log = NatsLog(client)
    feed = log.follow(0)
    await log.append(new_event(JOB, 0))
    assert seqs(await feed.take()) == [1]
    own_nats.kill()
    own_nats.start()
    await log.append(new_event(JOB, 1))
    assert seqs(await asyncio.wait_for(feed.take(), 30)) == [2]
    assert (log.counts.pump_restarts, log.reconnects) == (1, 1)
    assert log.silent_s < FROZEN_S
    await feed.close()


async def taken(inbox: Inbox, most: int) -> list[int]:
    """Take so many events, acknowledging each, and return their sequences."""
    seqs_: list[int] = []
    while len(seqs_) < most:
        delivery = await inbox.next(10)
        assert delivery is not None, f"nothing came in 10 s after {seqs_[-3:]}"
        seqs_.append(delivery.recorded.seq)
        await delivery.ack()
    return seqs_


@pytest.mark.long
@pytest.mark.parametrize("only_news", [True, False])
async def test_a_durable_reading_misses_nothing_while_the_server_is_killed(
    own_nats: NatsServer, client: Client, only_news: bool
) -> None:
    log = NatsLog(client)
    inbox = NatsInbox(client, NEWS._replace(only_news=only_news), ack_wait_s=1)
    assert await inbox.next(0.1) is None
    await log.append_all([new_event(RECORD, 0), *(new_event(RECORD, None) for _ in range(299))])
    found = await taken(inbox, 100)
    for more in (100, 100):
        own_nats.kill()
        own_nats.start()
        found += await taken(inbox, more)
    # The server forgets acknowledgements of its last moments; this process does not.
    assert found == list(range(1, 301))
    assert inbox.restarts >= 2
    await inbox.close()


async def test_a_reader_goes_on_with_a_consumer_of_an_older_release(client: Client) -> None:
    for number in (1, 2):
        await NatsLog(client).append(new_event(f"run.a1.r{number}", 0))
    older = {
        "durable_name": "gpu-agent-a1",
        "filter_subject": "events.run.a1.>",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30 * 10**9,
        "max_deliver": 5,
        "max_ack_pending": 64,
    }
    body = json.dumps({"stream_name": "EVENTS", "config": older}).encode()
    await client.request("$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.gpu-agent-a1", body, 2)
    next_one = "$JS.API.CONSUMER.MSG.NEXT.EVENTS.gpu-agent-a1"
    first = await client.request(next_one, b"1", 2, old_style=True)
    await client.request(first.reply, b"+ACK", 2)
    inbox = await NatsBus(client).inbox("a1")
    assert await taken(inbox, 1) == [2]
    await inbox.close()


async def test_two_readers_of_one_name_share_its_events(client: Client) -> None:
    log, bus = NatsLog(client), NatsBus(client)
    readers = [await bus.news(NEWS.consumer, *NEWS.aggregates) for _ in range(2)]
    for reader in readers:
        assert await reader.next(0.05) is None
    await log.append_all([new_event(RECORD, 0), *(new_event(RECORD, None) for _ in range(19))])
    found: list[int] = []

    async def read(reader: Inbox) -> None:
        while delivery := await reader.next(0.5):
            found.append(delivery.recorded.seq)
            await delivery.ack()

    await asyncio.gather(*map(read, readers))
    assert sorted(found) == list(range(1, 21))
    for reader in readers:
        await reader.close()


async def test_an_agent_is_sent_its_events_without_asking_for_each(client: Client) -> None:
    await NatsLog(client).append_all(
        [new_event(RUN, 0), *(new_event(RUN, None) for _ in range(99))]
    )
    inbox = await NatsBus(client).inbox("a1")
    before = client.stats["out_msgs"]
    assert await taken(inbox, 100) == list(range(1, 101))
    # An acknowledgement of each, and a request for some sixteen.
    assert client.stats["out_msgs"] - before < 130
    await inbox.close()


async def test_whoever_is_cancelled_while_it_acknowledges_stops(client: Client) -> None:
    log, bus = NatsLog(client), NatsBus(client)
    # An agent's inbox waits for no answer; an outbox does.
    inbox = await bus.news(NEWS.consumer, *NEWS.aggregates)
    assert await inbox.next(0.05) is None
    await log.append_all([new_event(RECORD, 0), *(new_event(RECORD, None) for _ in range(199))])

    async def read() -> None:
        while True:
            if delivery := await inbox.next(5):
                acknowledged.set()
                await delivery.ack()

    for turn in range(60):
        acknowledged = asyncio.Event()
        task = asyncio.create_task(read())
        await asyncio.wait_for(acknowledged.wait(), 30)
        # Another moment each time, so that some meet the answer itself.
        for _ in range(turn % 12):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=30)
        assert done, f"turn {turn}: a cancellation was lost"
    await inbox.close()


async def test_a_reader_does_not_take_a_check_of_the_log_for_its_repair(client: Client) -> None:
    monitor = LogMonitor(client, "test", lambda _part, _reason: None)
    requests = ReaderRequests(client, NatsLog(client), partial(log_state, monitor))
    parts: dict[str, str | None] = {}
    reader = ReaderMonitor(client, "launcher-modal", parts.__setitem__, CHECK_S)
    serving, watching = (asyncio.create_task(task) for task in (requests.serve(), reader.watch()))
    whole = asyncio.create_task(reader.until_whole())
    await asyncio.sleep(3 * CHECK_S)
    assert not whole.done()
    checking = asyncio.create_task(monitor.watch())
    await asyncio.wait_for(whole, 30)
    await asyncio.sleep(3 * CHECK_S)
    assert not watching.done()
    assert parts[LOG_PART] is None
    for task in (serving, watching, checking):
        task.cancel()
    await asyncio.gather(serving, watching, checking, return_exceptions=True)
