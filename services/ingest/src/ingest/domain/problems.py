"""Problems: which versions there are, and whether files make another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from shared.decider import Decider
from shared.errors import Refused
from shared.events import Fact, ProblemPublished


@dataclass(frozen=True)
class Problem:
    """A problem as its history tells it; `published` is the newest version, None before any.

    `digests` has that of every version, by number.
    """

    published: ProblemPublished | None = None
    digests: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Publish:
    """The files of a problem, compiled; its number is given by the decision."""

    version: ProblemPublished


def decide(command: Publish, state: Problem) -> Sequence[Fact]:
    """A new version if the digest differs from the newest one, else nothing."""
    newest = state.published
    if newest is not None and newest.digest == command.version.digest:
        return ()
    return (structs.replace(command.version, number=newest.number + 1 if newest else 1),)


def evolve(state: Problem, fact: Fact) -> Problem:
    """What a problem is after one more event."""
    if not isinstance(fact, ProblemPublished):
        return state
    return Problem(fact, {**state.digests, fact.number: fact.digest})


problems = Decider[Publish, Problem, Fact](Problem(), decide, evolve)


def known(slug: str, state: Problem) -> ProblemPublished:
    """The newest version of a problem. Errors: Refused `unknown_leaderboard`."""
    if state.published is None:
        raise Refused(
            "unknown_leaderboard",
            f"there is no leaderboard {slug!r}; GET /v1/problems lists them",
            "problem",
        )
    return state.published
