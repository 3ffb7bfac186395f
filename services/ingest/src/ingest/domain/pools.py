"""Pools, as operators treat them: paused, resumed, and watched by a canary."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shared.decider import Decider
from shared.errors import Refused
from shared.events import (
    CanaryChosen,
    CanaryRemoved,
    Fact,
    PoolPaused,
    PoolResumed,
    SubmissionFinished,
    SubmissionReceived,
)


@dataclass(frozen=True)
class Pool:
    """A pool as its history tells it."""

    is_paused: bool = False
    canary: CanaryChosen | None = None


@dataclass(frozen=True)
class Pause:
    """Give out no job of this GPU type."""

    reason: str


@dataclass(frozen=True)
class Resume:
    """Give out jobs of this GPU type again."""

    reason: str


@dataclass(frozen=True)
class ChooseCanary:
    """Run this submission on every agent of the pool, again and again."""

    canary: CanaryChosen


@dataclass(frozen=True)
class RemoveCanary:
    """Run no canary any more."""

    reason: str


PoolCommand = Pause | Resume | ChooseCanary | RemoveCanary


def decide(command: PoolCommand, state: Pool) -> Sequence[Fact]:
    """What is done to a pool. Errors: Refused if it is so already."""
    match command:
        case Pause(reason):
            if state.is_paused:
                raise Refused("wrong_state", "this pool is paused already")
            return (PoolPaused(reason=reason),)
        case Resume(reason):
            if not state.is_paused:
                raise Refused("wrong_state", "this pool is not paused")
            return (PoolResumed(reason=reason),)
        case RemoveCanary(reason):
            if state.canary is None:
                raise Refused("wrong_state", "this pool has no canary")
            return (CanaryRemoved(reason=reason),)
    return () if command.canary == state.canary else (command.canary,)


def evolve(state: Pool, fact: Fact) -> Pool:
    """What a pool is after one more event."""
    match fact:
        case PoolPaused():
            return replace(state, is_paused=True)
        case PoolResumed():
            return replace(state, is_paused=False)
        case CanaryChosen():
            return replace(state, canary=fact)
        case CanaryRemoved():
            return replace(state, canary=None)
    return state


pools = Decider[PoolCommand, Pool, Fact](Pool(), decide, evolve)


@dataclass(frozen=True)
class Canary:
    """What an operator wants of a canary."""

    gpu: str
    every_s: float
    ratio_max: float


def canary(wanted: Canary, submission: str, history: Iterable[Fact]) -> CanaryChosen:
    """The canary that a submission makes. Errors: Refused unless it passed on this GPU type."""
    facts = list(history)
    received = next(fact for fact in facts if isinstance(fact, SubmissionReceived))
    ends = [fact for fact in facts if isinstance(fact, SubmissionFinished)]
    if received.gpu != wanted.gpu:
        what = f"the submission ran on {received.gpu}, the pool is of {wanted.gpu}"
        raise Refused("bad_canary", f"{what}: choose another", "submission")
    if not (ends and ends[-1].outcome == "passed"):
        raise Refused("bad_canary", "a canary must have passed: choose another", "submission")
    if (count := received.requires.count) > 1:
        what = f"a canary runs on one agent, and this submission takes {count} GPUs"
        raise Refused("bad_canary", f"{what}: choose another", "submission")
    return CanaryChosen(
        submission=submission,
        account=received.account,
        problem=received.problem,
        problem_number=received.problem_number,
        problem_digest=received.problem_digest,
        source=received.source,
        name=received.name,
        every_s=wanted.every_s,
        ratio_max=wanted.ratio_max,
    )
