"""Folds kept in memory, so that what is read for every submission is read once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from shared.decider import Decider
from shared.event_log import EventLog
from shared.events import Fact

KEPT_MAX = 10_000

State = TypeVar("State")


class Folded(NamedTuple, Generic[State]):
    """What an aggregate came to, up to its last event's sequence."""

    state: State
    seq: int


class Histories:
    """Aggregates folded on from where each was last read; those used last are kept.

    Nothing here is ever out of date: the log is asked each time for what came since. Those who ask
    for one aggregate at once share a reading that begins after the last of them asked.
    """

    def __init__(self, log: EventLog, kept_max: int = KEPT_MAX) -> None:
        self._log = log
        self._kept_max = kept_max
        self._kept: OrderedDict[str, Folded[Any]] = OrderedDict()
        self._running: dict[str, asyncio.Task[Folded[Any]]] = {}
        self._next: dict[str, asyncio.Task[Folded[Any]]] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    async def load(
        self, agg: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> Folded[State]:
        """An aggregate as it is now; an aggregate is always to be folded in one way."""
        if agg not in self._next:
            self._next[agg] = asyncio.create_task(self._read(agg, start, fold))
        # Whoever asked first may hang up; the others still want to know.
        return await asyncio.shield(self._next[agg])

    async def state(self, agg: str, decider: Decider[Any, State, Fact]) -> State:
        """An aggregate as its decider sees it."""

        def fold(state: State, facts: Iterable[Fact]) -> State:
            for fact in facts:
                state = decider.evolve(state, fact)
            return state

        return (await self.load(agg, decider.initial, fold)).state

    async def _read(
        self, agg: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> Folded[State]:
        if before := self._running.get(agg):
            await asyncio.wait({before})
        self._running[agg] = self._next.pop(agg)
        try:
            kept: Folded[State] = self._kept.get(agg, Folded(start, 0))
            events = await self._log.history(agg, kept.seq)
            if events:
                kept = Folded(fold(kept.state, [event.fact for event in events]), events[-1].seq)
            self._keep(agg, kept)
            return kept
        finally:
            del self._running[agg]

    def _keep(self, agg: str, folded: Folded[Any]) -> None:
        self._kept[agg] = folded
        self._kept.move_to_end(agg)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
