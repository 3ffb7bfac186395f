"""A durable reading of a log in memory."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.bus import Delivery
from shared.clock import now
from shared.deadletters import TOO_OFTEN, DeadLetter
from shared.event_log import Recorded
from shared.events import DeadLetterRedriven
from shared.memory.log import MemoryLog
from shared.wire import UnknownEvent

POLL_S = 0.02
DELIVERIES_MAX = 5


class _Due(NamedTuple):
    at: float
    attempt: int
    place: int
    recorded: Recorded


class MemoryInbox:
    """Events in hand from `next` until they are acknowledged, put back or given up."""

    def __init__(self, log: MemoryLog, consumer: str, aggs: Sequence[str], seen: int = 0) -> None:
        self._log = log
        self._consumer = consumer
        self._aggs = (*aggs, subjects.redriven(consumer))
        self._seen = seen
        self._due: dict[int, _Due] = {}
        self.letters: list[DeadLetter] = []

    async def next(self, within_s: float) -> Delivery | None:
        """The next event, or None; see the port."""
        until = time.monotonic() + within_s
        while True:
            moment = time.monotonic()
            self._look(moment)
            ready = [place for place, due in self._due.items() if due.at <= moment]
            if ready:
                delivery = self._handed_over(self._due.pop(min(ready)))
                if delivery is None:
                    continue
                return delivery
            if moment >= until:
                return None
            await self._log.grow(min(until - moment, POLL_S))

    async def close(self) -> None:
        """The place is kept: the bus keeps the inbox."""

    def put_back(self, delivery: "MemoryDelivery", delay_s: float) -> None:
        """Hand an event over again after a while, unless that was so too often."""
        due = delivery.due
        if due.attempt >= DELIVERIES_MAX:
            self.give_up(due, TOO_OFTEN)
            return
        at = time.monotonic() + delay_s
        self._due[due.place] = due._replace(at=at, attempt=due.attempt + 1)

    def give_up(self, due: _Due, reason: str) -> None:
        """Keep a dead letter."""
        line = " ".join(reason.split())
        letter = DeadLetter(
            self._consumer, subjects.STREAM, due.place, line, now(), due.attempt, due.place
        )
        self.letters.append(letter)

    def _handed_over(self, due: _Due) -> "MemoryDelivery | None":
        try:
            fact = due.recorded.fact
            if isinstance(fact, DeadLetterRedriven):
                older = self._log.since(fact.seq - 1)[0]
                due = due._replace(recorded=older)
                _ = older.fact
        except (msgspec.MsgspecError, UnknownEvent) as error:
            self.give_up(due, f"event {due.recorded.seq} cannot be read: {error}")
            return None
        return MemoryDelivery(self, due)

    def _look(self, moment: float) -> None:
        for recorded in self._log.since(self._seen):
            self._seen = recorded.seq
            if any(_is_under(recorded.envelope.agg, agg) for agg in self._aggs):
                self._due[recorded.seq] = _Due(moment, 1, recorded.seq, recorded)


class MemoryDelivery(NamedTuple):
    """An event in hand."""

    inbox: MemoryInbox
    due: _Due

    @property
    def recorded(self) -> Recorded:
        """The event."""
        return self.due.recorded

    @property
    def attempt(self) -> int:
        """How often it was handed over by now."""
        return self.due.attempt

    async def ack(self) -> None:
        """It was forgotten when it was handed over."""

    async def retry(self, delay_s: float) -> None:
        """Hand it over again, after a while."""
        self.inbox.put_back(self, delay_s)

    async def give_up(self, reason: str) -> None:
        """Make it a dead letter."""
        self.inbox.give_up(self.due, reason)


def _is_under(agg: str, pattern: str) -> bool:
    return agg.startswith(pattern[:-1]) if pattern.endswith(".>") else agg == pattern
