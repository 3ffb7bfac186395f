"""Feeds of the log after a sequence, in order, each event once, delivered in lists.

`NatsFeed` follows the whole log, the events that the stream has dropped from their segments; a
branch follows some aggregates, for readers that must not wait for all others.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import Failed
from shared.event_log import Gap, LogCounts, RecordedEvent
from shared.nats.connection import get_message, retry_request
from shared.nats.pull import (
    PASSING,
    PullConsumer,
    PullLimits,
    consumer_sequence,
    delivery_start,
    pending_count,
    stream_sequence,
)
from shared.nats.segments import NatsSegments, RawEvent
from shared.nats.streams import Settings, stream_state
from shared.nats.truncation import read_truncation
from shared.segments import is_cut
from shared.subjects import STREAM, aggregate, subject
from shared.wire import read_envelope

PULL_LIMITS = PullLimits()


class BehindTruncation(Exception):  # noqa: N818
    """The stream has dropped some of the next events, up to the sequence `until`."""

    def __init__(self, until: int) -> None:
        super().__init__(f"the stream has dropped events up to {until}")
        self.until = until


class NatsFeed:
    """All events after a sequence; it reads without a filter, which would hide a gap.

    Events that the stream may have dropped are read from segments, which have all of them.
    """

    def __init__(
        self,
        nc: Client,
        after: int,
        pace: PullLimits = PULL_LIMITS,
        counts: LogCounts | None = None,
    ) -> None:
        self._nc = nc
        self._received = after
        self._unsent = 0
        self._reply = ""
        self._buffer: list[RawEvent] = []
        self._damage: Exception | None = None
        self._counts = LogCounts() if counts is None else counts
        self._segments = NatsSegments(nc)
        # Up to where the next events are read from segments, and where the stream ended then.
        self._segments_until = self._stream_last = 0
        self._pull = PullConsumer(nc, STREAM, self.settings, self._handle_message, pace)

    @property
    def restarts(self) -> int:
        """How often reading had to start again."""
        return max(0, self._pull.begins - 1)

    @property
    def silent_s(self) -> float:
        """For how long nothing was received from the server, not even a heartbeat."""
        return self._pull.silent_s

    @property
    def behind(self) -> int:
        """How many events are not yet taken, as the server reported with the newest of them."""
        unsent = pending_count(self._reply) if self._reply else self._unsent
        return unsent + len(self._buffer)

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one; see the port.

        Errors: Gap, after all events before it.
        """
        return decode_events(await self.raw(most))

    async def raw(self, most: int) -> list[RawEvent]:
        """Return the next events undecoded, for readers that pass them on. Errors: as for take."""
        while not self._buffer:
            if self._received < self._segments_until:
                await self._read_segment()
                continue
            if self._damage is not None and not await self._is_truncated():
                self._counts.gaps += 1
                raise self._damage
            try:
                await self._pull.turn(0)
            except BehindTruncation as behind:
                self._segments_until = behind.until
        await self._pull.ask(len(self._buffer) - min(most, len(self._buffer)))
        # There is no await after this, so that a cancelled take has taken nothing.
        taken, self._buffer = self._buffer[:most], self._buffer[most:]
        return taken

    async def close(self) -> None:
        """Stop following."""
        await self._pull.close()

    async def settings(self) -> Settings:
        """Return the settings of a consumer of the next events.

        Errors: Gap; BehindTruncation; those of the request.
        """
        stream = await stream_state(self._nc, STREAM)
        self._counts.pump_restarts += self._pull.begins > 0
        if stream.last_seq < self._received:
            self._counts.gaps += 1
            raise Gap(f"the log ends at {stream.last_seq}, but {self._received} was read before")
        self._unsent, self._reply = stream.last_seq - self._received, ""
        self._stream_last = stream.last_seq
        # Only after the state of the stream: what it had then cannot have been dropped before.
        truncation = await read_truncation(self._nc)
        is_whole = stream.messages == stream.last_seq
        if self._received < truncation.seq and not is_whole:
            self._check_truncated(truncation.seq)
        if stream.first_seq > 1 and not truncation.seq:
            self._counts.gaps += 1
            raise Gap(f"the log begins at {stream.first_seq}, not at 1: its beginning is lost")
        return PASSING | delivery_start(self._received + 1)

    def _check_truncated(self, truncated_seq: int) -> None:
        raise BehindTruncation(truncated_seq)

    async def _read_segment(self) -> None:
        """Take the next events from their segment. Errors: Failed."""
        events = await self._segments.after(self._received, self._segments_until)
        self._buffer.extend(events)
        self._received = events[-1][0]
        self._unsent, self._reply = max(0, self._stream_last - self._received), ""

    async def _is_truncated(self) -> bool:
        """Return whether the stream was truncated while it was read; then continue behind it."""
        truncation = await retry_request(self._nc, lambda: read_truncation(self._nc))
        if truncation.seq <= self._received:
            return False
        self._damage = None
        self._pull.begin_again()
        return True

    def _handle_message(self, message: Msg) -> None:
        if self._damage is not None:
            return
        seq = stream_sequence(message.reply)
        if seq != self._received + 1:
            self._damage = Gap(f"after event {self._received} came {seq}")
            return
        self._received, self._reply = seq, message.reply
        self._buffer.append((seq, aggregate(message.subject), message.data))


def decode_events(events: Iterable[RawEvent]) -> list[RecordedEvent]:
    """Decode the envelopes of events."""
    return [
        RecordedEvent(seq, read_envelope(aggregate, seq, body), body)
        for seq, aggregate, body in events
    ]


BEGIN_S = 0.01


class NatsBranch:
    """The events of some aggregates after a sequence; see the port shared.event_log.Branch.

    The server reads a long past for a consumer with several filters up to 20 times slower than
    for one with a single filter. So one consumer per filter reads the past, which is merged, and
    a consumer of all filters reads only what follows.
    """

    def __init__(self, nc: Client, aggregates: Sequence[str], after: int) -> None:
        self._nc = nc
        self._subjects = [subject(aggregate) for aggregate in aggregates]
        self._after = after
        # The past of each filter, and its last sequence; None before and after it is read.
        self._past: list[_FilterPast] | None = None
        self._end = 0
        self._live: _FilteredFeed | None = None
        if len(aggregates) == 1:
            self._live = _FilteredFeed(nc, self._subjects, after)

    @property
    def silent_s(self) -> float:
        """For how long nothing was received from the server, not even a heartbeat."""
        return self._live.silent_s if self._past is None and self._live else 0.0

    @property
    def behind(self) -> int:
        """How many events are not yet taken; at least 1 until that is known."""
        return self._live.behind if self._past is None and self._live else 1

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one; see the port.

        Errors: Gap, after all events before it; Failed if the end of the log cannot be read.
        """
        while self._live is None or self._past is not None:
            if self._past is None:
                self._past = await self._find_past()
            past = self._past
            for part in past:
                await part.fill(most)
            waiting = sum(len(part.events) for part in past)
            if waiting <= most and all(part.is_complete for part in past):
                # The live feed starts before the past ends, so that `behind` is correct.
                self._live = self._live or _FilteredFeed(self._nc, self._subjects, self._end)
                await self._live.begin()
                for part in past:
                    await part.feed.close()
                self._past = None
            # There is no await after this, so that a cancelled take has taken nothing.
            if events := _pop_merged(past, self._end, most):
                return events
        return await self._live.take(most)

    async def close(self) -> None:
        """Stop following."""
        for part in self._past or ():
            await part.feed.close()
        if self._live is not None:
            await self._live.close()

    async def _find_past(self) -> "list[_FilterPast]":
        """Find the end of each filter's past; waits while there is no connection."""
        while True:
            try:
                return await retry_request(self._nc, self._read_ends)
            except Failed:
                if self._nc.is_connected or self._nc.is_closed:
                    raise

    async def _read_ends(self) -> "list[_FilterPast]":
        self._end = (await stream_state(self._nc, STREAM)).last_seq
        if self._end < self._after:
            raise Gap(f"the log ends at {self._end}, but {self._after} was read before")
        past = []
        for filter_subject in self._subjects:
            # Read after the end, so no event of this filter lies between the newest and the end.
            newest = await get_message(self._nc, STREAM, {"last_by_subj": filter_subject})
            if newest is not None and newest.seq > self._after:
                feed = _FilteredFeed(self._nc, [filter_subject], self._after)
                past.append(_FilterPast(feed, newest.seq, self._end))
        return past


def _pop_merged(past: "Sequence[_FilterPast]", end: int, most: int) -> list[RecordedEvent]:
    """Take the next events in the order of the log, once every part has some."""
    open_parts = [part for part in past if not part.is_complete]
    complete_to = min((part.events[-1].seq for part in open_parts), default=end)
    waiting = chain.from_iterable(part.events for part in past)
    ready = (event for event in waiting if event.seq <= complete_to)
    events = sorted(ready, key=lambda event: event.seq)[:most]
    for part in past:
        part.events = [event for event in part.events if event.seq > events[-1].seq]
    return events


class _FilterPast:
    """The past of one filter, up to and including the sequence `end`."""

    def __init__(self, feed: "_FilteredFeed", newest: int, end: int) -> None:
        self.feed = feed
        self.newest = newest
        self.end = end
        self.events: list[RecordedEvent] = []
        self.is_complete = False

    async def fill(self, most: int) -> None:
        """Fetch the next events, unless there are some, or no more.

        It waits without limit for an event that the server counts but cannot read: without that
        event the past is incomplete.
        """
        while not self.events and not self.is_complete:
            taken = await self.feed.take(most)
            self.events = [event for event in taken if event.seq <= self.end]
            has_newest = taken[-1].seq >= min(self.newest, self.end + 1)
            self.is_complete = has_newest and self.feed.behind == 0


class _FilteredFeed(NatsFeed):
    """The events that one consumer with some filters reads after a sequence.

    Its sequences have holes where other aggregates wrote, so the consumer's own count reveals a
    lost message.
    """

    def __init__(self, nc: Client, subjects: Sequence[str], after: int) -> None:
        super().__init__(nc, after)
        self._subjects = list(subjects)
        self._delivered = 0
        self._target: int | None = None

    @property
    def behind(self) -> int:
        """How many events are not yet taken; at least 1 until that is known."""
        if self._target is None:
            return 1
        unsent = pending_count(self._reply) if self._reply else int(self._received < self._target)
        return unsent + len(self._buffer)

    async def begin(self) -> None:
        """Create the consumer, and learn how far behind it is. Errors: Gap; Failed."""
        while self._target is None:
            await self._pull.turn(0, BEGIN_S)

    def _check_truncated(self, truncated_seq: int) -> None:
        """Read on, unless the stream may have dropped events of these aggregates. Errors: Gap."""
        if cut := [subject for subject in self._subjects if is_cut(aggregate(subject))]:
            reason = f"{', '.join(cut)} were dropped up to {truncated_seq}: follow the whole log"
            raise Gap(reason)

    async def settings(self) -> Settings:
        settings = await super().settings()
        if self._target is None:
            # Having our newest event means having all.
            lookups = (
                get_message(self._nc, STREAM, {"last_by_subj": filter_subject})
                for filter_subject in self._subjects
            )
            newest = await asyncio.gather(*lookups)
            self._target = max((message.seq for message in newest if message), default=0)
        self._delivered = 0
        return settings | {"filter_subjects": self._subjects}

    def _handle_message(self, message: Msg) -> None:
        if self._damage is not None:
            return
        seq, delivered = stream_sequence(message.reply), consumer_sequence(message.reply)
        if delivered != self._delivered + 1:
            self._damage = Gap(f"an event between {self._received} and {seq} was lost")
            return
        self._received, self._delivered, self._reply = seq, delivered, message.reply
        self._buffer.append((seq, aggregate(message.subject), message.data))
