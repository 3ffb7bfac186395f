"""The log on JetStream: histories, appends that survive lost answers, and atomic batches.

An atomic batch is several messages that a stream stores all or none of (JetStream's ADR-50). Group
commit: concurrent appends are stored with one sync of the disk. A group is an atomic batch of
unrelated appends: all are stored or, after a conflict or a lost answer, none as far as we know;
each append then goes alone, which reveals what became of it. A few appends go alone, unless one of
them is a batch anyway, which the others then join.
"""

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple
from weakref import WeakSet

import msgspec
from nats.aio.client import Client

from shared.event_log import Branch, Conflict, Feed, LogCounts, NewEvent, RecordedEvent
from shared.nats.batches import BATCH_MAX, MessageDraft, publish_batch
from shared.nats.connection import (
    DUPLICATE_IN_BATCH,
    PAGE,
    REQUEST_ERRORS,
    WRONG_LAST_SEQUENCE,
    WRONG_LAST_SEQUENCE_IN_FLIGHT,
    RequestDenied,
    StoredMessage,
    TemporaryError,
    get_message,
    publish,
    read_page,
    read_pages,
    retry_request,
)
from shared.nats.feed import NatsBranch, NatsFeed, decode_events
from shared.nats.segments import NatsSegments
from shared.nats.streams import LogMonitor, stream_info, stream_state
from shared.nats.truncation import KnownTruncation
from shared.segments import is_cut
from shared.subjects import STREAM, aggregate, history_of, history_subject, subject
from shared.wire import encode_envelope, read_envelope

# A server answers one request for the newest messages of at most 1024 subjects.
NEWEST_MAX = 1000


GROUP_MAX = 100
# Costs in appends of one event: of a batch, of the appends that may go alone at once, and the least
# cost for which a group is formed. Measured on two cores with sync always (nats-server 2.15.1,
# 2026-11): the server spends 1.9 ms on a batch of two, 2.2 ms on one of fifty, and 0.1 ms on an
# append alone.
BATCH_COST = 20
ALONE_MAX = 24
GROUP_MIN = 21


class _PendingAppend(NamedTuple):
    drafts: Sequence[MessageDraft]
    last: "asyncio.Future[int | None]"


class GroupCommit:
    """The appends of one process that wait to be stored together."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._queue: deque[_PendingAppend] = deque()
        self._alone_cost = 0
        self._group_max = GROUP_MAX
        self._storing: asyncio.Task[None] | None = None
        self._is_scheduled = False

    @contextlib.contextmanager
    def alone(self, drafts: Sequence[MessageDraft]) -> Iterator[None]:
        """Count an append as going alone, for the duration of the block."""
        cost = _cost(drafts)
        self._alone_cost += cost
        try:
            yield
        finally:
            self._alone_cost -= cost
            self._dispatch()

    async def store(self, drafts: Sequence[MessageDraft]) -> int | None:
        """Return the last draft's sequence once a group stored it, or None: then it must go alone.

        Appends from the same iteration of the event loop are considered together.
        """
        if not self._nc.is_connected:
            return None
        loop = asyncio.get_running_loop()
        append = _PendingAppend(drafts, loop.create_future())
        self._queue.append(append)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._dispatch)
        return await append.last

    def _dispatch(self) -> None:
        """Store a group, or release appends to go alone, unless they should wait for others."""
        self._is_scheduled = False
        while self._queue and self._storing is None:
            group = self._next_group()
            if len(group) > 1 and sum(_cost(append.drafts) for append in group) >= GROUP_MIN:
                self._storing = asyncio.create_task(self._commit(group))
            elif self._alone_cost >= ALONE_MAX and self._nc.is_connected:
                self._queue.extendleft(reversed(group))
                return
            else:
                _resolve(group, None)

    def _next_group(self) -> list[_PendingAppend]:
        """Take as many as fit into one batch, which has each aggregate and each id once."""
        group, postponed, used_names = [], deque[_PendingAppend](), set[str]()
        size = 0
        while self._queue:
            append = self._queue.popleft()
            names = {name for draft in append.drafts for name in (draft.versioned, draft.id)}
            if size + len(append.drafts) > self._group_max or names & used_names:
                postponed.append(append)
                continue
            group.append(append)
            used_names |= names
            size += len(append.drafts)
        self._queue = postponed
        if not group:
            group.append(postponed.popleft())
        return group

    async def _commit(self, group: list[_PendingAppend]) -> None:
        """Store a group and report its sequences, or None; failures shrink the next groups."""
        last: int | None = None
        try:
            drafts = [draft for append in group for draft in append.drafts]
            last = await publish_batch(self._nc, drafts)
            self._group_max = min(GROUP_MAX, self._group_max * 2)
        except REQUEST_ERRORS:
            self._group_max = max(GROUP_MIN, self._group_max // 2)
        finally:
            # However this ends, nobody must wait for this group any longer.
            self._storing = None
            _resolve(group, last)
            self._dispatch()


def _cost(drafts: Sequence[MessageDraft]) -> int:
    return 1 if len(drafts) == 1 else BATCH_COST


def _resolve(group: Sequence[_PendingAppend], last: int | None) -> None:
    """Report to each append its own last sequence: a batch has consecutive ones."""
    for append in reversed(group):
        if not append.last.done():
            append.last.set_result(last)
        if last is not None:
            last -= len(append.drafts)


MAY_BE_STORED = frozenset({WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_IN_FLIGHT, DUPLICATE_IN_BATCH})
# A history that begins with this type is whole: no submission has two.
FIRST_TYPE = "SubmissionReceived"
# No replica that still answers lags behind by more than this many writes.
AGGREGATES_MAX = 10_000


class NatsLog:
    """The log, in the stream EVENTS.

    With a monitor, nobody appends to a damaged log or reads its histories: Failed says why.
    Whatever the stream has dropped is read from segments.
    """

    def __init__(self, nc: Client, monitor: LogMonitor | None = None) -> None:
        self._nc = nc
        self._monitor = monitor
        self._groups = GroupCommit(nc)
        self._known_sequences = KnownSequences()
        self._feeds: WeakSet[NatsFeed] = WeakSet()
        self._segments = NatsSegments(nc)
        self._truncation = KnownTruncation(nc)
        self.counts = LogCounts()

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and re-established."""
        return self._nc.stats["reconnects"]

    @property
    def silent_s(self) -> float:
        """The longest silence of the server among all feeds of this log."""
        return max((feed.silent_s for feed in self._feeds), default=0.0)

    def require_whole(self) -> None:
        """Prevent what depends on a complete log. Errors: Failed or temporary, as the monitor's."""
        if self._monitor is not None:
            self._monitor.require_whole()

    async def append(self, event: NewEvent) -> int:
        """Store one event and return its sequence; see the port."""
        return await self._store([event])

    async def append_all(self, events: Sequence[NewEvent]) -> int:
        """Store all or none and return the sequence of the last; see the port."""
        assert 2 <= len(events) <= BATCH_MAX, f"a batch has 2 to {BATCH_MAX} events"
        assert events[0].expected is not None, "a repeat is recognised by the first `expected`"
        return await self._store(events)

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Return the events of an aggregate's history after a sequence, in order; see the port."""
        messages: list[StoredMessage] = []

        async def attempt() -> None:
            self.require_whole()
            last = messages[-1].seq if messages else after
            messages.extend(await read_pages(self._nc, STREAM, history_subject(aggregate), last))
            last = messages[-1].seq if messages else after
            known = self._known_sequences.of(history_of(aggregate))
            if last < known and known > (await self._dropped_until(aggregate)):
                raise TemporaryError(
                    f"a replica does not have the newest events of {aggregate} yet"
                )

        await retry_request(self._nc, attempt)
        recorded = [read_stored_event(message) for message in messages]
        dropped_until = await self._dropped_until(aggregate)
        is_whole = bool(recorded) and recorded[0].envelope.type == FIRST_TYPE
        if after >= dropped_until or (is_whole and recorded[0].seq > dropped_until):
            return recorded
        # The stream may have some of them still, while it is being truncated: segments have all.
        dropped = decode_events(await self._segments.history(aggregate, dropped_until))
        return [
            *(event for event in dropped if event.seq > after),
            *(event for event in recorded if event.seq > dropped_until),
        ]

    async def history_page(
        self, aggregate: str, after: int, bytes_max: int
    ) -> tuple[list[RecordedEvent], bool]:
        """Return the next events of a history that is never cut, and whether there are more.

        It takes a short time, however long the history is: it has `PAGE` events or `bytes_max` at
        most, but one at least. Errors: as `history`, but it tries once.
        """
        assert not is_cut(aggregate), f"the stream may have dropped events of {aggregate}"
        self.require_whole()
        query = {
            "seq": after + 1,
            "batch": PAGE,
            "max_bytes": bytes_max,
            "next_by_subj": history_subject(aggregate),
        }
        messages: list[StoredMessage] = []
        has_more = await read_page(self._nc, STREAM, msgspec.json.encode(query), messages)
        last = messages[-1].seq if messages else after
        if not has_more and last < self._known_sequences.of(history_of(aggregate)):
            raise TemporaryError(f"a replica does not have the newest events of {aggregate} yet")
        return [read_stored_event(message) for message in messages], has_more

    async def _dropped_until(self, aggregate: str) -> int:
        """Return up to where the stream may lack events of a history that was just read."""
        return (await self._truncation.after_read()).seq if is_cut(aggregate) else 0

    async def newest(self, aggregates: Sequence[str]) -> dict[str, RecordedEvent]:
        """Return the last event of each of these aggregates that has any; see the port."""
        assert len(aggregates) <= NEWEST_MAX, f"at most {NEWEST_MAX} aggregates at once"
        if not aggregates:
            return {}
        query = {
            "multi_last": [subject(aggregate) for aggregate in aggregates],
            "batch": len(aggregates),
        }
        messages: list[StoredMessage] = []

        async def attempt() -> None:
            if self._monitor is not None:
                self._monitor.require_whole()
            messages.clear()
            await read_page(self._nc, STREAM, msgspec.json.encode(query), messages)

        await retry_request(self._nc, attempt)
        events = {aggregate(message.subject): read_stored_event(message) for message in messages}
        for name in aggregates:
            if name not in events and (dropped_until := await self._dropped_until(name)):
                dropped = decode_events(await self._segments.history(name, dropped_until))
                own = [event for event in dropped if event.envelope.aggregate == name]
                if own:
                    events[name] = own[-1]
        return events

    async def last(self) -> int:
        """Return the sequence of the newest event, 0 if there is none."""
        return (await retry_request(self._nc, lambda: stream_state(self._nc, STREAM))).last_seq

    def follow(self, after: int) -> Feed:
        """Follow all events after a sequence; see the port."""
        feed = NatsFeed(self._nc, after, counts=self.counts)
        self._feeds.add(feed)
        return feed

    def branch(self, after: int, *aggregates: str) -> Branch:
        """Follow these aggregates after a sequence; see the port."""
        return NatsBranch(self._nc, aggregates, after)

    async def fingerprint(self, seq: int) -> str | None:
        """Return an identifier of this log up to an event; see the port."""

        async def attempt() -> str | None:
            message = await get_message(self._nc, STREAM, {"seq": seq})
            body = await self._read_dropped_body(seq) if message is None else message.data
            if body is None:
                return None
            created_at = (await stream_info(self._nc, STREAM)).created
            return hashlib.sha256(f"{created_at} {seq} ".encode() + body).hexdigest()

        return await retry_request(self._nc, attempt)

    async def _read_dropped_body(self, seq: int) -> bytes | None:
        truncation = await self._truncation.after_read()
        if not 0 < seq <= truncation.seq:
            return None
        ((_, _, body),) = await self._segments.after(seq - 1, seq)
        return body

    async def _store(self, events: Sequence[NewEvent]) -> int:
        drafts, started_at = [_make_draft(event) for event in events], time.monotonic()
        is_checked = self._monitor is None or (
            self._monitor.is_checked and not self._monitor.damage
        )
        seq = await self._groups.store(drafts) if is_checked else None
        self.counts.grouped += seq is not None
        if seq is None:
            try:
                seq = await self._store_alone(events, drafts)
            except Conflict:
                self.counts.conflicts += 1
                raise
        self.counts.append.add(time.monotonic() - started_at)
        for place, event in enumerate(events, 1 - len(events)):
            self._known_sequences.note(history_of(event.envelope.aggregate), seq + place)
        return seq

    async def _store_alone(self, events: Sequence[NewEvent], drafts: Sequence[MessageDraft]) -> int:
        async def attempt() -> int:
            try:
                return await self._publish(drafts)
            except RequestDenied as denied:
                if denied.code not in MAY_BE_STORED or events[0].expected is None:
                    raise
                return await self._resolve_denied(events, denied)

        async def monitored_attempt() -> int:
            with self._monitor.appending() if self._monitor else nullcontext():
                return await attempt()

        with self._groups.alone(drafts):
            return await retry_request(self._nc, monitored_attempt)

    async def _publish(self, drafts: Sequence[MessageDraft]) -> int:
        """Store messages and return the last sequence. Errors: RequestDenied, TemporaryError."""
        if len(drafts) > 1:
            return await publish_batch(self._nc, drafts)
        return (await publish(self._nc, *drafts[0].message)).seq

    async def _resolve_denied(self, events: Sequence[NewEvent], denied: RequestDenied) -> int:
        """Return the last sequence if the events are already stored.

        On one server the expected sequence is checked before the message id, so repeating an append
        whose answer was lost yields "wrong last sequence". The event right after `expected`
        decides: it is ours, or a rival's. The *last* event does not, since others may follow.
        Errors: Conflict, TemporaryError.
        """
        first, others_count = events[0], len(events) - 1
        aggregate, expected = first.envelope.aggregate, first.expected or 0
        following = await self._find(
            {"seq": expected + 1, "next_by_subj": history_subject(aggregate)}
        )
        if following is None and denied.code == WRONG_LAST_SEQUENCE_IN_FLIGHT:
            raise TemporaryError("another append to the same aggregate is in progress")
        # The refusal ends in the actual last sequence: "wrong last sequence: 62".
        actual = denied.reason.rpartition(" ")[2]
        is_behind = actual.isdecimal() and int(actual) > expected
        if following is None and not others_count and is_behind:
            raise TemporaryError("a new leader does not have the newest events yet")
        if following is not None:
            self._known_sequences.note(history_of(aggregate), following.seq)
        if following is not None and following.id == first.envelope.id:
            last_seq = following.seq + others_count
            last = await self._find({"seq": last_seq}) if others_count else following
            if last is not None and last.id == events[-1].envelope.id:
                return last_seq
        raise Conflict(aggregate, expected) from denied

    async def _find(self, query: dict[str, object]) -> StoredMessage | None:
        return await get_message(self._nc, STREAM, query)


def _make_draft(event: NewEvent) -> MessageDraft:
    envelope, aggregate = event.envelope, event.envelope.aggregate
    body, history = encode_envelope(envelope), history_subject(aggregate)
    return MessageDraft(subject(aggregate), envelope.id, body, event.expected, history)


def read_stored_event(message: StoredMessage) -> RecordedEvent:
    """Decode the envelope of a stored event."""
    envelope = read_envelope(aggregate(message.subject), message.seq, message.data)
    return RecordedEvent(message.seq, envelope, message.data)


class KnownSequences:
    """The newest known sequence of each aggregate that this process wrote to recently.

    On a cluster any replica answers a read, and it may lag behind what the leader has acknowledged.
    A process that reads what it wrote itself waits until the replica has it too.
    """

    def __init__(self, aggregates_max: int = AGGREGATES_MAX) -> None:
        self._aggregates_max = aggregates_max
        self._seqs: OrderedDict[str, int] = OrderedDict()

    def note(self, aggregate: str, seq: int) -> None:
        """Record that an aggregate has an event at this sequence."""
        self._seqs[aggregate] = max(seq, self._seqs.pop(aggregate, 0))
        if len(self._seqs) > self._aggregates_max:
            self._seqs.popitem(last=False)

    def of(self, aggregate: str) -> int:
        """Return the least sequence that a complete history reaches; 0 if nothing is known."""
        return self._seqs.get(aggregate, 0)
