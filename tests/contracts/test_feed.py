"""Feeds of a damaged log, and feeds with a slow reader."""

import asyncio

import msgspec
import pytest
from nats.aio.client import Client

from shared.event_log import Gap
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed
from shared.nats.pull import PullLimits
from shared.wire import UNREADABLE, encode_envelope, is_genuine
from tests.contracts.samples import JOB, api, new_event, seqs, take_events
from tests.support.waits import eventually

pytestmark = pytest.mark.server


async def test_a_lost_event_is_a_gap_after_those_before_it(brittle: Client) -> None:
    await api(brittle, "STREAM.MSG.DELETE.EVENTS", {"seq": 3})
    feed = NatsLog(brittle).follow(0)
    assert seqs(await take_events(feed, 2)) == [1, 2]
    with pytest.raises(Gap, match="after event 2 came 4"):
        await asyncio.wait_for(feed.take(), 30)
    await feed.close()


async def test_a_log_without_its_beginning_is_a_gap(brittle: Client) -> None:
    await api(brittle, "STREAM.PURGE.EVENTS", {"keep": 1})
    feed = NatsLog(brittle).follow(4)
    with pytest.raises(Gap, match="begins at 4"):
        await asyncio.wait_for(feed.take(), 30)
    await feed.close()


NAIVE = (
    b'{"id":"e","type":"t","v":1,"at":"2026-01-01T00:00:00","agg":"run.a.r","actor":"",'
    b'"corr":"","cause":"","data":{}}'
)


@pytest.mark.parametrize(
    "body", [b"no event", b"[" * 200_000, b'{"id":"\xff"}', NAIVE, NAIVE.replace(b":00:00", b"")]
)
async def test_what_is_no_event_is_handed_over_as_such(client: Client, body: bytes) -> None:
    await NatsLog(client).append(new_event(JOB, 0))
    await client.request("events.run.a.r", body, 2)
    await NatsLog(client).append(new_event(JOB, None))
    feed = NatsLog(client).follow(0)
    events = await feed.take()
    events += await feed.take() if len(events) < 3 else []
    assert [event.envelope.type for event in events] == ["JobRequeued", UNREADABLE, "JobRequeued"]
    assert (events[1].body, events[1].envelope.aggregate) == (body, "run.a.r")
    with pytest.raises(msgspec.DecodeError):
        _ = events[1].fact
    assert await NatsLog(client).history("run.a.r") == [events[1]]
    await feed.close()


@pytest.mark.parametrize(("events", "requests"), [(0, 1), (1, 1), (2, 2), (300, 3)])
async def test_a_history_of_one_event_takes_one_request(
    client: Client, events: int, requests: int
) -> None:
    log = NatsLog(client)
    for _ in range(events):
        await log.append(new_event(JOB, None))
    # Every few seconds, one read also learns how far the stream was truncated.
    await log.history(JOB)
    before = client.stats["out_msgs"]
    assert len(await log.history(JOB)) == events
    assert client.stats["out_msgs"] - before == requests


async def test_an_event_is_of_the_aggregate_on_whose_subject_it_lies(client: Client) -> None:
    forged = encode_envelope(new_event(JOB, None).envelope)
    await client.request("events.run.a.r", forged, 2)
    feed = NatsLog(client).follow(0)
    (event,) = await feed.take()
    assert (event.envelope.aggregate, event.body) == ("run.a.r", forged)
    assert not is_genuine(event.envelope)
    assert await NatsLog(client).history("run.a.r") == [event]
    await feed.close()


async def test_a_slow_reader_is_sent_no_more_than_it_lets_wait(client: Client) -> None:
    log, feed = NatsLog(client), NatsFeed(client, 0, PullLimits(batch=10, waiting_max=40))
    await log.append_all([new_event(JOB, 0), *(new_event(JOB, None) for _ in range(499))])
    taken = seqs(await feed.take(most=1))
    await eventually(lambda: len(feed._buffer) >= 30)
    await client.flush()
    assert len(feed._buffer) <= 40
    assert feed.behind == 499
    while len(taken) < 500:
        taken += seqs(await asyncio.wait_for(feed.take(most=7), 30))
    assert taken == list(range(1, 501))
    await feed.close()


async def test_a_feed_knows_how_far_behind_it_begins(client: Client) -> None:
    log = NatsLog(client)
    await log.append_all([new_event(JOB, 0), *(new_event(JOB, None) for _ in range(9))])
    feed = log.follow(3)
    taken = await feed.take(most=1)
    assert seqs(taken) == [4]
    assert feed.behind == 6
    await feed.close()
