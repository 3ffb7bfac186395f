"""The port to the one log: append with an expected version, read a history, follow everything."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from shared.events import Fact
from shared.wire import Envelope, fact_of


class Conflict(Exception):  # noqa: N818
    """Someone else appended after `expected`: read the history and decide again."""

    def __init__(self, agg: str, expected: int) -> None:
        super().__init__(f"{agg} moved on after {expected}")
        self.agg = agg
        self.expected = expected


class Gap(Exception):  # noqa: N818
    """The log skipped a sequence, or is not the one we read before: stop and look."""


class New(NamedTuple):
    """An event to append; `expected` is the sequence of its history's last event, 0 for none.

    The history of a report is that of its run: orders and reports expect one another.
    """

    envelope: Envelope
    expected: int | None


class Recorded(NamedTuple):
    """An event in the log, at its sequence; `body` is what is kept, byte for byte."""

    seq: int
    envelope: Envelope
    body: bytes = b""

    @property
    def fact(self) -> Fact:
        """What it says, in its newest version. Errors: UnknownEvent."""
        return fact_of(self.envelope)


class Feed(Protocol):
    """All events after a sequence, in order, each once, for as long as one takes them."""

    @property
    def behind(self) -> int:
        """How many events the log still held back when the last one came; 0 is live."""
        ...

    async def take(self, most: int = 5000) -> list[Recorded]:
        """The next events, at least one, as soon as there are any. Errors: Gap."""
        ...

    async def close(self) -> None:
        """Stop following."""
        ...


class Branch(Feed, Protocol):
    """All events of some aggregates after a sequence, in order, each once."""

    @property
    def silent_s(self) -> float:
        """For how long nothing was heard from the log, not even that it lives."""
        ...


@runtime_checkable
class Branches(Protocol):
    """The log, for who needs to hear of some aggregates alone."""

    def branch(self, after: int, *aggs: str) -> Branch:
        """What these aggregates (`account.>`) say after a sequence. Gap on take as for follow."""
        ...

    async def fingerprint(self, seq: int) -> str | None:
        """What tells this log up to an event from any other; None if it has no such event.

        Of a log that was restored, or went on otherwise, it is another. Errors: Failed.
        """
        ...


class EventLog(Protocol):
    """The record of what happened."""

    async def append(self, event: New) -> int:
        """Store one event and return its sequence; safe to repeat with the same id.

        Errors: Conflict; ValueError if the event is over 256 KiB; Failed if the log could not
        be reached in 30 s, in which case the event may or may not be stored.
        """
        ...

    async def append_all(self, events: Sequence[New]) -> int:
        """Store all (2 to 1000) or none and return the sequence of the last; errors as append.

        The first event needs an `expected`: a repeat is recognised by it.
        """
        ...

    async def history(self, agg: str, after: int = 0) -> list[Recorded]:
        """The events of an aggregate's history after a sequence, in order.

        A run's orders and reports are one history. The newest that others appended may be missing
        for a moment; what was appended here is not.

        Errors: Failed if the log could not be reached in 30 s, or does not have it by then.
        """
        ...

    async def last(self) -> int:
        """The sequence of the newest event, 0 if there is none."""
        ...

    def follow(self, after: int) -> Feed:
        """Everything after a sequence. Gap on take if the log is shorter than that."""
        ...
