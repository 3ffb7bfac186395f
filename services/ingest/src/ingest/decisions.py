"""Runs deciders: load, fold, decide, append, retry after a conflict."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from shared import subjects
from shared.clock import new_id
from shared.errors import Failed
from shared.event_log import Append, Appender, Conflict, Decider, EventLog, RecordedEvent
from shared.events import Fact, OperatorActed
from shared.subjects import last_token

DECISIONS_MAX = 8
OPERATORS = "operators"
PAUSE_S = 0.005

Command = TypeVar("Command")
State = TypeVar("State")


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

    aggregate: str
    decider: Decider[Any, Any, Fact]
    command: object
    history: Sequence[RecordedEvent] | None = None


class Follower(Protocol):
    """Follows the log in memory, such as the access rights."""

    async def wait_until_folded(self, seq: int, batch: Sequence[Fact] = ()) -> None:
        """Wait until the events of a batch, which ends at `seq`, are folded."""


@dataclass(frozen=True)
class Decisions:
    """Makes decisions; each is appended only to the history it was decided on.

    With a follower, a decision about access rights applies before `make` returns.
    """

    log: EventLog
    clock: Callable[[], datetime]
    follower: Follower | None = None

    async def make(
        self,
        aggregate: str,
        decider: Decider[Command, State, Fact],
        command: Command,
        actor: str,
        corr: str = "",
    ) -> DecisionResult:
        """Decide one command and append its facts. Raises `Refused` and `Failed`.

        `corr` is what the decision is about; by default the aggregate's id.
        """
        return await self.make_all(
            [AggregateCommand(aggregate, decider, command)], actor, corr=corr
        )

    async def make_all(
        self,
        commands: Sequence[AggregateCommand],
        actor: str,
        before_append: Callable[[], Awaitable[object]] | None = None,
        corr: str = "",
    ) -> DecisionResult:
        """Decide several commands and append all of their facts, or none.

        `before_append` stores what the facts refer to; a refused command stores nothing. Raises
        `Refused` and `Failed`.
        """
        corr = corr or last_token(commands[0].aggregate)
        for attempt in range(DECISIONS_MAX):
            decided = [await self._decide(command) for command in commands]
            if before_append is not None and attempt == 0:
                await before_append()
            before = decided[0][0]
            appends = [
                # Of several events of one aggregate in a batch, only the first names a version.
                http_append(
                    aggregate, fact, None if position else history[-1].seq if history else 0, corr
                )
                for (aggregate, *_), (history, facts) in zip(commands, decided, strict=True)
                for position, fact in enumerate(facts)
            ]
            if not appends:
                return DecisionResult(None, (), before)
            try:
                seq = await self.append(actor, *appends)
            except Conflict:
                await back_off(attempt)
                commands = [command._replace(history=None) for command in commands]
                continue
            facts = [append.fact for append in appends]
            if self.follower is not None:
                await self.follower.wait_until_folded(seq, facts)
            return DecisionResult(seq, facts, before)
        names = " and ".join(command.aggregate for command in commands)
        raise Failed(f"{names} changed {DECISIONS_MAX} times during the decision: try again")

    async def record(
        self, aggregate: str, fact: Fact, actor: str, expected: int | None = 0
    ) -> DecisionResult:
        """Append a fact that depends on no history. Raises `Failed`."""
        append = http_append(aggregate, fact, expected, last_token(aggregate))
        return DecisionResult(await self.append(actor, append), [fact])

    async def record_action(
        self, command: str, target: str, reason: str, operator: str
    ) -> DecisionResult:
        """Record what an operator did. Raises `Failed`."""
        fact = OperatorActed(command=command, target=target, reason=reason)
        # Records are independent: none depends on the version of the one before.
        return await self.record(subjects.audit(OPERATORS), fact, operator, None)

    async def preview(self, commands: Sequence[AggregateCommand]) -> list[Fact]:
        """Return what would be decided, without appending it. Raises `Refused` and `Failed`."""
        return [fact for command in commands for fact in (await self._decide(command))[1]]

    async def append(self, actor: str, *appends: Append) -> int:
        """Append all facts or none; return the sequence of the last.

        Raises `Conflict` and `Failed`.
        """
        return await Appender(self.log, actor, self.clock).append(*appends)

    async def load_state(self, aggregate: str, decider: Decider[Any, State, Fact]) -> State:
        """Return the current state of an aggregate. Raises `Failed`."""
        return decider.fold(event.fact for event in await self.log.history(aggregate))

    async def _decide(
        self, command: AggregateCommand
    ) -> tuple[Sequence[RecordedEvent], Sequence[Fact]]:
        aggregate, decider, request, history = command
        if history is None:
            history = await self.log.history(aggregate)
        return history, decider.decide(request, decider.fold(event.fact for event in history))


def http_append(aggregate: str, fact: Fact, expected: int | None, corr: str) -> Append:
    """Return a fact to append because of a request; a repeated request appends another event."""
    return Append(aggregate, fact, expected, "http", corr, new_id())


async def back_off(attempt: int) -> None:
    """Wait a random moment, a little longer with each attempt, so that others can append first."""
    await asyncio.sleep(PAUSE_S * (attempt + 1) * random.random())  # noqa: S311  (no secret)
