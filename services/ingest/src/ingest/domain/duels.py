"""Duels that operators ask for: two submissions of one leaderboard, timed in alternation."""

from collections.abc import Sequence
from typing import NamedTuple

from shared.errors import Refused
from shared.events import (
    DuelRequested,
    DuelSide,
    Fact,
    SubmissionFinished,
    SubmissionReceived,
)

# What two submissions of one leaderboard have in common.
SAME = {"problem": "problem", "problem_number": "problem version", "gpu": "GPU type"}


class Contender(NamedTuple):
    """A submission by its number, and its history."""

    number: int
    id: str
    facts: Sequence[Fact]

    @property
    def received(self) -> SubmissionReceived:
        """What it is."""
        return next(fact for fact in self.facts if isinstance(fact, SubmissionReceived))


def request_duel(
    first: Contender, second: Contender, gpu: str | None, reason: str
) -> DuelRequested:
    """The duel of two submissions.

    Errors: Refused unless both passed, on one version of a problem and one GPU type.
    """
    one, other = first.received, second.received
    _check_passed(first, "first")
    _check_passed(second, "second")
    for name, what in (
        ("problem", "problem"),
        ("problem_number", "problem version"),
        ("gpu", "GPU type"),
    ):
        here, there = getattr(one, name), getattr(other, name)
        if here != there:
            said = f"{first.number} is of {what} {here}, {second.number} of {there}"
            raise Refused("bad_duel", f"{said}: choose two of one leaderboard", "second")
    if gpu is not None and gpu.lower() != one.gpu.lower():
        said = f"both submissions ran on {one.gpu}, not on {gpu}"
        raise Refused("bad_duel", f"{said}: leave gpu out, or choose others", "gpu")
    if one.source.digest == other.source.digest:
        said = f"{first.number} and {second.number} are the same source"
        raise Refused("bad_duel", f"{said}: choose another", "second")
    return DuelRequested(
        problem=one.problem,
        problem_number=one.problem_number,
        problem_digest=one.problem_digest,
        gpu=one.gpu,
        first=_side(first),
        second=_side(second),
        reason=reason,
    )


def _check_passed(contender: Contender, field: str) -> None:
    ends = [fact for fact in contender.facts if isinstance(fact, SubmissionFinished)]
    if not (ends and ends[-1].outcome == "passed"):
        said = f"submission {contender.number} has not passed"
        raise Refused("bad_duel", f"{said}: choose another", field)


def _side(contender: Contender) -> DuelSide:
    received = contender.received
    return DuelSide(
        submission=contender.id,
        number=contender.number,
        account=received.account,
        source=received.source,
        name=received.name,
    )
