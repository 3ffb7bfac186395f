"""The decider runner: load, fold, decide, append, and again if somebody was faster."""

import asyncio
import random
from collections.abc import Callable, Sequence
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
    """A decision in the log; None if there was nothing to say, for it was so already.

    Of several events it is the first one's fact, and the last one's sequence.
    """

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
            try:
                version = history[-1].seq if history else 0
                return Made(facts[0], await self._append(agg, facts, version, by))
            except Conflict:
                await pause(attempt)
        raise Failed(f"{agg} changed {DECISIONS_MAX} times while it was being decided")

    async def _append(self, agg: str, facts: Sequence[Fact], version: int, by: By) -> int:
        """All or none, and the sequence of the last. Errors: Conflict; Failed."""
        at = self.clock()
        stamps = [Stamp(new_id(), at, by.actor, by.corr, "http") for _ in facts]
        events = [
            # Of several events of one aggregate in a batch, the first alone names a version.
            New(seal(fact, agg, stamp), None if place else version)
            for place, (fact, stamp) in enumerate(zip(facts, stamps, strict=True))
        ]
        if len(events) == 1:
            return await self.log.append(events[0])
        return await self.log.append_all(events)


async def pause(attempt: int) -> None:
    """Let a rival go first, a little longer each time and never as long as another does."""
    await asyncio.sleep(PAUSE_S * (attempt + 1) * random.random())  # noqa: S311  (no secret)
