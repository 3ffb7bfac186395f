"""Reads the events that the stream dropped, from the segments that the log names.

A segment is a blob, so its bytes are checked against the digest in its signed event. Its index says
which histories it has, so that one history can be found without reading every segment.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from nats.aio.client import Client

from shared.blobs import BlobNotFound
from shared.errors import Failed
from shared.events import Blob, SegmentSealed
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import read_pages
from shared.segments import DamagedSegment, EventLine, HistoryIndex, Segment, decode_segment
from shared.subjects import STREAM, aggregate, history_of, subject
from shared.wire import decode, decode_fact

SEGMENTS = "audit.segment"
PAGE = "docs/operating/segments.md"
# Decoded segments in memory: a reader of stretches needs the same one again.
DECODED_MAX = 2
# How many indexes a process reads at the same time when it needs all of them.
READ_AT_ONCE = 16
# The sequence, aggregate and body of an event that is not yet decoded.
RawEvent = tuple[int, str, bytes]


class NatsSegments:
    """The segments of the log. Errors of all methods: Failed, which names a damaged segment."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._blobs = NatsBlobStore(nc)
        self._by_first: dict[int, SegmentSealed] = {}
        self._read_seq = 0
        self._decoded: OrderedDict[str, Segment] = OrderedDict()
        self._indexes: dict[str, HistoryIndex] = {}

    @property
    def version(self) -> int:
        """The sequence of the last event that `list` has read."""
        return self._read_seq

    async def list(self) -> list[SegmentSealed]:
        """Return the segments in order, as far as each begins where the one before ends.

        A segment may be stored again, but never becomes another one: later events rely on its end.
        """
        filter_ = subject(SEGMENTS)
        for message in await read_pages(self._nc, STREAM, filter_, self._read_seq):
            fact = decode_fact(decode(message.data))
            assert isinstance(fact, SegmentSealed), "nothing else is on this subject"
            known = self._by_first.get(fact.first, fact)
            if (fact.last, fact.chain) == (known.last, known.chain):
                self._by_first[fact.first] = fact
            self._read_seq = message.seq
        segments, first = list[SegmentSealed](), 1
        while (segment := self._by_first.get(first)) is not None:
            segments.append(segment)
            first = segment.last + 1
        return segments

    async def after(self, seq: int, until: int) -> Sequence[RawEvent]:
        """Return the events of one segment after a sequence and up to another, at least one."""
        for segment in await self.list():
            if segment.first <= seq + 1 <= segment.last:
                events = (await self.read(segment)).events
                start = seq + 1 - segment.first
                return [_to_raw(event) for event in events[start : until + 1 - segment.first]]
        raise Failed(f"no segment has event {seq + 1}, which the stream has dropped; see {PAGE}")

    async def history(self, name: str, until: int) -> Sequence[RawEvent]:
        """Return the events of a history up to a sequence, in order."""
        history_events: list[RawEvent] = []
        history = history_of(name)
        segments = [segment for segment in await self.list() if segment.first <= until]
        unread = [part for part in segments if part.histories.digest not in self._indexes]
        for start in range(0, len(unread), READ_AT_ONCE):
            await asyncio.gather(*map(self._index, unread[start : start + READ_AT_ONCE]))
        for segment in segments:
            if not (await self._index(segment)).may_have(history):
                continue
            events = (await self.read(segment)).events
            history_events += [
                _to_raw(event)
                for event in events
                if event.seq <= until and history_of(aggregate(event.subject)) == history
            ]
        return history_events

    async def read(self, segment: SegmentSealed) -> Segment:
        """Return a segment with all of its events."""
        digest = segment.events.digest
        if digest not in self._decoded:
            data = await self._get(segment, segment.events)
            try:
                decoded = await asyncio.to_thread(decode_segment, data)
            except DamagedSegment as damaged:
                raise _damaged(segment, str(damaged)) from damaged
            header = decoded.header
            named = (segment.first, segment.last, segment.chain)
            if (header.first, header.last, header.chain) != named:
                raise _damaged(segment, "it is another segment than the one that was sealed")
            self._decoded[digest] = decoded
            if len(self._decoded) > DECODED_MAX:
                self._decoded.popitem(last=False)
        self._decoded.move_to_end(digest)
        return self._decoded[digest]

    async def _index(self, segment: SegmentSealed) -> HistoryIndex:
        digest = segment.histories.digest
        if digest not in self._indexes:
            data = await self._get(segment, segment.histories)
            try:
                self._indexes[digest] = HistoryIndex.decode(data)
            except DamagedSegment as damaged:
                raise _damaged(segment, str(damaged)) from damaged
        return self._indexes[digest]

    async def _get(self, segment: SegmentSealed, blob: Blob) -> bytes:
        try:
            return await self._blobs.get(blob.digest)
        except BlobNotFound as missing:
            raise _damaged(segment, f"there is {missing}") from missing


def _to_raw(event: EventLine) -> RawEvent:
    return event.seq, aggregate(event.subject), event.body


def _damaged(segment: SegmentSealed, reason: str) -> Failed:
    events = f"events {segment.first} to {segment.last}"
    return Failed(f"the segment of {events} is damaged or missing: {reason}; see {PAGE}")
