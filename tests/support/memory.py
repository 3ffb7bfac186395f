"""The ports in memory: log, bus, blobs, dead letters, outbox and snapshots.

Their methods do what the ports say: they pass the contract suite of the real adapters.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.blobs import BLOB_BYTES_MAX, BLOB_REFRESH_AFTER_S, BlobNotFound, StoredBlob
from shared.bus import (
    TOO_MANY_DELIVERIES,
    AgentHeartbeat,
    DeadLetter,
    Delivery,
    Inbox,
    open_dead_letters,
)
from shared.clock import now
from shared.event_log import Branch, Conflict, Feed, Gap, NewEvent, RecordedEvent
from shared.events import Blob, DeadLetterRedriven
from shared.subjects import history_of
from shared.wire import UnknownEvent, decode, encode_envelope

BATCH_MAX = NEWEST_MAX = 1000


class MemoryLog:
    """The log as a list; the expected sequence is checked before the id, as a server does."""

    def __init__(self) -> None:
        self._events: list[RecordedEvent] = []
        self._histories: dict[str, list[RecordedEvent]] = {}
        self._seqs: dict[str, int] = {}
        self._grown = asyncio.Event()

    async def append(self, event: NewEvent) -> int:
        body = encode_envelope(event.envelope)
        if event.expected is not None and event.expected != self._version(event):
            return self._resolve_repeat([event])
        known = self._seqs.get(event.envelope.id)
        return self._store(body) if known is None else known

    async def append_all(self, events: Sequence[NewEvent]) -> int:
        assert 2 <= len(events) <= BATCH_MAX, f"a batch has 2 to {BATCH_MAX} events"
        assert events[0].expected is not None, "a repeat is recognised by the first `expected`"
        bodies = [encode_envelope(event.envelope) for event in events]
        ids = [event.envelope.id for event in events]
        has_conflict = any(
            event.expected is not None and event.expected != self._version(event)
            for event in events
        )
        if has_conflict or len(set(ids)) < len(ids) or any(id_ in self._seqs for id_ in ids):
            return self._resolve_repeat(events)
        return [self._store(body) for body in bodies][-1]

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Return the events of an aggregate's history after a sequence, in order."""
        history = self._histories.get(history_of(aggregate), ())
        return [recorded for recorded in history if recorded.seq > after]

    async def newest(self, aggregates: Sequence[str]) -> dict[str, RecordedEvent]:
        """Return the last event of each of these aggregates that has any."""
        assert len(aggregates) <= NEWEST_MAX, f"at most {NEWEST_MAX} aggregates at once"
        histories = {aggregate: self._histories.get(aggregate) for aggregate in aggregates}
        return {aggregate: history[-1] for aggregate, history in histories.items() if history}

    async def last(self) -> int:
        """Return the sequence of the newest event, 0 if there is none."""
        return len(self._events)

    def follow(self, after: int) -> Feed:
        return _MemoryFeed(self, after)

    def branch(self, after: int, *aggregates: str) -> Branch:
        return _MemoryBranch(self, after, aggregates)

    async def fingerprint(self, seq: int) -> str | None:
        events = self._events[seq - 1 : seq]
        return hashlib.sha256(events[0].body).hexdigest() if events else None

    def since(self, after: int) -> Sequence[RecordedEvent]:
        """Return the current events after a sequence."""
        return self._events[after:]

    async def grow(self, within_s: float | None = None) -> None:
        """Wait for the next event, up to a limit."""
        try:
            async with asyncio.timeout(within_s):
                await self._grown.wait()
        except TimeoutError:
            return

    def _version(self, event: NewEvent) -> int:
        history = self._histories.get(history_of(event.envelope.aggregate))
        return history[-1].seq if history else 0

    def _store(self, body: bytes) -> int:
        envelope = decode(body)
        recorded = RecordedEvent(len(self._events) + 1, envelope, body)
        self._events.append(recorded)
        self._histories.setdefault(history_of(envelope.aggregate), []).append(recorded)
        self._seqs[envelope.id] = recorded.seq
        self._grown.set()
        self._grown = asyncio.Event()
        return recorded.seq

    def _resolve_repeat(self, events: Sequence[NewEvent]) -> int:
        """Return the last sequence if the events are stored after `expected`; else Conflict."""
        aggregate, expected = events[0].envelope.aggregate, events[0].expected or 0
        history = self._histories.get(history_of(aggregate), ())
        first = next((stored.seq for stored in history if stored.seq > expected), 0)
        stored = self._events[first - 1 : first - 1 + len(events)] if first else []
        stored_ids = [recorded.envelope.id for recorded in stored]
        if stored_ids != [event.envelope.id for event in events]:
            raise Conflict(aggregate, expected)
        return stored[-1].seq


class _MemoryFeed:
    def __init__(self, log: MemoryLog, after: int) -> None:
        self._log = log
        self._after = after

    @property
    def behind(self) -> int:
        return len(self._log.since(self._after))

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        last = await self._log.last()
        if last < self._after:
            raise Gap(f"the log ends at {last}, but {self._after} was read before")
        while not self.behind:
            await self._log.grow()
        taken = list(self._log.since(self._after)[:most])
        self._after = taken[-1].seq
        return taken

    async def close(self) -> None:
        """Do nothing: it holds no resources."""


class _MemoryBranch(_MemoryFeed):
    """The events of some aggregates only."""

    silent_s = 0.0

    def __init__(self, log: MemoryLog, after: int, aggregates: Sequence[str]) -> None:
        super().__init__(log, after)
        self._aggs = [aggregate.removesuffix(">") for aggregate in aggregates]

    @property
    def behind(self) -> int:
        return len(self._matching(self._log.since(self._after)))

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        while True:
            if taken := self._matching(await super().take(most)):
                return taken

    def _matching(self, events: Sequence[RecordedEvent]) -> list[RecordedEvent]:
        return [
            event
            for event in events
            if any(
                event.envelope.aggregate.startswith(aggregate)
                if aggregate.endswith(".")
                else event.envelope.aggregate == aggregate
                for aggregate in self._aggs
            )
        ]


POLL_S = 0.02
DELIVERIES_MAX = 5
TELL_BYTES_MAX = 64 * 1024


class _Pending(NamedTuple):
    at: float
    attempt: int
    place: int
    recorded: RecordedEvent


class MemoryInbox:
    """A durable subscription to a log in memory.

    An event is in progress from `next` until it is acknowledged, put back or given up.
    """

    def __init__(
        self, log: MemoryLog, consumer: str, aggregates: Sequence[str], after: int = 0
    ) -> None:
        self._log = log
        self._consumer = consumer
        self._aggs = (*aggregates, subjects.redriven(consumer))
        self._last_seq = after
        self._pending: dict[int, _Pending] = {}
        self.letters: list[DeadLetter] = []

    async def next(self, within_s: float) -> Delivery | None:
        deadline_at = time.monotonic() + within_s
        while True:
            now_s = time.monotonic()
            self._collect_events(now_s)
            ready = [place for place, pending in self._pending.items() if pending.at <= now_s]
            if ready:
                delivery = self._deliver(self._pending.pop(min(ready)))
                if delivery is None:
                    continue
                return delivery
            if now_s >= deadline_at:
                return None
            await self._log.grow(min(deadline_at - now_s, POLL_S))

    async def close(self) -> None:
        """Keep the position: the bus keeps the inbox."""

    def put_back(self, delivery: "MemoryDelivery", delay_s: float) -> None:
        """Deliver an event again after a delay, unless that was done too often."""
        pending = delivery.pending
        if pending.attempt >= DELIVERIES_MAX:
            self.give_up(pending, TOO_MANY_DELIVERIES)
            return
        at = time.monotonic() + delay_s
        self._pending[pending.place] = pending._replace(at=at, attempt=pending.attempt + 1)

    def give_up(self, pending: _Pending, reason: str) -> None:
        """Record a dead letter."""
        one_line_reason = " ".join(reason.split())
        letter = DeadLetter(
            self._consumer,
            subjects.STREAM,
            pending.place,
            one_line_reason,
            now(),
            pending.attempt,
            pending.place,
        )
        self.letters.append(letter)

    def _deliver(self, pending: _Pending) -> "MemoryDelivery | None":
        try:
            fact = pending.recorded.fact
            if isinstance(fact, DeadLetterRedriven):
                older = self._log.since(fact.seq - 1)[0]
                pending = pending._replace(recorded=older)
                _ = older.fact
        except (msgspec.MsgspecError, UnknownEvent) as error:
            self.give_up(pending, f"event {pending.recorded.seq} cannot be read: {error}")
            return None
        return MemoryDelivery(self, pending)

    def _collect_events(self, now_s: float) -> None:
        for recorded in self._log.since(self._last_seq):
            self._last_seq = recorded.seq
            if any(_matches(recorded.envelope.aggregate, aggregate) for aggregate in self._aggs):
                self._pending[recorded.seq] = _Pending(now_s, 1, recorded.seq, recorded)


class MemoryDelivery(NamedTuple):
    """An event in progress."""

    inbox: MemoryInbox
    pending: _Pending

    @property
    def recorded(self) -> RecordedEvent:
        """The event."""
        return self.pending.recorded

    @property
    def attempt(self) -> int:
        """How often it was delivered so far."""
        return self.pending.attempt

    async def ack(self) -> None:
        """Do nothing: it was removed when it was delivered."""

    async def retry(self, delay_s: float) -> None:
        """Deliver it again after a delay."""
        self.inbox.put_back(self, delay_s)

    async def give_up(self, reason: str) -> None:
        """Turn it into a dead letter."""
        self.inbox.give_up(self.pending, reason)


def _matches(aggregate: str, pattern: str) -> bool:
    return aggregate.startswith(pattern[:-1]) if pattern.endswith(".>") else aggregate == pattern


class MemoryBus:
    """Heartbeats with timers, messages in queues, and the agents' inboxes of a log."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = MemoryLog() if log is None else log
        self._alive: dict[str, bytes] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watchers: list[asyncio.Queue[AgentHeartbeat]] = []
        self._listeners: list[tuple[str, asyncio.Queue[tuple[str, bytes]]]] = []
        self._inboxes: dict[str, MemoryInbox] = {}

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        assert ttl_s >= 1, "the server counts in whole seconds"
        subjects.agent(agent)
        self._forget(agent)
        self._alive[agent] = value
        self._timers[agent] = asyncio.get_running_loop().call_later(ttl_s, self._expire, agent)
        self._notify_watchers(AgentHeartbeat(agent, value))

    async def leave(self, agent: str) -> None:
        if agent in self._alive:
            self._expire(agent)

    async def beats(self) -> AsyncIterator[AgentHeartbeat]:
        queue: asyncio.Queue[AgentHeartbeat] = asyncio.Queue()
        for agent, value in self._alive.items():
            queue.put_nowait(AgentHeartbeat(agent, value))
        self._watchers.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.remove(queue)

    async def tell(self, topic: str, data: bytes) -> None:
        if len(data) > TELL_BYTES_MAX:
            raise ValueError(f"{len(data)} bytes on {topic} are over {TELL_BYTES_MAX}")
        for pattern, queue in self._listeners:
            if topic == pattern or (pattern.endswith(">") and topic.startswith(pattern[:-1])):
                queue.put_nowait((topic, data))

    async def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield messages on a topic, from the first iteration on."""
        queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._listeners.append((topic, queue))
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove((topic, queue))

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        aggregates = [f"{subjects.runs(agent)}.>", subjects.stop(agent)]
        return self._open_inbox(subjects.agent_inbox(agent), aggregates, after)

    async def news(self, consumer: str, *aggregates: str) -> Inbox:
        return self._open_inbox(consumer, aggregates, await self._log.last())

    async def forget(self, consumer: str) -> None:
        self._inboxes.pop(consumer, None)

    def letters(self) -> list[DeadLetter]:
        """Return the dead letters of its inboxes, oldest first."""
        letters = [letter for inbox in self._inboxes.values() for letter in inbox.letters]
        return sorted(letters, key=lambda letter: letter.at)

    def _open_inbox(self, consumer: str, aggregates: Sequence[str], after: int) -> MemoryInbox:
        if consumer not in self._inboxes:
            self._inboxes[consumer] = MemoryInbox(self._log, consumer, aggregates, after)
        return self._inboxes[consumer]

    def _notify_watchers(self, beat: AgentHeartbeat) -> None:
        for queue in self._watchers:
            queue.put_nowait(beat)

    def _forget(self, agent: str) -> None:
        self._alive.pop(agent, None)
        if agent in self._timers:
            self._timers.pop(agent).cancel()

    def _expire(self, agent: str) -> None:
        self._forget(agent)
        self._notify_watchers(AgentHeartbeat(agent, None))


class _Entry(NamedTuple):
    data: bytes
    at: datetime
    version: int


class MemoryBlobStore:
    """Blobs in a dict; `clock` determines their age."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._version = 0
        self._kept: dict[str, _Entry] = {}

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        if len(data) > BLOB_BYTES_MAX:
            raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
        digest = hashlib.sha256(data).hexdigest()
        entry, at = self._kept.get(digest), self._clock()
        if entry is None or (at - entry.at).total_seconds() > BLOB_REFRESH_AFTER_S:
            self._version += 1
            self._kept[digest] = _Entry(data, at, self._version)
        return Blob(digest=digest, bytes=len(data), media=media)

    async def get(self, digest: str) -> bytes:
        entry = self._kept.get(digest)
        if entry is None or hashlib.sha256(entry.data).hexdigest() != digest:
            raise BlobNotFound(digest)
        return entry.data

    async def kept(self) -> AsyncIterator[StoredBlob]:
        for digest, entry in list(self._kept.items()):
            yield StoredBlob(digest, len(entry.data), entry.at, str(entry.version))

    async def remove(self, kept: StoredBlob) -> bool:
        entry = self._kept.get(kept.digest)
        if entry is None or str(entry.version) != kept.place:
            return False
        del self._kept[kept.digest]
        return True

    def damage(self, digest: str, data: bytes) -> None:
        """Replace the bytes under a digest, as a broken disk would."""
        self._kept[digest] = self._kept[digest]._replace(data=data)


class MemoryDeadLetters:
    """The dead letters of one bus, without those its log says were redriven."""

    def __init__(self, log: MemoryLog, bus: MemoryBus) -> None:
        self._log = log
        self._bus = bus

    async def list(self) -> list[DeadLetter]:
        letters, redrives = self._bus.letters(), []
        for consumer in sorted({letter.consumer for letter in letters}):
            redrives += await self._log.history(subjects.redriven(consumer))
        return open_dead_letters(letters, redrives)


class MemoryOutbox:
    """Which event caused which effect; implements shared.outbox.Outbox."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], bool] = {}

    async def begin(self, event: str, target: str) -> bool:
        return not self.rows.setdefault((event, target), False)

    async def mark(self, event: str, target: str) -> None:
        self.rows[event, target] = True

    async def pending(self) -> int:
        """Count effects that began and are not done."""
        return sum(not is_done for is_done in self.rows.values())


class MemorySnapshots:
    """The newest bytes by name, in a dict."""

    def __init__(self) -> None:
        self._snapshots: dict[str, bytes] = {}

    async def load(self, name: str) -> bytes | None:
        return self._snapshots.get(name)

    async def save(self, name: str, data: bytes) -> None:
        self._snapshots[name] = data
