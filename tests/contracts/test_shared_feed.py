"""Followers of the log in one process share one reader, and none waits for another."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from shared.event_log import Feed, Gap
from shared.nats.event_log import NatsLog
from shared.nats.shared_feed import SharedFeed, SharedFeeds
from tests.contracts.samples import JOB, api, new_event, seqs, take_events

pytestmark = pytest.mark.server


class OpenedFeeds(SharedFeeds):
    """Feeds of a real log; `opened` has where each consumer began."""

    def __init__(self, client: Client, events_max: int = 1000) -> None:
        self.log = NatsLog(client)
        self.opened: list[int] = []
        self.followers: list[SharedFeed] = []
        super().__init__(self.open, events_max)

    def open(self, after: int) -> Feed:
        """Open a feed of its own."""
        self.opened.append(after)
        return self.log.follow(after)

    def follow(self, after: int) -> SharedFeed:
        """Follow, until the test ends."""
        self.followers.append(super().follow(after))
        return self.followers[-1]

    async def append(self, count: int) -> None:
        """Append more events."""
        for _ in range(count):
            await self.log.append(new_event(JOB, None))


@pytest.fixture
async def feeds(client: Client) -> AsyncIterator[OpenedFeeds]:
    opened = OpenedFeeds(client)
    yield opened
    for follower in opened.followers:
        await follower.close()


async def test_three_followers_read_each_event_once_with_one_consumer(feeds: OpenedFeeds) -> None:
    first, second, third = followers = [feeds.follow(0) for _ in range(3)]
    # They join before the reader may drop an event that all who joined have taken.
    waiting = [asyncio.create_task(take_events(feed, 1)) for feed in followers]
    await feeds.append(5)
    assert [seqs(await task) for task in waiting] == [[1], [1], [1]]
    assert seqs(await take_events(first, 4)) == [2, 3, 4, 5]
    assert (first.behind, second.behind) == (0, 4)
    assert seqs(await take_events(second, 1)) == [2]
    assert second.behind == 3
    waiting = [asyncio.create_task(take_events(feed, 1)) for feed in (first, third)]
    await feeds.append(1)
    assert [seqs(await task) for task in waiting] == [[6], [2]]
    assert seqs(await take_events(second, 4)) == [3, 4, 5, 6]
    assert feeds.opened == [0]


async def test_both_decode_an_event_once(feeds: OpenedFeeds) -> None:
    first, second = feeds.follow(0), feeds.follow(0)
    await feeds.append(1)
    assert (await first.take())[0] is (await second.take())[0]


async def test_a_follower_that_stopped_holds_up_no_other_and_catches_up_alone(
    client: Client,
) -> None:
    feeds = OpenedFeeds(client, events_max=4)
    live, stopped = feeds.follow(0), feeds.follow(0)
    await feeds.append(3)
    # It joins first: alone, the other might let the reader drop the first events.
    await take_events(stopped, 1)
    await take_events(live, 3)
    for seq in range(4, 14):
        await feeds.append(1)
        assert seqs(await take_events(live, 1)) == [seq]
    assert seqs(await take_events(stopped, 12)) == list(range(2, 14))
    assert feeds.opened == [0, 1]
    both = [asyncio.create_task(take_events(feed, 1)) for feed in (live, stopped)]
    await feeds.append(1)
    assert [seqs(await task) for task in both] == [[14], [14]]
    assert stopped._own is None
    for follower in feeds.followers:
        await follower.close()


async def test_a_follower_ahead_of_all_others_waits_for_none(feeds: OpenedFeeds) -> None:
    await feeds.append(6)
    behind, ahead = feeds.follow(0), feeds.follow(5)
    assert seqs(await take_events(behind, 1)) == [1]
    assert seqs(await take_events(ahead, 1)) == [6]
    assert seqs(await take_events(behind, 5)) == [2, 3, 4, 5, 6]


async def test_a_cancelled_take_leaves_the_next_event_to_both(feeds: OpenedFeeds) -> None:
    first, second = feeds.follow(0), feeds.follow(0)
    for _ in range(20):
        waiting = [asyncio.create_task(feed.take()) for feed in (first, second)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait({waiting[0]})
        assert waiting[0].cancelled()
        waiting[1].cancel()
        await asyncio.wait({waiting[1]})
    await feeds.append(1)
    assert seqs(await take_events(first, 1)) == seqs(await take_events(second, 1)) == [1]


async def test_who_closes_ends_nobody_elses_reading(feeds: OpenedFeeds) -> None:
    first, second = feeds.follow(0), feeds.follow(0)
    waiting = [asyncio.create_task(feed.take()) for feed in (first, second)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.wait({waiting[0]})
    await first.close()
    await feeds.append(1)
    assert seqs(await asyncio.wait_for(waiting[1], 30)) == [1]
    assert feeds.opened == [0]


async def test_a_lost_event_is_a_gap_for_each(brittle: Client) -> None:
    await api(brittle, "STREAM.MSG.DELETE.EVENTS", {"seq": 3})
    feeds = OpenedFeeds(brittle)
    for follower in (feeds.follow(0), feeds.follow(0)):
        assert seqs(await take_events(follower, 2)) == [1, 2]
        with pytest.raises(Gap, match="after event 2 came 4"):
            await asyncio.wait_for(follower.take(), 30)
    for follower in feeds.followers:
        await follower.close()
