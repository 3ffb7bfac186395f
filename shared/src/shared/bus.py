"""The ports to heartbeats, messages that are not stored, inboxes, and dead letters."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import NamedTuple, Protocol

from shared import subjects
from shared.event_log import NewEvent, RecordedEvent
from shared.events import DeadLetterRedriven
from shared.subjects import derive_id
from shared.wire import EventMetadata, make_envelope


class AgentHeartbeat(NamedTuple):
    """An agent's newest heartbeat; `value` is None when the agent is gone."""

    agent: str
    value: bytes | None


class Delivery(Protocol):
    """An event handed to a reader, which acknowledges it after storing its effect."""

    @property
    def recorded(self) -> RecordedEvent:
        """The event."""

    @property
    def attempt(self) -> int:
        """How often it was delivered so far: 1 to 5; after that it is a dead letter."""

    async def ack(self) -> None:
        """Acknowledge it: its effect is stored."""

    async def retry(self, delay_s: float) -> None:
        """Ask for another delivery after a delay."""

    async def give_up(self, reason: str) -> None:
        """Turn it into a dead letter, which an operator may redrive."""


class Inbox(Protocol):
    """A durable subscription: an agent's runs with its own events, or the events of an outbox."""

    async def next(self, within_s: float) -> Delivery | None:
        """Return the next event, or None if none came in that time, for example in an outage.

        A delivered event does not come again while its process lives, unless it is put back.
        Unreadable events are not delivered: they become dead letters.
        """

    async def close(self) -> None:
        """Stop reading; the position is kept."""


class Bus(Protocol):
    """Heartbeats, messages that are not stored, and agents' inboxes."""

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        """Announce that an agent lives, for `ttl_s` seconds from now (at least 1).

        Errors: Failed if that did not succeed in that time.
        """

    async def leave(self, agent: str) -> None:
        """Announce that an agent leaves now."""

    def beats(self) -> AsyncIterator[AgentHeartbeat]:
        """Yield every agent alive, then each change; after a reconnect all of them again."""

    async def tell(self, topic: str, data: bytes) -> None:
        """Publish to the current listeners; at most 64 KiB, may be lost."""

    def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield (topic, data) for messages on a topic, which may end in `>`."""

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """Open the inbox of an agent's runs, which continues where it stopped.

        A bus that restarted has forgotten the position: then it begins after this sequence.
        """


class DurableConsumers(Protocol):
    """Durable subscriptions to future events, for outboxes."""

    async def news(self, consumer: str, *aggregates: str) -> Inbox:
        """Subscribe to future events of aggregates (`ranking.>`); a known name continues.

        A new name has no history: an outbox never acts on events it did not see.
        """

    async def forget(self, consumer: str) -> None:
        """Delete the position of this name, so that it starts again; safe to repeat."""


TOO_MANY_DELIVERIES = "it was delivered too often"


class DeadLetter(NamedTuple):
    """An event, by its sequence, that a consumer gave up.

    `place` is the sequence of the delivered message: the event's own, or that of its last redrive.
    """

    consumer: str
    stream: str
    seq: int
    reason: str
    at: datetime
    deliveries: int
    place: int


class DeadLetters(Protocol):
    """The events that consumers of the log gave up."""

    async def list(self) -> list[DeadLetter]:
        """Return the dead letters not redriven since, oldest first; of 90 days at most."""


def redrive_event(letter: DeadLetter, reason: str, actor: str, at: datetime) -> NewEvent:
    """Return the event that redrives a dead letter: its consumer is handed the event again.

    The same letter always gives the same id, so that it is redriven once.
    """
    fact = DeadLetterRedriven(consumer=letter.consumer, seq=letter.seq, reason=reason)
    cause = f"{letter.consumer}/{letter.place}"
    stamp = EventMetadata(derive_id(cause, "DeadLetterRedriven"), at, actor, letter.consumer, cause)
    return NewEvent(make_envelope(fact, subjects.redriven(letter.consumer), stamp), None)


def open_dead_letters(
    letters: Iterable[DeadLetter], redrives: Iterable[RecordedEvent]
) -> list[DeadLetter]:
    """Return the newest letter of each event that was not redriven since, oldest first.

    A redrive may be given up too: its letter then stands for the event it redrove.
    """
    redriven_events: dict[int, tuple[str, int]] = {}
    newest: dict[tuple[str, int], int] = {}
    for redrive in redrives:
        fact = redrive.fact
        assert isinstance(fact, DeadLetterRedriven), "redrives lie alone on their aggregate"
        redriven_events[redrive.seq] = event = (fact.consumer, fact.seq)
        newest[event] = max(newest.get(event, 0), redrive.seq)
    open_letters: dict[tuple[str, int], DeadLetter] = {}
    for letter in letters:
        event = redriven_events.get(letter.place, (letter.consumer, letter.place))
        if newest.get(event, 0) <= letter.place:
            open_letters.pop(event, None)
            open_letters[event] = letter._replace(seq=event[1])
    return list(open_letters.values())
