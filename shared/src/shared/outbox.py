"""The outbox: the only way in which an event acts on the world outside.

It reads what is said from now on, never history and never a rebuild. A row says that an effect is
tried, then that it is done; the event is acknowledged after that. Killed in between, the effect is
tried again under the same nonce, by which the other side may know it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from shared.bus import Delivery, Inbox
from shared.errors import Failed, Refused
from shared.event_log import Recorded
from shared.ids import derived
from shared.outages import warn_rarely

log = logging.getLogger(__name__)

READ_S = 5.0
PAUSE_S = 1.0
DELAYS_S = (1.0, 5.0, 15.0, 60.0)

T = TypeVar("T")
Act = Callable[[Recorded, str], Awaitable[None]]


class Outbox(Protocol):
    """Which event became which effect."""

    async def begin(self, event: str, target: str) -> bool:
        """Write down that an effect is tried; False if it is done already. Errors: Failed."""
        ...

    async def mark(self, event: str, target: str) -> None:
        """Write down that an effect is done. Errors: Failed."""
        ...

    async def pending(self) -> int:
        """How many effects were tried and are not done. Errors: Failed."""
        ...


@dataclass(frozen=True)
class Sender:
    """Turns the events of an inbox into effects on one target, each at least once.

    `act` gets the event and its nonce. It raises Failed for what may go better later, after 1, 5,
    15 and 60 s, and Refused for what never will: both end as a dead letter, the first after five
    attempts.
    """

    inbox: Inbox
    outbox: Outbox
    target: str
    act: Act
    delays_s: tuple[float, ...] = DELAYS_S

    async def run(self) -> None:
        """Act on one event after the other, for ever. Errors: Failed if nothing can be read."""
        while True:
            delivery = await self.inbox.next(READ_S)
            if delivery is not None:
                await self._deliver(delivery)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await self._effect(delivery.recorded)
        except Refused as refused:
            await delivery.give_up(refused.reason)
        except Failed as failed:
            await self._later(delivery, str(failed))
        else:
            await delivery.ack()

    async def _effect(self, recorded: Recorded) -> None:
        event = recorded.envelope.id
        if await self._surely(lambda: self.outbox.begin(event, self.target)):
            await self.act(recorded, derived(event, self.target))
            await self._surely(lambda: self.outbox.mark(event, self.target))

    async def _surely(self, write: Callable[[], Awaitable[T]]) -> T:
        """Our own rows are waited for, however long: an outage of ours uses up no attempt."""
        while True:
            try:
                return await write()
            except Failed as failed:
                warn_rarely(log, f"outbox {self.target}", "%s waits: %s", self.target, failed)
            await asyncio.sleep(PAUSE_S)

    async def _later(self, delivery: Delivery, reason: str) -> None:
        place = f"event {delivery.recorded.seq} for {self.target}"
        if delivery.attempt > len(self.delays_s):
            log.error("%s is given up: %s", place, reason)
            await delivery.give_up(reason)
            return
        log.warning("%s is tried again: %s", place, reason)
        await delivery.retry(self.delays_s[delivery.attempt - 1])
