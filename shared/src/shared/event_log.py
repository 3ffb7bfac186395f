"""The port to the log: append with an expected version, read a history, follow all events.

A decider makes facts of a command and a history. They are appended with optimistic concurrency:
each only to the history that it was decided on.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from shared import events
from shared.events import AnyFact
from shared.subjects import derive_id
from shared.wire import Envelope, EventMetadata, decode_fact, is_written_by_agent, make_envelope

Command = TypeVar("Command")
State = TypeVar("State")
Fact = TypeVar("Fact")

# Upper bounds of the buckets, in seconds; the last bucket has no bound.
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0)


@dataclass(frozen=True)
class Decider(Generic[Command, State, Fact]):
    """Two pure functions and an initial state; all other code in a service surrounds them."""

    initial: State
    decide: Callable[[Command, State], Sequence[Fact]]
    evolve: Callable[[State, Fact], State]

    def fold(self, events: Iterable[Fact]) -> State:
        """Return the state that results from a history."""
        return reduce(self.evolve, events, self.initial)


@dataclass(frozen=True)
class Append:
    """A fact to append: its aggregate, the expected version (None: any), cause and correlation.

    Without a `chosen_id`, the event's id is derived from the cause and the version.
    """

    aggregate: str
    fact: events.Fact
    expected: int | None
    cause: str
    corr: str
    chosen_id: str = ""

    @property
    def id(self) -> str:
        """The event's id; the same decision always gets the same id."""
        kind = type(self.fact).__name__
        return self.chosen_id or derive_id(
            f"{self.cause}/{self.expected}", f"{kind}/{self.aggregate}"
        )


@dataclass
class DurationHistogram:
    """A histogram of durations: how many within each bound, and their sum."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, took_s: float) -> None:
        """Add one duration."""
        self.buckets[bisect_left(BOUNDS_S, took_s)] += 1
        self.total_s += took_s


@dataclass
class LogCounts:
    """The counts of one log in one process: appends, and the feeds that follow it.

    `append` has all stored appends, a batch being one; `grouped` of them were stored together
    with those of others.
    """

    append: DurationHistogram = field(default_factory=DurationHistogram)
    grouped: int = 0
    conflicts: int = 0
    pump_restarts: int = 0
    gaps: int = 0


class Conflict(Exception):  # noqa: N818
    """Someone else appended after `expected`: read the history and decide again."""

    def __init__(self, aggregate: str, expected: int) -> None:
        super().__init__(f"{aggregate} moved on after {expected}")
        self.aggregate = aggregate
        self.expected = expected


class Gap(Exception):  # noqa: N818
    """The log skipped a sequence, or is not the log we read before: stop and investigate."""


class NewEvent(NamedTuple):
    """An event to append; `expected` is the sequence of its history's last event, 0 for none.

    A report belongs to the history of its run: orders and reports share expected sequences.
    """

    envelope: Envelope
    expected: int | None


class RecordedEvent(NamedTuple):
    """An event in the log at its sequence; `body` holds its stored bytes."""

    seq: int
    envelope: Envelope
    body: bytes = b""

    @property
    def fact(self) -> AnyFact:
        """Its fact, in the newest version. Errors: UnknownEvent."""
        return decode_fact(self.envelope)


def platform_time(events: Iterable[RecordedEvent]) -> datetime | None:
    """Return the newest time in events of the platform itself, None without any.

    The only time to measure the age of the log by: an agent may name any time in its reports.
    """
    envelopes = (event.envelope for event in events)
    return max(
        (envelope.at for envelope in envelopes if not is_written_by_agent(envelope)), default=None
    )


class Feed(Protocol):
    """All events after a sequence, in order, each once, without end."""

    @property
    def behind(self) -> int:
        """How many events the log still held back when the last one came; 0 means live."""

    async def take(self, most: int = 5000) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one. Errors: Gap."""

    async def close(self) -> None:
        """Stop following."""


class Branch(Feed, Protocol):
    """All events of some aggregates after a sequence, in order, each once."""

    @property
    def silent_s(self) -> float:
        """For how long nothing was received from the log, not even a heartbeat."""


@runtime_checkable
class BranchSource(Protocol):
    """The log, for readers that need the events of some aggregates only."""

    def branch(self, after: int, *aggregates: str) -> Branch:
        """Follow these aggregates (`account.>`) after a sequence. `take` raises Gap as `follow`."""

    async def fingerprint(self, seq: int) -> str | None:
        """Return an identifier of this log up to an event; None if it has no such event.

        A log that was restored, or continued differently, has another one. Errors: Failed.
        """


class EventSource(Protocol):
    """What can be read from its first event on: the log, or a copy of it."""

    async def last(self) -> int:
        """Return the sequence of the newest event, 0 if there is none."""

    def follow(self, after: int) -> Feed:
        """Follow all events after a sequence. `take` raises Gap if the log is shorter than that."""


class EventLog(EventSource, Protocol):
    """The record of all events."""

    async def append(self, event: NewEvent) -> int:
        """Store one event and return its sequence; safe to repeat with the same id.

        Errors: Conflict; ValueError if the event is over 256 KiB; Failed if the log could not
        be reached in 30 s, in which case the event may or may not be stored.
        """

    async def append_all(self, events: Sequence[NewEvent]) -> int:
        """Store all (2 to 1000) or none and return the sequence of the last; errors as append.

        The first event needs an `expected`: it is how a repeat is recognised.
        """

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Return the events of an aggregate's history after a sequence, in order.

        A run's orders and reports are one history. The newest events of other writers may be
        missing for a moment; those appended here are not. Errors: Failed if the log could not be
        reached in 30 s, or did not return it by then.
        """

    async def newest(self, aggregates: Sequence[str]) -> dict[str, RecordedEvent]:
        """Return the last event of each of these aggregates (at most 1000) that has any.

        A newer event of another writer may be missing for a moment. Errors: as `history`.
        """


@dataclass(frozen=True)
class Appender:
    """Appends facts in the name of one actor."""

    log: EventLog
    actor: str
    clock: Callable[[], datetime]

    async def append(self, *appends: Append) -> int:
        """Append all facts or none; return the sequence of the last.

        Of several facts of one aggregate, only the first names a version. Errors: Conflict if
        someone else appended first; Failed.
        """
        at, new_events = self.clock(), list[NewEvent]()
        for append in appends:
            stamp = EventMetadata(append.id, at, self.actor, append.corr, append.cause)
            envelope = make_envelope(append.fact, append.aggregate, stamp)
            new_events.append(NewEvent(envelope, append.expected))
        if len(new_events) == 1:
            return await self.log.append(new_events[0])
        return await self.log.append_all(new_events)
