"""The platform as a whole: whether it takes submissions in, and what a projection skips."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.decider import Decider
from shared.errors import Refused
from shared.events import EventSkipped, Fact, IntakePaused, IntakeResumed

PAUSE_RETRY_S = 60.0


@dataclass(frozen=True)
class PauseIntake:
    """Take no submission in."""

    reason: str


@dataclass(frozen=True)
class ResumeIntake:
    """Take submissions in again."""

    reason: str


@dataclass(frozen=True)
class Intake:
    """Whether submissions are taken in; `paused` is why not."""

    paused: str | None = None


def decide(command: PauseIntake | ResumeIntake, state: Intake) -> Sequence[Fact]:
    """The pause, or its end. Errors: Refused if it is so already."""
    if isinstance(command, PauseIntake):
        if state.paused is not None:
            raise Refused("wrong_state", f"intake is paused already: {state.paused}")
        return (IntakePaused(reason=command.reason),)
    if state.paused is None:
        raise Refused("wrong_state", "intake is not paused")
    return (IntakeResumed(reason=command.reason),)


def evolve(state: Intake, fact: Fact) -> Intake:
    """What intake is after one more event."""
    match fact:
        case IntakePaused():
            return Intake(fact.reason)
        case IntakeResumed():
            return Intake()
    return state


intake = Decider[PauseIntake | ResumeIntake, Intake, Fact](Intake(), decide, evolve)


def check_intake(state: Intake) -> None:
    """Refuse a submission while intake is paused, with the reason."""
    if state.paused is not None:
        what = f"no submission is taken in for a while: {state.paused}"
        raise Refused("submissions_paused", what, retry_after_s=PAUSE_RETRY_S)


@dataclass(frozen=True)
class Skip:
    """Let a projection go on without an event; the log ends at `last`."""

    projection: str
    seq: int
    last: int
    reason: str


Skipped = frozenset[tuple[str, int]]


def decide_skip(command: Skip, state: Skipped) -> Sequence[Fact]:
    """The leave to skip. Errors: Refused for the same leave twice and for an event to come."""
    if command.seq > command.last:
        what = f"the log ends at {command.last}: there is no event {command.seq}"
        raise Refused("invalid_request", what, "seq")
    if (command.projection, command.seq) in state:
        raise Refused("wrong_state", f"{command.projection} skips {command.seq} already")
    return (EventSkipped(projection=command.projection, seq=command.seq, reason=command.reason),)


def evolve_skip(state: Skipped, fact: Fact) -> Skipped:
    """What is skipped after one more event."""
    return state | {(fact.projection, fact.seq)} if isinstance(fact, EventSkipped) else state


skips = Decider[Skip, Skipped, Fact](frozenset(), decide_skip, evolve_skip)
