"""The log as a list."""

import asyncio
import hashlib
from collections.abc import Sequence

from shared.event_log import Branch, Conflict, Feed, Gap, New, Recorded
from shared.subjects import history_of
from shared.wire import decode, pack

BATCH_MAX = 1000


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
        return [one for one in self._histories.get(history_of(agg), ()) if one.seq > after]

    async def last(self) -> int:
        """The sequence of the newest event, 0 if there is none."""
        return len(self._events)

    def follow(self, after: int) -> Feed:
        """Everything after a sequence; see the port."""
        return _MemoryFeed(self, after)

    def branch(self, after: int, *aggs: str) -> Branch:
        """What these aggregates say after a sequence; see the port."""
        return _MemoryBranch(self, after, aggs)

    async def fingerprint(self, seq: int) -> str | None:
        """What tells this log up to an event from others; see the port."""
        found = self._events[seq - 1 : seq]
        return hashlib.sha256(found[0].body).hexdigest() if found else None

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
        history = self._histories.get(history_of(event.envelope.agg))
        return history[-1].seq if history else 0

    def _store(self, body: bytes) -> int:
        envelope = decode(body)
        recorded = Recorded(len(self._events) + 1, envelope, body)
        self._events.append(recorded)
        self._histories.setdefault(history_of(envelope.agg), []).append(recorded)
        self._seqs[envelope.id] = recorded.seq
        self._grown.set()
        self._grown = asyncio.Event()
        return recorded.seq

    def _settle(self, events: Sequence[New]) -> int:
        """A repeat of what is stored, told by the event right after `expected`; else Conflict."""
        agg, expected = events[0].envelope.agg, events[0].expected or 0
        history = self._histories.get(history_of(agg), ())
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


class _MemoryBranch(_MemoryFeed):
    """The events of some aggregates alone."""

    silent_s = 0.0

    def __init__(self, log: MemoryLog, after: int, aggs: Sequence[str]) -> None:
        super().__init__(log, after)
        self._aggs = [agg.removesuffix(">") for agg in aggs]

    @property
    def behind(self) -> int:
        return len(self._ours(self._log.since(self._after)))

    async def take(self, most: int = 5000) -> list[Recorded]:
        while True:
            if taken := self._ours(await super().take(most)):
                return taken

    def _ours(self, events: Sequence[Recorded]) -> list[Recorded]:
        return [
            one
            for one in events
            if any(
                one.envelope.agg.startswith(agg) if agg.endswith(".") else one.envelope.agg == agg
                for agg in self._aggs
            )
        ]
