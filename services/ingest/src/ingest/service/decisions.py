"""The decider runner: load, fold, decide, append, and again if somebody was faster."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from shared.clock import new_id
from shared.decider import Decider
from shared.errors import Failed
from shared.event_log import Conflict, EventLog, New
from shared.events import Fact
from shared.wire import Stamp, seal

DECISIONS_MAX = 8
PAUSE_S = 0.005

Command = TypeVar("Command")
State = TypeVar("State")


class By(NamedTuple):
    """Who asks, and what for: the submission or the thing that the event is about."""

    actor: str
    corr: str


class Made(NamedTuple):
    """A decision in the log; None if there was nothing to say, for it was so already."""

    fact: Fact | None
    seq: int | None


@dataclass(frozen=True)
class Decisions:
    """Makes decisions that hold: each is made on the very history that it is appended to."""

    log: EventLog
    clock: Callable[[], datetime]

    async def make(
        self, agg: str, decider: Decider[Command, State, Fact], command: Command, by: By
    ) -> Made:
        """What the decider says, appended. Errors: Refused; Failed."""
        for attempt in range(DECISIONS_MAX):
            history = await self.log.history(agg)
            facts = decider.decide(command, decider.fold(event.fact for event in history))
            if not facts:
                return Made(None, None)
            (fact,) = facts
            stamp = Stamp(new_id(), self.clock(), by.actor, by.corr, "http")
            expected = history[-1].seq if history else 0
            try:
                return Made(fact, await self.log.append(New(seal(fact, agg, stamp), expected)))
            except Conflict:
                await pause(attempt)
        raise Failed(f"{agg} changed {DECISIONS_MAX} times while it was being decided")


async def pause(attempt: int) -> None:
    """Let a rival go first, a little longer each time and never as long as another does."""
    await asyncio.sleep(PAUSE_S * (attempt + 1) * random.random())  # noqa: S311  (no secret)
