"""Runs deciders: load, fold, decide, append, retry after a conflict; and caches histories."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from shared.clock import new_id
from shared.decider import Decider
from shared.errors import Failed
from shared.event_log import Conflict, EventLog, NewEvent
from shared.events import Fact
from shared.wire import EventMetadata, make_envelope

DECISIONS_MAX = 8
PAUSE_S = 0.005

Command = TypeVar("Command")
State = TypeVar("State")

KEPT_MAX = 10_000


class CommandContext(NamedTuple):
    """Who acts, and the submission or other thing that the event is about."""

    actor: str
    corr: str


class DecisionResult(NamedTuple):
    """A decision in the log; `fact` is None if nothing had to change.

    For several events, `fact` is the first one, `seq` the sequence of the last one, and `facts` has
    all.
    """

    fact: Fact | None
    seq: int | None
    facts: Sequence[Fact] = ()

    @property
    def event(self) -> str | None:
        """Return the type of the first event, None if nothing had to change."""
        return None if self.fact is None else type(self.fact).__name__


class AggregateCommand(NamedTuple):
    """A command for one aggregate, with its decider."""

    agg: str
    decider: Decider[Any, Any, Fact]
    command: object


class AggregateDecision(NamedTuple):
    """The facts decided for an aggregate, and the version they were decided at."""

    agg: str
    version: int
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Decisions:
    """Makes decisions; each is appended only to the history it was decided on."""

    log: EventLog
    clock: Callable[[], datetime]

    async def make(
        self,
        agg: str,
        decider: Decider[Command, State, Fact],
        command: Command,
        context: CommandContext,
    ) -> DecisionResult:
        """Decide one command and append its facts. Raises `Refused` and `Failed`."""
        return await self.make_all([AggregateCommand(agg, decider, command)], context)

    async def make_all(
        self,
        commands: Sequence[AggregateCommand],
        context: CommandContext,
        before_append: Callable[[], Awaitable[None]] | None = None,
    ) -> DecisionResult:
        """Decide several commands and append all of their facts, or none.

        `before_append` stores what the facts refer to; a refused command stores nothing. Raises
        `Refused` and `Failed`.
        """
        for attempt in range(DECISIONS_MAX):
            decisions = [await self._decide(command) for command in commands]
            if before_append is not None and attempt == 0:
                await before_append()
            facts = [fact for _, _, decided_facts in decisions for fact in decided_facts]
            if not facts:
                return DecisionResult(None, None)
            try:
                return DecisionResult(facts[0], await self._append(decisions, context), facts)
            except Conflict:
                await back_off(attempt)
        names = " and ".join(command.agg for command in commands)
        raise Failed(f"{names} changed {DECISIONS_MAX} times during the decision: try again")

    async def preview(self, commands: Sequence[AggregateCommand]) -> list[Fact]:
        """Return what would be decided, without appending it.

        Raises `Refused` and `Failed`.
        """
        return [fact for command in commands for fact in (await self._decide(command)).facts]

    async def _decide(self, command: AggregateCommand) -> AggregateDecision:
        history = await self.log.history(command.agg)
        state = command.decider.fold(event.fact for event in history)
        version = history[-1].seq if history else 0
        return AggregateDecision(
            command.agg, version, command.decider.decide(command.command, state)
        )

    async def _append(self, decisions: Sequence[AggregateDecision], context: CommandContext) -> int:
        """Append all facts or none; return the sequence of the last.

        Raises `Conflict` and `Failed`.
        """
        at = self.clock()
        events = [
            # Of several events of one aggregate in a batch, only the first names a version.
            NewEvent(make_envelope(fact, agg, stamp), None if position else version)
            for agg, version, facts in decisions
            for position, fact in enumerate(facts)
            for stamp in [EventMetadata(new_id(), at, context.actor, context.corr, "http")]
        ]
        if len(events) == 1:
            return await self.log.append(events[0])
        return await self.log.append_all(events)


async def back_off(attempt: int) -> None:
    """Wait a random moment, a little longer with each attempt, so that others can append first."""
    await asyncio.sleep(PAUSE_S * (attempt + 1) * random.random())  # noqa: S311  (no secret)


class FoldedState(NamedTuple, Generic[State]):
    """The folded state of an aggregate, up to the sequence of its last event."""

    state: State
    seq: int


class HistoryCache:
    """Folds aggregates on from where each was last read; the most recently used are kept.

    Results are never stale: the log is asked for new events each time. Concurrent requests for one
    aggregate share one read that begins after the last of them asked.
    """

    def __init__(self, log: EventLog, kept_max: int = KEPT_MAX) -> None:
        self._log = log
        self._cached_max = kept_max
        self._cache: OrderedDict[str, FoldedState[Any]] = OrderedDict()
        self._running: dict[str, asyncio.Task[FoldedState[Any]]] = {}
        self._next: dict[str, asyncio.Task[FoldedState[Any]]] = {}

    def __len__(self) -> int:
        """Return the number of cached aggregates."""
        return len(self._cache)

    async def load(
        self, agg: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> FoldedState[State]:
        """Return the current state of an aggregate; always use the same fold for an aggregate."""
        if agg not in self._next:
            self._next[agg] = asyncio.create_task(self._read(agg, start, fold))
        # The first caller may be cancelled; the others still need the result.
        return await asyncio.shield(self._next[agg])

    async def state(self, agg: str, decider: Decider[Any, State, Fact]) -> State:
        """Return the current state of an aggregate, as its decider folds it."""

        def fold(state: State, facts: Iterable[Fact]) -> State:
            for fact in facts:
                state = decider.evolve(state, fact)
            return state

        return (await self.load(agg, decider.initial, fold)).state

    async def _read(
        self, agg: str, start: State, fold: Callable[[State, Iterable[Fact]], State]
    ) -> FoldedState[State]:
        if running := self._running.get(agg):
            await asyncio.wait({running})
        self._running[agg] = self._next.pop(agg)
        try:
            folded: FoldedState[State] = self._cache.get(agg, FoldedState(start, 0))
            events = await self._log.history(agg, folded.seq)
            if events:
                folded = FoldedState(
                    fold(folded.state, [event.fact for event in events]), events[-1].seq
                )
            self._store(agg, folded)
            return folded
        finally:
            del self._running[agg]

    def _store(self, agg: str, folded: FoldedState[Any]) -> None:
        self._cache[agg] = folded
        self._cache.move_to_end(agg)
        if len(self._cache) > self._cached_max:
            self._cache.popitem(last=False)
