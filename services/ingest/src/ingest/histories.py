"""Reads histories from the log: the state of an aggregate, cached, and submissions by number."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any, Generic, NamedTuple, TypeVar

from ingest.ports import Ports
from ingest.submission_history import SubmissionHistory
from shared import events, subjects
from shared.errors import Failed
from shared.event_log import Decider, EventLog
from shared.events import Fact
from shared.single_flight import FreshFlight

AGGREGATES_MAX = 10_000

State = TypeVar("State")


async def load_submission(ports: Ports, number: int) -> SubmissionHistory:
    """Load the submission with this number.

    Raises `Refused` (`unknown_submission`) and `Failed`.
    """
    submission_id = await ports.lookups.submission(number)
    history = await ports.log.history(subjects.submission(submission_id))
    if not history or history[0].seq != number:
        raise Failed(f"the read models and the log disagree on submission {number}: try again")
    first = history[0].fact
    assert isinstance(first, events.SubmissionReceived), (
        "a number is the sequence of the first event"
    )
    return SubmissionHistory(submission_id, first, history)


class FoldedState(NamedTuple, Generic[State]):
    """The folded state of an aggregate, up to the sequence of its last event."""

    state: State
    seq: int


class HistoryCache:
    """Folds aggregates on from where each was last read; the most recently used are kept.

    Results are never stale: the log is asked for new events each time. Concurrent requests for one
    aggregate share one read that begins after the last of them asked.
    """

    def __init__(self, log: EventLog, aggregates_max: int = AGGREGATES_MAX) -> None:
        self._log = log
        self._cached_max = aggregates_max
        self._cache: OrderedDict[str, FoldedState[Any]] = OrderedDict()
        self._reads: FreshFlight[str, FoldedState[Any]] = FreshFlight()

    def __len__(self) -> int:
        """Return the number of cached aggregates."""
        return len(self._cache)

    async def load(
        self, aggregate: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> FoldedState[State]:
        """Return the current state of an aggregate; always use the same fold for an aggregate."""
        return await self._reads.join(aggregate, partial(self._read, aggregate, start, fold))

    async def state(self, aggregate: str, decider: Decider[Any, State, Fact]) -> State:
        """Return the current state of an aggregate, as its decider folds it."""

        return (
            await self.load(
                aggregate,
                decider.initial,
                lambda state, facts: reduce(decider.evolve, facts, state),
            )
        ).state

    async def _read(
        self, aggregate: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> FoldedState[State]:
        folded: FoldedState[State] = self._cache.get(aggregate, FoldedState(start, 0))
        events = await self._log.history(aggregate, folded.seq)
        if events:
            facts = [event.fact for event in events]
            folded = FoldedState(fold(folded.state, facts), events[-1].seq)
        self._cache[aggregate] = folded
        self._cache.move_to_end(aggregate)
        if len(self._cache) > self._cached_max:
            self._cache.popitem(last=False)
        return folded
