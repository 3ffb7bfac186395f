"""What the pump does with a log that is damaged, and with a reader that is slow."""

import asyncio
import json

import msgspec
import pytest
from nats.aio.client import Client

from shared.event_log import Gap
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed
from shared.nats.pull import Pace
from shared.testing import eventually
from tests.contracts.samples import JOB, new, seqs

pytestmark = pytest.mark.server


async def api(nc: Client, what: str, body: object) -> None:
    answer = await nc.request(f"$JS.API.{what}", json.dumps(body).encode(), 2)
    assert b'"error"' not in answer.data, answer.data


@pytest.fixture
async def brittle(client: Client) -> Client:
    """A log that can lose events: its stream lets go of what it has."""
    await api(client, "STREAM.DELETE.EVENTS", {})
    await api(client, "STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["events.>"]})
    for _ in range(4):
        await NatsLog(client).append(new(JOB, None))
    return client


async def test_a_lost_event_is_a_gap_after_those_before_it(brittle: Client) -> None:
    await api(brittle, "STREAM.MSG.DELETE.EVENTS", {"seq": 3})
    feed = NatsLog(brittle).follow(0)
    assert seqs(await feed.take()) == [1, 2]
    with pytest.raises(Gap, match="after event 2 came 4"):
        await asyncio.wait_for(feed.take(), 5)
    await feed.close()


async def test_a_log_without_its_beginning_is_a_gap(brittle: Client) -> None:
    await api(brittle, "STREAM.PURGE.EVENTS", {"keep": 1})
    feed = NatsLog(brittle).follow(4)
    with pytest.raises(Gap, match="begins at 4"):
        await asyncio.wait_for(feed.take(), 5)
    await feed.close()


async def test_what_is_no_event_stops_the_feed_after_those_before_it(client: Client) -> None:
    await NatsLog(client).append(new(JOB, 0))
    await client.request("events.job.j2", b"no event", 2)
    feed = NatsLog(client).follow(0)
    assert seqs(await feed.take()) == [1]
    with pytest.raises(msgspec.DecodeError):
        await asyncio.wait_for(feed.take(), 5)
    await feed.close()


async def test_a_slow_reader_is_sent_no_more_than_it_lets_wait(client: Client) -> None:
    log, feed = NatsLog(client), NatsFeed(client, 0, Pace(batch=10, waiting_max=40))
    await log.append_all([new(JOB, 0), *(new(JOB, None) for _ in range(499))])
    taken = seqs(await feed.take(most=1))
    await eventually(lambda: len(feed._buffer) >= 30)
    await client.flush()
    assert len(feed._buffer) <= 40
    assert feed.behind == 499
    while len(taken) < 500:
        taken += seqs(await asyncio.wait_for(feed.take(most=7), 5))
    assert taken == list(range(1, 501))
    await feed.close()


async def test_a_feed_knows_how_far_behind_it_begins(client: Client) -> None:
    log = NatsLog(client)
    await log.append_all([new(JOB, 0), *(new(JOB, None) for _ in range(9))])
    feed = log.follow(3)
    taken = await feed.take(most=1)
    assert seqs(taken) == [4]
    assert feed.behind == 6
    await feed.close()
