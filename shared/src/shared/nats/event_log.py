"""The log on JetStream: appends that survive lost answers, and histories."""

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakSet

from nats.aio.client import Client

from shared.event_log import Branch, Conflict, Feed, New, Recorded
from shared.nats.batch import BATCH_MAX, Draft, publish_batch
from shared.nats.branch import NatsBranch
from shared.nats.counts import Counts
from shared.nats.feed import NatsFeed
from shared.nats.groups import Groups
from shared.nats.monitor import LogMonitor
from shared.nats.pages import pages
from shared.nats.reached import Reached
from shared.nats.requests import (
    STORE_FAILED,
    WRONG_LAST_SEQUENCE,
    WRONG_LAST_SEQUENCE_IN_FLIGHT,
    Denied,
    Passing,
    Stored,
    find,
    patiently,
    publish_checked,
)
from shared.nats.streams import created, state
from shared.subjects import STREAM, aggregate, history_of, history_subject, subject
from shared.wire import pack, read

DUPLICATE_IN_BATCH = 10201
LOOK = frozenset({WRONG_LAST_SEQUENCE, WRONG_LAST_SEQUENCE_IN_FLIGHT, DUPLICATE_IN_BATCH})
# What stands between an event's id and what keeps its message's id from being guessed.
SALTED = "~"


class _Taken(Passing):
    """Another event has the id that this one was to be stored under."""


class NatsLog:
    """The one log, in the stream EVENTS.

    With a monitor, nobody appends to a damaged log or reads a history of it: Failed says why.
    """

    def __init__(self, nc: Client, monitor: LogMonitor | None = None) -> None:
        self._nc = nc
        self._monitor = monitor
        self._groups = Groups(nc)
        self._reached = Reached()
        self._feeds: WeakSet[NatsFeed] = WeakSet()
        self.counts = Counts()

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made anew."""
        return self._nc.stats["reconnects"]

    @property
    def silent_s(self) -> float:
        """The longest silence of the server among all who follow the log here."""
        return max((feed.silent_s for feed in self._feeds), default=0.0)

    async def append(self, event: New) -> int:
        """Store one event and return its sequence; see the port."""
        return await self._store([event])

    async def append_all(self, events: Sequence[New]) -> int:
        """Store all or none and return the sequence of the last; see the port."""
        assert 2 <= len(events) <= BATCH_MAX, f"a batch has 2 to {BATCH_MAX} events"
        assert events[0].expected is not None, "a repeat is recognised by what the first expects"
        return await self._store(events)

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """The events of one aggregate after a sequence, in order; see the port."""
        found: list[Stored] = []

        async def attempt() -> None:
            self._require_whole()
            last = found[-1].seq if found else after
            found.extend(await pages(self._nc, STREAM, history_subject(agg), last))
            if (found[-1].seq if found else after) < self._reached.of(history_of(agg)):
                raise Passing(f"a replica does not have yet what {agg} was told")

        await patiently(self._nc, attempt)
        return [
            Recorded(one.seq, read(aggregate(one.subject), one.seq, one.data), one.data)
            for one in found
        ]

    async def last(self) -> int:
        """The sequence of the newest event, 0 if there is none."""
        return (await patiently(self._nc, lambda: state(self._nc, STREAM))).last_seq

    def follow(self, after: int) -> Feed:
        """Everything after a sequence; see the port."""
        feed = NatsFeed(self._nc, after, counts=self.counts)
        self._feeds.add(feed)
        return feed

    def branch(self, after: int, *aggs: str) -> Branch:
        """What these aggregates say after a sequence; see the port."""
        return NatsBranch(self._nc, aggs, after)

    async def fingerprint(self, seq: int) -> str | None:
        """What tells this log up to an event from others; see the port."""

        async def attempt() -> str | None:
            found = await find(self._nc, STREAM, {"seq": seq})
            if found is None:
                return None
            made = await created(self._nc, STREAM)
            return hashlib.sha256(f"{made} {seq} ".encode() + found.data).hexdigest()

        return await patiently(self._nc, attempt)

    async def _store(self, events: Sequence[New]) -> int:
        drafts, began = [_draft(event) for event in events], time.monotonic()
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
        self.counts.append.add(time.monotonic() - began)
        for place, event in enumerate(events, 1 - len(events)):
            self._reached.note(history_of(event.envelope.agg), seq + place)
        return seq

    async def _store_alone(self, events: Sequence[New], drafts: Sequence[Draft]) -> int:
        sending = drafts

        async def attempt() -> int:
            nonlocal sending
            try:
                return await self._publish(sending, events[0].envelope.agg)
            except Denied as denied:
                if denied.code not in LOOK or events[0].expected is None:
                    raise
                try:
                    return await self._settle(events, denied)
                except Conflict as conflict:
                    if denied.code != DUPLICATE_IN_BATCH or await self._is_any_stored(events):
                        raise
                    sending = [_salted(draft) for draft in drafts]
                    raise Passing("another event has the id of one of a batch") from conflict
            except _Taken:
                sending = [_salted(draft) for draft in drafts]
                raise

        with self._groups.alone(drafts):
            return await patiently(self._nc, self._noted(attempt))

    def _noted(self, attempt: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[int]]:
        """An append that has the monitor know whether the server stores anything."""
        monitor = self._monitor
        if monitor is None:
            return attempt

        async def noted() -> int:
            monitor.require_whole()
            try:
                seq = await attempt()
            except TimeoutError:
                monitor.note_failure("an append is not answered", is_final=False)
                raise
            except Passing as passing:
                monitor.note_failure(str(passing), is_final=passing.code == STORE_FAILED)
                raise
            monitor.note_stored()
            return seq

        return noted

    def _require_whole(self) -> None:
        if self._monitor is not None:
            self._monitor.require_whole()

    async def _publish(self, drafts: Sequence[Draft], agg: str) -> int:
        """The sequence of the last of these messages. Errors: Denied, Passing, _Taken among them.

        An agent writes under which id it likes, and may guess that of an event to come: what the
        server then takes for a repeat was never stored.
        """
        if len(drafts) > 1:
            return await publish_batch(self._nc, drafts)
        ack = await publish_checked(self._nc, *drafts[0].message)
        if ack.is_duplicate:
            found = await self._next(agg, ack.seq - 1)
            if found is None or found.seq != ack.seq:
                raise _Taken(f"event {ack.seq} has the id of an event of {agg}")
        return ack.seq

    async def _settle(self, events: Sequence[New], denied: Denied) -> int:
        """Tell the repeat of what was stored from what another stored. Errors: Conflict, Passing.

        On one server the expected sequence is checked before the message id, so the repeat of an
        append whose answer was lost is told "wrong last sequence". The event right after
        `expected` settles it: ours, or a rival's. The *last* event does not: others may follow.
        """
        first, others = events[0], len(events) - 1
        agg, expected = first.envelope.agg, first.expected or 0
        found = await self._next(agg, expected)
        if found is None and denied.code == WRONG_LAST_SEQUENCE_IN_FLIGHT:
            raise Passing("an append to the same aggregate is not decided yet")
        if found is None and not others and _seen_last(denied) > expected:
            raise Passing("a new leader does not have yet what the old one saw")
        if found is not None:
            self._reached.note(history_of(agg), found.seq)
        if found is None or not _has_id(found, first):
            raise Conflict(agg, expected) from denied
        if others:
            last = await self._find({"seq": found.seq + others})
            if last is None or not _has_id(last, events[-1]):
                raise Conflict(agg, expected) from denied
        return found.seq + others

    async def _is_any_stored(self, events: Sequence[New]) -> bool:
        """Whether an event of a batch lies in its own history: then another batch had it."""
        for event in events:
            history = history_subject(event.envelope.agg)
            last = await self._find({"last_by_subj": history})
            if last is not None and event.expected is not None and last.seq > event.expected:
                last = await self._next(event.envelope.agg, event.expected)
            if last is not None and _has_id(last, event):
                return True
        return False

    async def _next(self, agg: str, after: int) -> Stored | None:
        """The event of an aggregate's history that follows a sequence. Errors: Denied, Passing."""
        return await self._find({"seq": after + 1, "next_by_subj": history_subject(agg)})

    async def _find(self, which: dict[str, object]) -> Stored | None:
        return await find(self._nc, STREAM, which)


def _seen_last(denied: Denied) -> int:
    """The sequence that a server says to have found instead of the expected one; 0 if it doesn't.

    >>> _seen_last(Denied(WRONG_LAST_SEQUENCE, "wrong last sequence: 62"))
    62
    """
    last = denied.reason.rpartition(" ")[2]
    return int(last) if last.isdecimal() else 0


def _salted(draft: Draft) -> Draft:
    """The same message under an id that nobody can guess."""
    return draft._replace(id=f"{draft.id}{SALTED}{secrets.token_hex(8)}")


def _has_id(stored: Stored, event: New) -> bool:
    return stored.id.partition(SALTED)[0] == event.envelope.id


def _draft(event: New) -> Draft:
    envelope = event.envelope
    agg = envelope.agg
    history = history_subject(agg)
    return Draft(subject(agg), envelope.id, pack(envelope), event.expected, history)
