"""The port to what is said and not kept: heartbeats, progress; and to an agent's inbox."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from shared.event_log import Recorded


class Beat(NamedTuple):
    """An agent's newest heartbeat; `value` is None when it is gone."""

    agent: str
    value: bytes | None


class Delivery(Protocol):
    """An event handed to a reader, to be acknowledged when its effect is kept."""

    @property
    def recorded(self) -> Recorded:
        """The event."""
        ...

    @property
    def attempt(self) -> int:
        """How often it was handed over by now: 1 at first, 5 at last, then it is a dead letter."""
        ...

    async def ack(self) -> None:
        """Its effect is kept: never hand it over again."""
        ...

    async def retry(self, delay_s: float) -> None:
        """Hand it over again, after a while."""
        ...

    async def give_up(self, reason: str) -> None:
        """Its effect can never be had: make it a dead letter, which an operator may redrive."""
        ...


class Inbox(Protocol):
    """A durable reading: an agent's runs, its own events among them, or what an outbox acts on."""

    async def next(self, within_s: float) -> Delivery | None:
        """The next event, or None if none came in that time, an outage included.

        What was handed over does not come again while its process lives, unless it is put back.
        What cannot be read is not handed over: it is a dead letter.
        """
        ...

    async def close(self) -> None:
        """Stop reading; the place is kept."""
        ...


class Bus(Protocol):
    """Questions, heartbeats and passing words."""

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        """Say that an agent lives, for `ttl_s` seconds from now (at least 1).

        Errors: Failed if it could not be said in that time.
        """
        ...

    async def leave(self, agent: str) -> None:
        """Say that an agent goes, now."""
        ...

    def beats(self) -> AsyncIterator[Beat]:
        """First every agent alive, then each change; after a reconnect all of them again."""
        ...

    async def tell(self, topic: str, data: bytes) -> None:
        """Say something to whoever listens now; at most 64 KiB, may be lost."""
        ...

    def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """What is told on a topic, which may end in `>`: (topic, data)."""
        ...

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """The inbox of an agent's runs; the same name goes on where it stopped.

        A bus that restarted has forgotten where: then it begins after this sequence.
        """
        ...


class Durables(Protocol):
    """Durable readings of what is said from now on, for outboxes."""

    async def news(self, consumer: str, *aggs: str) -> Inbox:
        """What aggregates (`ranking.>`) say from now on; the same name goes on where it stopped.

        A new name has no history: what an outbox did not see, it never acts on.
        """
        ...

    async def forget(self, consumer: str) -> None:
        """Have no place kept for this name, so that it begins anew; harmless to repeat."""
        ...
