"""Folds kept in memory, so that what is read for every submission is read once."""

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

    Nothing here is ever out of date: the log is asked each time for what came since.
    """

    def __init__(self, log: EventLog, kept_max: int = KEPT_MAX) -> None:
        self._log = log
        self._kept_max = kept_max
        self._kept: OrderedDict[str, Folded[Any]] = OrderedDict()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    async def load(
        self, agg: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> Folded[State]:
        """An aggregate as it is now; an aggregate is always to be folded in one way."""
        kept: Folded[State] = self._kept.get(agg, Folded(start, 0))
        events = await self._log.history(agg, kept.seq)
        if events:
            kept = Folded(fold(kept.state, [event.fact for event in events]), events[-1].seq)
        self._keep(agg, kept)
        return kept

    async def state(self, agg: str, decider: Decider[Any, State, Fact]) -> State:
        """An aggregate as its decider sees it."""

        def fold(state: State, facts: Iterable[Fact]) -> State:
            for fact in facts:
                state = decider.evolve(state, fact)
            return state

        return (await self.load(agg, decider.initial, fold)).state

    def _keep(self, agg: str, folded: Folded[Any]) -> None:
        # A slower reader may come back with less than another has kept meanwhile.
        if folded.seq >= self._kept.get(agg, folded).seq:
            self._kept[agg] = folded
        self._kept.move_to_end(agg)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
