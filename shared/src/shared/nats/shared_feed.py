"""One reader of the log for several followers in a process.

Each follower has its own position. Followers near the newest event share one consumer and the
decoded events. A follower that is further behind reads with a consumer of its own until it has
caught up, so one that is slow or has stopped holds up no other.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from nats.aio.client import Client

from shared.event_log import Feed, RecordedEvent
from shared.nats.event_log import NatsLog
from shared.nats.streams import LogMonitor

READ_MAX = 5000
# Events that wait in memory for the slowest of the followers that share them.
SHARED_MAX = 20_000
SHARED_BYTES_MAX = 32 * 1024 * 1024

OpenFeed = Callable[[int], Feed]


class SharedReader:
    """Reads on when a follower needs more, and keeps what others have not taken yet.

    It has the events after `start` up to and including `end`.
    """

    def __init__(self, open_feed: OpenFeed, after: int, events_max: int, bytes_max: int) -> None:
        self._open_feed = open_feed
        self._events_max, self._bytes_max = events_max, bytes_max
        self.start = self.end = after
        self.followers: set[SharedFeed] = set()
        self._events: list[RecordedEvent] = []
        self._bytes = 0
        self._feed: Feed | None = None
        self._reading: asyncio.Task[None] | None = None

    def has_after(self, seq: int) -> bool:
        """Return whether it has the event after a sequence, or reads it next."""
        return self.start <= seq <= self.end

    def behind(self, seq: int) -> int:
        """Return how many events follow a sequence, as far as is known."""
        return self.end - seq + (self._feed.behind if self._feed is not None else 0)

    async def take(self, seq: int, most: int) -> list[RecordedEvent]:
        """Return the events after a sequence, waiting for at least one. Errors: as `Feed.take`."""
        while seq == self.end:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
                self._reading.add_done_callback(_retrieve_error)
            # A follower that gives up waiting leaves the next events to the others.
            await asyncio.shield(self._reading)
        # There is no await after this, so that a cancelled take has taken nothing.
        first = seq - self.start
        return self._events[first : first + most]

    async def leave(self, follower: "SharedFeed") -> None:
        """Let a follower go; without any, stop reading."""
        self.followers.discard(follower)
        if not self.followers:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)
            await self._close_feed()

    async def _read(self) -> None:
        try:
            if self._feed is None:
                self._feed = self._open_feed(self.end)
            events = await self._feed.take(READ_MAX)
        except Exception:
            await self._close_feed()
            raise
        finally:
            self._reading = None
        self._events += events
        self._bytes += _size(events)
        self.end = events[-1].seq
        self._forget(len(events))

    def _forget(self, arrived: int) -> None:
        """Drop what everybody has taken, and all but what just arrived if too much is kept."""
        sharing = (follower.seq for follower in self.followers if self.has_after(follower.seq))
        self._drop(min(sharing, default=self.start) - self.start)
        if len(self._events) > self._events_max or self._bytes > self._bytes_max:
            self._drop(len(self._events) - arrived)

    def _drop(self, count: int) -> None:
        self._bytes -= _size(self._events[:count])
        del self._events[:count]
        self.start += count

    async def _close_feed(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            await feed.close()


def _size(events: list[RecordedEvent]) -> int:
    return sum(len(event.body) for event in events)


def _retrieve_error(reading: "asyncio.Task[None]") -> None:
    """Do not report the error of a read that nobody waits for: the next read fails with it, too."""
    with suppress(asyncio.CancelledError):
        reading.exception()


class SharedFeeds:
    """Opens feeds, which share a reader where they can."""

    def __init__(
        self,
        open_feed: OpenFeed,
        events_max: int = SHARED_MAX,
        bytes_max: int = SHARED_BYTES_MAX,
    ) -> None:
        self.open_feed = open_feed
        self._events_max, self._bytes_max = events_max, bytes_max
        self._reader: SharedReader | None = None

    def follow(self, after: int) -> "SharedFeed":
        """Follow all events after a sequence."""
        return SharedFeed(self, after)

    def join(self, follower: "SharedFeed") -> SharedReader | None:
        """Return the reader with a follower's next event, a new one if nobody else has one."""
        if self._reader is None or not self._reader.followers:
            self._reader = SharedReader(
                self.open_feed, follower.seq, self._events_max, self._bytes_max
            )
        if not self._reader.has_after(follower.seq):
            return None
        self._reader.followers.add(follower)
        return self._reader


class SharedFeed:
    """All events after a sequence, in order, each once; see the port shared.event_log.Feed."""

    def __init__(self, feeds: SharedFeeds, after: int) -> None:
        self._feeds = feeds
        self.seq = after
        self._shared: SharedReader | None = None
        self._own: Feed | None = None

    @property
    def behind(self) -> int:
        """How many events are not yet taken."""
        if self._shared is not None:
            return self._shared.behind(self.seq)
        return self._own.behind if self._own is not None else 0

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one; see the port. Errors: Gap."""
        await self._choose_source()
        if self._shared is not None:
            events = await self._shared.take(self.seq, most)
        else:
            assert self._own is not None, "without a shared reader it has one of its own"
            events = await self._own.take(most)
        # There is no await after this, so that a cancelled take has taken nothing.
        self.seq = events[-1].seq
        return events

    async def close(self) -> None:
        """Stop following."""
        await self._leave_shared()
        await self._close_own()

    async def _choose_source(self) -> None:
        if self._shared is not None and not self._shared.has_after(self.seq):
            await self._leave_shared()
        if self._shared is None:
            self._shared = self._feeds.join(self)
        if self._shared is not None:
            await self._close_own()
        elif self._own is None:
            self._own = self._feeds.open_feed(self.seq)

    async def _leave_shared(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.leave(self)

    async def _close_own(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            await own.close()


class SharedReadLog(NatsLog):
    """The log, whose followers in this process share one reader."""

    def __init__(self, nc: Client, monitor: LogMonitor | None = None) -> None:
        super().__init__(nc, monitor)
        self._shared_feeds = SharedFeeds(super().follow)

    def follow(self, after: int) -> Feed:
        """Follow all events after a sequence; see the port."""
        return self._shared_feeds.follow(after)
