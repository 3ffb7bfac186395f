"""The three ports as dicts: for tests of services, with the promises the real ones keep."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from shared import subjects
from shared.blobs import BLOB_BYTES_MAX, Missing
from shared.bus import Beat, Delivery, Inbox
from shared.event_log import Conflict, Feed, Gap, New, Recorded
from shared.events import Blob
from shared.wire import decode, pack

BATCH_MAX = 1000
POLL_S = 0.02
TELL_BYTES_MAX = 64 * 1024


class MemoryLog:
    """The log as a list; the expected sequence is checked before the id, as one server does."""

    def __init__(self) -> None:
        self._events: list[Recorded] = []
        self._histories: dict[str, list[Recorded]] = {}
        self._seqs: dict[str, int] = {}
        self._grown = asyncio.Event()

    async def append(self, event: New) -> int:
        """Store one event and return its sequence; see the port."""
        body = pack(event.envelope)
        if event.expected is not None and event.expected != self._version(event):
            return self._settle([event])
        known = self._seqs.get(event.envelope.id)
        return self._store(body) if known is None else known

    async def append_all(self, events: Sequence[New]) -> int:
        """Store all or none and return the sequence of the last; see the port."""
        assert 2 <= len(events) <= BATCH_MAX, f"a batch has 2 to {BATCH_MAX} events"
        assert events[0].expected is not None, "a repeat is recognised by what the first expects"
        bodies = [pack(event.envelope) for event in events]
        ids = [event.envelope.id for event in events]
        moved_on = any(e.expected is not None and e.expected != self._version(e) for e in events)
        if moved_on or len(set(ids)) < len(ids) or any(one in self._seqs for one in ids):
            return self._settle(events)
        return [self._store(body) for body in bodies][-1]

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """The events of one aggregate after a sequence, in order."""
        return [one for one in self._histories.get(agg, ()) if one.seq > after]

    async def last(self) -> int:
        """The sequence of the newest event, 0 if there is none."""
        return len(self._events)

    def follow(self, after: int) -> Feed:
        """Everything after a sequence; see the port."""
        return _MemoryFeed(self, after)

    def since(self, after: int) -> Sequence[Recorded]:
        """What is here after a sequence, now."""
        return self._events[after:]

    async def grow(self, within_s: float | None = None) -> None:
        """Wait for the next event, for so long."""
        try:
            async with asyncio.timeout(within_s):
                await self._grown.wait()
        except TimeoutError:
            return

    def _version(self, event: New) -> int:
        history = self._histories.get(event.envelope.agg)
        return history[-1].seq if history else 0

    def _store(self, body: bytes) -> int:
        envelope = decode(body)
        recorded = Recorded(len(self._events) + 1, envelope, body)
        self._events.append(recorded)
        self._histories.setdefault(envelope.agg, []).append(recorded)
        self._seqs[envelope.id] = recorded.seq
        self._grown.set()
        self._grown = asyncio.Event()
        return recorded.seq

    def _settle(self, events: Sequence[New]) -> int:
        """A repeat of what is stored, told by the event right after `expected`; else Conflict."""
        agg, expected = events[0].envelope.agg, events[0].expected or 0
        history = self._histories.get(agg, ())
        first = next((stored.seq for stored in history if stored.seq > expected), 0)
        stored = self._events[first - 1 : first - 1 + len(events)] if first else []
        if [one.envelope.id for one in stored] != [event.envelope.id for event in events]:
            raise Conflict(agg, expected)
        return stored[-1].seq


class _MemoryFeed:
    def __init__(self, log: MemoryLog, after: int) -> None:
        self._log = log
        self._after = after

    @property
    def behind(self) -> int:
        return len(self._log.since(self._after))

    async def take(self, most: int = 5000) -> list[Recorded]:
        last = await self._log.last()
        if last < self._after:
            raise Gap(f"the log ends at {last}, but {self._after} was read before")
        while not self.behind:
            await self._log.grow()
        taken = list(self._log.since(self._after)[:most])
        self._after = taken[-1].seq
        return taken

    async def close(self) -> None:
        """Nothing is held."""


class MemoryBlobs:
    """Bytes by digest, in a dict."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes; see the port."""
        if len(data) > BLOB_BYTES_MAX:
            raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
        digest = hashlib.sha256(data).hexdigest()
        self._kept[digest] = data
        return Blob(digest=digest, bytes=len(data), media=media)

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest; see the port."""
        data = self._kept.get(digest)
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise Missing(digest)
        return data


class _MemoryInbox:
    """An agent's events, each in hand from `next` until it is acknowledged or put back."""

    def __init__(self, log: MemoryLog, agent: str) -> None:
        self._log = log
        self._prefix = f"{subjects.runs(agent)}."
        self._seen = 0
        self._due: dict[int, tuple[float, Recorded]] = {}

    async def next(self, within_s: float) -> Delivery | None:
        until = time.monotonic() + within_s
        while True:
            now = time.monotonic()
            self._look(now)
            ready = [seq for seq, (due, _) in self._due.items() if due <= now]
            if ready:
                return _MemoryDelivery(self, self._due.pop(min(ready))[1])
            if now >= until:
                return None
            await self._log.grow(min(until - now, POLL_S))

    async def close(self) -> None:
        """The place is kept: the bus keeps the inbox."""

    def put_back(self, recorded: Recorded, delay_s: float) -> None:
        self._due[recorded.seq] = time.monotonic() + delay_s, recorded

    def _look(self, now: float) -> None:
        for recorded in self._log.since(self._seen):
            self._seen = recorded.seq
            if recorded.envelope.agg.startswith(self._prefix):
                self._due[recorded.seq] = now, recorded


class _MemoryDelivery(NamedTuple):
    inbox: _MemoryInbox
    recorded: Recorded

    async def ack(self) -> None:
        """It was forgotten when it was handed over."""

    async def retry(self, delay_s: float) -> None:
        self.inbox.put_back(self.recorded, delay_s)


class MemoryBus:
    """Heartbeats with timers, words by queue, and the inboxes of the agents in a log."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = MemoryLog() if log is None else log
        self._alive: dict[str, bytes] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watchers: list[asyncio.Queue[Beat]] = []
        self._hearers: list[tuple[str, asyncio.Queue[tuple[str, bytes]]]] = []
        self._inboxes: dict[str, _MemoryInbox] = {}

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        """Say that an agent lives; see the port."""
        assert ttl_s >= 1, "the server counts in seconds, from one on"
        subjects.agent(agent)
        self._forget(agent)
        self._alive[agent] = value
        self._timers[agent] = asyncio.get_running_loop().call_later(ttl_s, self._gone, agent)
        self._say(Beat(agent, value))

    async def leave(self, agent: str) -> None:
        """Say that an agent goes, now; see the port."""
        if agent in self._alive:
            self._gone(agent)

    async def beats(self) -> AsyncIterator[Beat]:
        """First every agent alive, then each change; see the port."""
        queue: asyncio.Queue[Beat] = asyncio.Queue()
        for agent, value in self._alive.items():
            queue.put_nowait(Beat(agent, value))
        self._watchers.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._watchers.remove(queue)

    async def tell(self, topic: str, data: bytes) -> None:
        """Say something to whoever listens now; see the port."""
        if len(data) > TELL_BYTES_MAX:
            raise ValueError(f"{len(data)} bytes on {topic} are over {TELL_BYTES_MAX}")
        for wanted, queue in self._hearers:
            if topic == wanted or (wanted.endswith(">") and topic.startswith(wanted[:-1])):
                queue.put_nowait((topic, data))

    async def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """What is told on a topic from the first step on."""
        queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._hearers.append((topic, queue))
        try:
            while True:
                yield await queue.get()
        finally:
            self._hearers.remove((topic, queue))

    async def inbox(self, agent: str) -> Inbox:
        """The durable inbox of an agent's runs; see the port."""
        if agent not in self._inboxes:
            self._inboxes[agent] = _MemoryInbox(self._log, agent)
        return self._inboxes[agent]

    def _say(self, beat: Beat) -> None:
        for queue in self._watchers:
            queue.put_nowait(beat)

    def _forget(self, agent: str) -> None:
        self._alive.pop(agent, None)
        if agent in self._timers:
            self._timers.pop(agent).cancel()

    def _gone(self, agent: str) -> None:
        self._forget(agent)
        self._say(Beat(agent, None))
