"""Specifications of deciders: `given(decider, *history).when(command).then(*events)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.errors import Refused
from shared.event_log import Command, Decider, State

Event = TypeVar("Event")


@dataclass(frozen=True)
class CommandScenario(Generic[Command, State, Event]):
    """A history and a command whose outcome is asserted."""

    decider: Decider[Command, State, Event]
    history: tuple[Event, ...]
    command: Command

    def then(self, *expected: Event) -> None:
        """Assert that the command leads to exactly these events, in this order."""
        decided = self.decider.decide(self.command, self.decider.fold(self.history))
        assert list(decided) == list(expected), f"decided {decided}"

    def then_refused(self, code: str) -> None:
        """Assert that the command is refused with this code."""
        outcome: Refused | Sequence[Event]
        try:
            outcome = self.decider.decide(self.command, self.decider.fold(self.history))
        except Refused as refused:
            outcome = refused
        assert isinstance(outcome, Refused), f"not refused: decided {outcome}"
        assert outcome.code == code, f"refused as {outcome.code}: {outcome.reason}"


@dataclass(frozen=True)
class HistoryScenario(Generic[Command, State, Event]):
    """A history that awaits a command."""

    decider: Decider[Command, State, Event]
    history: tuple[Event, ...]

    def when(self, command: Command) -> CommandScenario[Command, State, Event]:
        """Add the command."""
        return CommandScenario(self.decider, self.history, command)


def given(
    decider: Decider[Command, State, Event], *history: Event
) -> HistoryScenario[Command, State, Event]:
    """Start a specification: `given(decider, *history).when(command).then(*events)`."""
    return HistoryScenario(decider, history)
