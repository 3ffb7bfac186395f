"""A decision and its history, as pure functions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Generic, TypeVar

Command = TypeVar("Command")
State = TypeVar("State")
Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Decider(Generic[Command, State, Fact]):
    """Two pure functions and a start; all else in a service is plumbing around them."""

    initial: State
    decide: Callable[[Command, State], Sequence[Fact]]
    evolve: Callable[[State, Fact], State]

    def fold(self, events: Iterable[Fact]) -> State:
        """The state that a history means."""
        return reduce(self.evolve, events, self.initial)
