"""Rules of the platform: whether submissions are accepted, and which events projections skip."""

from collections.abc import Sequence
from typing import NamedTuple

from shared.errors import Refused
from shared.event_log import Decider
from shared.events import EventSkipped, Fact, IntakePaused, IntakeResumed

# The histories of intake and of projections.
PLATFORM = "platform"
PROJECTIONS = "projections"
PAUSE_RETRY_S = 60.0

IntakeCommand = IntakePaused | IntakeResumed
Skipped = frozenset[tuple[str, int]]


def decide_intake(command: IntakeCommand, reason: str | None) -> Sequence[Fact]:
    """Return the event. Raises `Refused` if intake is in that state already.

    The state is the reason why intake is paused, None if it is not.
    """
    if isinstance(command, IntakePaused) and reason is not None:
        raise Refused("wrong_state", f"intake is already paused: {reason}")
    if isinstance(command, IntakeResumed) and reason is None:
        raise Refused("wrong_state", "intake is not paused")
    return (command,)


def evolve_intake(reason: str | None, fact: Fact) -> str | None:
    """Return the intake state after one more event."""
    match fact:
        case IntakePaused():
            return fact.reason
        case IntakeResumed():
            return None
    return reason


INTAKE_DECIDER = Decider[IntakeCommand, str | None, Fact](None, decide_intake, evolve_intake)


def check_intake(reason: str | None) -> None:
    """Refuse a submission while intake is paused, with the reason."""
    if reason is not None:
        message = f"submissions are paused: {reason}"
        raise Refused("submissions_paused", message, retry_after_s=PAUSE_RETRY_S)


class Skip(NamedTuple):
    """Let a projection skip an event; `last` is the end of the log."""

    event: EventSkipped
    last: int


def decide_skip(command: Skip, state: Skipped) -> Sequence[Fact]:
    """Return the permission to skip. Raises `Refused` for a second one or a future event."""
    skip = command.event
    if skip.seq > command.last:
        message = f"the log ends at {command.last}: there is no event {skip.seq}"
        raise Refused("invalid_request", message, "seq")
    if (skip.projection, skip.seq) in state:
        raise Refused("wrong_state", f"{skip.projection} already skips {skip.seq}")
    return (skip,)


def evolve_skip(state: Skipped, fact: Fact) -> Skipped:
    """Return the skipped events after one more event."""
    return state | {(fact.projection, fact.seq)} if isinstance(fact, EventSkipped) else state


SKIP_DECIDER = Decider[Skip, Skipped, Fact](frozenset(), decide_skip, evolve_skip)
