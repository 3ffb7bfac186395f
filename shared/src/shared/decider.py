"""A decision, its history and what it appends, as pure functions and values."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar

from shared import events
from shared.ids import derive_id

Command = TypeVar("Command")
State = TypeVar("State")
Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Decider(Generic[Command, State, Fact]):
    """Two pure functions and an initial state; all other code in a service surrounds them."""

    initial: State
    decide: Callable[[Command, State], Sequence[Fact]]
    evolve: Callable[[State, Fact], State]

    def fold(self, events: Iterable[Fact]) -> State:
        """Return the state that results from a history."""
        return reduce(self.evolve, events, self.initial)


@dataclass(frozen=True)
class Append:
    """A fact to append: its aggregate, the expected version (None: any), cause and correlation.

    Without a `chosen_id`, the event's id is derived from the cause and the version.
    """

    agg: str
    fact: events.Fact
    expected: int | None
    cause: str
    corr: str
    chosen_id: str = ""

    @property
    def id(self) -> str:
        """The event's id; the same decision always gets the same id."""
        kind = type(self.fact).__name__
        return self.chosen_id or derive_id(f"{self.cause}/{self.expected}", f"{kind}/{self.agg}")
