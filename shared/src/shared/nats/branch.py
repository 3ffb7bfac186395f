"""Some aggregates followed from a place on: for who must not wait for all the others."""

import asyncio
from collections.abc import Sequence
from itertools import chain

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import Failed
from shared.event_log import Gap, Recorded
from shared.nats.pull import Pace, Pull, consumer_sequence, held_back, stream_sequence
from shared.nats.requests import find, patiently
from shared.nats.streams import SECOND_NS, Settings, state
from shared.subjects import STREAM, aggregate, subject
from shared.wire import read

FORGOTTEN_S = 60
BEGIN_S = 0.01
PACE = Pace()


class NatsBranch:
    """What certain aggregates say after a sequence; see the port shared.event_log.Branch.

    The server reads a long past for a consumer with several filters up to 20 times slower than
    for one with a single filter. So the past is read by one consumer per filter and merged, and
    only what comes after it by one consumer of all.
    """

    def __init__(self, nc: Client, aggs: Sequence[str], after: int, pace: Pace = PACE) -> None:
        self._nc = nc
        self._subjects = [subject(agg) for agg in aggs]
        self._after = after
        self._pace = pace
        self._past: _Past | None = None
        self._live: _Filtered | None = None
        if len(aggs) == 1:
            self._live = _Filtered(nc, self._subjects, after, pace)

    @property
    def silent_s(self) -> float:
        """For how long nothing was heard from the server, not even that it lives."""
        return self._live.silent_s if self._past is None and self._live else 0.0

    @property
    def behind(self) -> int:
        """How many events are still to be taken, at least 1 until that is known."""
        return self._live.behind if self._past is None and self._live else 1

    async def take(self, most: int = 5000) -> list[Recorded]:
        """The next events, at least one; see the port.

        Errors: Gap, after all events before it; Failed if the log's end cannot be learnt.
        """
        while self._live is None or self._past is not None:
            if self._past is None:
                self._past = await self._find_past()
            past = self._past
            await past.fill(most)
            if past.is_last(most):
                # What follows is known before the past is over, so that `behind` is true.
                self._live = self._live or _Filtered(self._nc, self._subjects, past.end, self._pace)
                await self._live.begin()
                await past.close()
                self._past = None
            # Nothing is awaited from here on, so that a cancelled take has taken nothing.
            if events := past.pop(most):
                return events
        return await self._live.take(most)

    async def close(self) -> None:
        """Stop following."""
        if self._past is not None:
            await self._past.close()
        if self._live is not None:
            await self._live.close()

    async def _find_past(self) -> "_Past":
        """Learn where the past of each filter ends; waits while there is no connection."""
        while True:
            try:
                return await patiently(self._nc, self._look)
            except Failed:
                if self._nc.is_connected or self._nc.is_closed:
                    raise

    async def _look(self) -> "_Past":
        end = (await state(self._nc, STREAM)).last_seq
        if end < self._after:
            raise Gap(f"the log ends at {end}, but {self._after} was read before")
        parts = []
        for one in self._subjects:
            # Asked after the end: nothing of this filter lies between what is found and there.
            newest = await find(self._nc, STREAM, {"last_by_subj": one})
            if newest is not None and newest.seq > self._after:
                feed = _Filtered(self._nc, [one], self._after, self._pace)
                parts.append(_Part(feed, newest.seq, end))
        return _Past(parts, end)


class _Part:
    """The past of one filter, up to and including the sequence `end`."""

    def __init__(self, feed: "_Filtered", newest: int, end: int) -> None:
        self.feed = feed
        self.newest = newest
        self.end = end
        self.events: list[Recorded] = []
        self.is_whole = False

    async def fill(self, most: int) -> None:
        """Have the next events, unless there are some, or no more.

        It waits for ever for an event that the server counts and cannot read: without that event
        the past is not whole.
        """
        while not self.events and not self.is_whole:
            taken = await self.feed.take(most)
            self.events = [event for event in taken if event.seq <= self.end]
            has_newest = taken[-1].seq >= min(self.newest, self.end + 1)
            self.is_whole = has_newest and self.feed.behind == 0


class _Past:
    """The past of several filters, merged in the order of the log."""

    def __init__(self, parts: Sequence[_Part], end: int) -> None:
        self.end = end
        self._parts = parts

    async def fill(self, most: int) -> None:
        """Have the next events of every part."""
        for part in self._parts:
            await part.fill(most)

    def is_last(self, most: int) -> bool:
        """Return whether the next events are the last ones."""
        waiting = sum(len(part.events) for part in self._parts)
        return waiting <= most and all(part.is_whole for part in self._parts)

    def pop(self, most: int) -> list[Recorded]:
        """Return the next events in the order of the log, once there are some of every part."""
        open_parts = [part for part in self._parts if not part.is_whole]
        known_to = min((part.events[-1].seq for part in open_parts), default=self.end)
        waiting = chain.from_iterable(part.events for part in self._parts)
        events = sorted((event for event in waiting if event.seq <= known_to), key=_seq)[:most]
        for part in self._parts:
            part.events = [event for event in part.events if event.seq > events[-1].seq]
        return events

    async def close(self) -> None:
        """Stop reading."""
        for part in self._parts:
            await part.feed.close()


def _seq(event: Recorded) -> int:
    return event.seq


class _Filtered:
    """What one consumer with some filters reads after a sequence.

    Sequences have holes here where others spoke, so it is the consumer's own count that tells a
    message that was lost.
    """

    def __init__(self, nc: Client, subjects: Sequence[str], after: int, pace: Pace) -> None:
        self._nc = nc
        self._subjects = list(subjects)
        self._received = after
        self._delivered = 0
        self._target: int | None = None
        self._reply = ""
        self._buffer: list[Recorded] = []
        self._damage: Exception | None = None
        self._pull = Pull(nc, STREAM, self._place, self._on, pace)

    @property
    def silent_s(self) -> float:
        """For how long nothing was heard from the server, not even that it lives."""
        return self._pull.silent_s

    @property
    def behind(self) -> int:
        """How many events are still to be taken, at least 1 until that is known."""
        if self._target is None:
            return 1
        left = held_back(self._reply) if self._reply else int(self._received < self._target)
        return left + len(self._buffer)

    async def begin(self) -> None:
        """Have a consumer, and know how far behind it is. Errors: Gap; Failed."""
        while self._target is None:
            await self._pull.turn(0, BEGIN_S)

    async def take(self, most: int = 5000) -> list[Recorded]:
        """The next events, at least one; see the port.

        Errors: Gap, after all events before it.
        """
        while not self._buffer:
            if self._damage is not None:
                raise self._damage
            await self._pull.turn(0)
        await self._pull.ask(len(self._buffer) - min(most, len(self._buffer)))
        # Nothing is awaited from here on, so that a cancelled take has taken nothing.
        taken, self._buffer = self._buffer[:most], self._buffer[most:]
        return taken

    async def close(self) -> None:
        """Stop following."""
        await self._pull.close()

    async def _place(self) -> Settings:
        found = await state(self._nc, STREAM)
        if found.first_seq > 1:
            raise Gap(f"the log begins at {found.first_seq}, not at 1: its beginning is lost")
        if found.last_seq < self._received:
            raise Gap(f"the log ends at {found.last_seq}, but {self._received} was read before")
        if self._target is None:
            self._target = await self._last()
        self._delivered, self._reply = 0, ""
        return {
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._received + 1,
            "filter_subjects": self._subjects,
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_S * SECOND_NS,
        }

    async def _last(self) -> int:
        """The sequence of the newest event of ours: having that is having all."""
        asked = (find(self._nc, STREAM, {"last_by_subj": one}) for one in self._subjects)
        found = await asyncio.gather(*asked)
        return max((one.seq for one in found if one is not None), default=0)

    def _on(self, message: Msg) -> None:
        if self._damage is not None:
            return
        seq, delivered = stream_sequence(message.reply), consumer_sequence(message.reply)
        if delivered != self._delivered + 1:
            self._damage = Gap(f"after event {self._received} something was lost before {seq}")
            return
        envelope = read(aggregate(message.subject), seq, message.data)
        self._received, self._delivered, self._reply = seq, delivered, message.reply
        self._buffer.append(Recorded(seq, envelope, message.data))
