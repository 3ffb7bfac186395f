"""The decider runner: load, fold, decide, append, and again if somebody was faster."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

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

    Of several events it is the first one's fact, and the last one's sequence; `facts` are all.
    """

    fact: Fact | None
    seq: int | None
    facts: Sequence[Fact] = ()


class Wish(NamedTuple):
    """A command, to be decided on the history of an aggregate."""

    agg: str
    decider: Decider[Any, Any, Fact]
    command: object


class Decided(NamedTuple):
    """What was decided about an aggregate, at which of its versions."""

    agg: str
    version: int
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Decisions:
    """Makes decisions that hold: each is made on the very history that it is appended to."""

    log: EventLog
    clock: Callable[[], datetime]

    async def make(
        self, agg: str, decider: Decider[Command, State, Fact], command: Command, by: By
    ) -> Made:
        """What the decider says, appended. Errors: Refused; Failed."""
        return await self.make_all([Wish(agg, decider, command)], by)

    async def make_all(self, wishes: Sequence[Wish], by: By) -> Made:
        """What several deciders say, appended at once or not at all. Errors: Refused; Failed."""
        for attempt in range(DECISIONS_MAX):
            found = [await self._decided(wish) for wish in wishes]
            facts = [fact for _, _, said in found for fact in said]
            if not facts:
                return Made(None, None)
            try:
                return Made(facts[0], await self._append(found, by), facts)
            except Conflict:
                await pause(attempt)
        names = " and ".join(wish.agg for wish in wishes)
        raise Failed(f"{names} changed {DECISIONS_MAX} times while it was being decided")

    async def preview(self, wishes: Sequence[Wish]) -> list[Fact]:
        """Decide, and leave it at that: who is refused is told before anything is kept.

        Errors: Refused; Failed.
        """
        return [fact for wish in wishes for fact in (await self._decided(wish)).facts]

    async def _decided(self, wish: Wish) -> Decided:
        history = await self.log.history(wish.agg)
        state = wish.decider.fold(event.fact for event in history)
        version = history[-1].seq if history else 0
        return Decided(wish.agg, version, wish.decider.decide(wish.command, state))

    async def _append(self, found: Sequence[Decided], by: By) -> int:
        """All or none, and the sequence of the last. Errors: Conflict; Failed."""
        at = self.clock()
        events = [
            # Of several events of one aggregate in a batch, the first alone names a version.
            New(seal(fact, agg, stamp), None if place else version)
            for agg, version, facts in found
            for place, fact in enumerate(facts)
            for stamp in [Stamp(new_id(), at, by.actor, by.corr, "http")]
        ]
        if len(events) == 1:
            return await self.log.append(events[0])
        return await self.log.append_all(events)


async def pause(attempt: int) -> None:
    """Let a rival go first, a little longer each time and never as long as another does."""
    await asyncio.sleep(PAUSE_S * (attempt + 1) * random.random())  # noqa: S311  (no secret)
