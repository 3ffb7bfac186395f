"""Runs deciders: load, fold, decide, append, retry after a conflict; and caches histories."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from shared.clock import new_id
from shared.decider import Append, Decider
from shared.errors import Failed
from shared.event_log import Appender, Conflict, EventLog, RecordedEvent
from shared.events import Fact

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
    """The appended events, none if nothing had to change, and the sequence of the last one.

    `before` has the earlier events of the first aggregate that was decided on.
    """

    seq: int | None
    facts: Sequence[Fact]
    before: Sequence[RecordedEvent] = ()

    @property
    def event(self) -> str | None:
        """Return the type of the first event, None if nothing had to change."""
        return type(self.facts[0]).__name__ if self.facts else None


class AggregateCommand(NamedTuple):
    """A command for one aggregate, with its decider, and its history if it was just read."""

    agg: str
    decider: Decider[Any, Any, Fact]
    command: object
    history: Sequence[RecordedEvent] | None = None


class AggregateDecision(NamedTuple):
    """The facts decided for an aggregate, and the history they were decided on."""

    agg: str
    history: Sequence[RecordedEvent]
    facts: Sequence[Fact]

    @property
    def version(self) -> int:
        """Return the version of the history, 0 if it is empty."""
        return self.history[-1].seq if self.history else 0


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
        before_append: Callable[[], Awaitable[object]] | None = None,
    ) -> DecisionResult:
        """Decide several commands and append all of their facts, or none.

        `before_append` stores what the facts refer to; a refused command stores nothing. Raises
        `Refused` and `Failed`.
        """
        for attempt in range(DECISIONS_MAX):
            decisions = [await self._decide(command) for command in commands]
            if before_append is not None and attempt == 0:
                await before_append()
            facts = [fact for decision in decisions for fact in decision.facts]
            before = decisions[0].history
            if not facts:
                return DecisionResult(None, (), before)
            appends = [
                # Of several events of one aggregate in a batch, only the first names a version.
                http_append(
                    decision.agg, fact, None if position else decision.version, context.corr
                )
                for decision in decisions
                for position, fact in enumerate(decision.facts)
            ]
            try:
                return DecisionResult(await self.append(context.actor, *appends), facts, before)
            except Conflict:
                await back_off(attempt)
                commands = [command._replace(history=None) for command in commands]
        names = " and ".join(command.agg for command in commands)
        raise Failed(f"{names} changed {DECISIONS_MAX} times during the decision: try again")

    async def preview(self, commands: Sequence[AggregateCommand]) -> list[Fact]:
        """Return what would be decided, without appending it.

        Raises `Refused` and `Failed`.
        """
        return [fact for command in commands for fact in (await self._decide(command)).facts]

    async def append(self, actor: str, *appends: Append) -> int:
        """Append all facts or none; return the sequence of the last.

        Raises `Conflict` and `Failed`.
        """
        return await Appender(self.log, actor, self.clock).append(*appends)

    async def load_state(self, agg: str, decider: Decider[Any, State, Fact]) -> State:
        """Return the current state of an aggregate. Raises `Failed`."""
        return decider.fold(event.fact for event in await self.log.history(agg))

    async def _decide(self, command: AggregateCommand) -> AggregateDecision:
        agg, decider, request, history = command
        if history is None:
            history = await self.log.history(agg)
        state = decider.fold(event.fact for event in history)
        return AggregateDecision(agg, history, decider.decide(request, state))


def http_append(agg: str, fact: Fact, expected: int | None, corr: str) -> Append:
    """Return a fact to append because of a request; a repeated request appends another event."""
    return Append(agg, fact, expected, "http", corr, new_id())


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
