"""The outbox: the only way in which an event acts on the outside world.

It reads new events only, never history and never a rebuild. A row records that an effect was begun,
then that it is done; the event is acknowledged after that. After a crash in between, the effect is
repeated with the same nonce, so that the other side can recognise it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from shared.bus import Delivery, Inbox
from shared.errors import Failed, Refused
from shared.event_log import RecordedEvent
from shared.health import warn_rarely
from shared.subjects import derive_id

log = logging.getLogger(__name__)

READ_S = 5.0
PAUSE_S = 1.0
DELAYS_S = (1.0, 5.0, 15.0, 60.0)

T = TypeVar("T")
EffectHandler = Callable[[RecordedEvent, str], Awaitable[None]]


class Outbox(Protocol):
    """Records which event caused which effect."""

    async def begin(self, event: str, target: str) -> bool:
        """Record that an effect begins; False if it is already done. Errors: Failed."""

    async def mark(self, event: str, target: str) -> None:
        """Record that an effect is done. Errors: Failed."""

    async def pending(self) -> int:
        """Count effects that began and are not done. Errors: Failed."""


@dataclass(frozen=True)
class OutboxSender:
    """Turns the events of an inbox into effects on one target, each at least once.

    `act` gets the event and its nonce. It raises Failed for temporary failures, which are retried
    after 1, 5, 15 and 60 s, and Refused for permanent ones. Both end as a dead letter, the first
    after five attempts. Events of other types than `types`, if given, are skipped: two rows for
    each would cost more than all else when a sender catches up.
    """

    inbox: Inbox
    outbox: Outbox
    target: str
    act: EffectHandler
    delays_s: tuple[float, ...] = DELAYS_S
    types: frozenset[str] | None = None

    async def run(self) -> None:
        """Process events one by one, without end. Errors: Failed if the inbox cannot be read."""
        while True:
            delivery = await self.inbox.next(READ_S)
            if delivery is None:
                continue
            try:
                await self._apply_effect(delivery.recorded)
            except Refused as refused:
                await delivery.give_up(refused.reason)
            except Failed as failed:
                await self._retry_later(delivery, str(failed))
            else:
                await delivery.ack()

    async def _apply_effect(self, recorded: RecordedEvent) -> None:
        event = recorded.envelope.id
        if self.types is not None and recorded.envelope.type not in self.types:
            return
        if await self._write_until_stored(lambda: self.outbox.begin(event, self.target)):
            await self.act(recorded, derive_id(event, self.target))
            await self._write_until_stored(lambda: self.outbox.mark(event, self.target))

    async def _write_until_stored(self, write: Callable[[], Awaitable[T]]) -> T:
        """Write our own row, waiting out any outage, so that it uses up no attempt."""
        while True:
            try:
                return await write()
            except Failed as failed:
                warn_rarely(log, f"outbox {self.target}", "%s waits: %s", self.target, failed)
            await asyncio.sleep(PAUSE_S)

    async def _retry_later(self, delivery: Delivery, reason: str) -> None:
        place = f"event {delivery.recorded.seq} for {self.target}"
        if delivery.attempt > len(self.delays_s):
            log.error("gave up %s: %s", place, reason)
            await delivery.give_up(reason)
            return
        log.warning("will retry %s: %s", place, reason)
        await delivery.retry(self.delays_s[delivery.attempt - 1])
