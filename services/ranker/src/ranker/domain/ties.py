"""Which scores are too close to be told apart, and the ranks that follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import exp, log, sqrt

from ranker.domain.student import NORMAL, reach

# A score and a submission's number: the order of a leaderboard's entries.
Key = tuple[float, int]
# Of a logarithm: e^50 times a score is out of anybody's reach.
CERTAIN_MAX = 50.0


@dataclass(frozen=True)
class Standing:
    """An entry's score as far as its rank hangs on it.

    Units: microseconds; `error` is the standard error of ln(score_us), None where nobody knows it;
    `delta` is the share of the score below which a difference means nothing; `source` is the
    source's digest. `ahead_of` are the digests of sources that it beat in a duel, each with by how
    much, in words.
    """

    number: int
    score_us: float
    error: float | None
    freedom: float
    delta: float
    source: str = ""
    ahead_of: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A submission's rank; `is_tied` if another has the same.

    `duel` says that it is before the next one of its rank by a duel.
    """

    number: int
    rank: int
    is_tied: bool
    duel: str = ""


def is_tied(one: Standing, other: Standing) -> bool:
    """Whether the difference of two scores is within what the machine or a cheat could make of it.

    Source: spec/timing.md 4: |L_A - L_B| < max(delta, t * sqrt(se_A^2 + se_B^2)).

    >>> fast, slow = Standing(1, 100.0, 0.0, 22, 0.003), Standing(2, 100.2, 0.0, 22, 0.003)
    >>> is_tied(fast, slow), is_tied(fast, Standing(3, 101.0, 0.0, 22, 0.003))
    (True, False)
    """
    apart = abs(log(one.score_us) - log(other.score_us))
    error, freedom = _difference(one, other)
    return apart < max(one.delta, other.delta, reach(freedom) * error)


def _difference(one: Standing, other: Standing) -> tuple[float, float]:
    """The standard error of the difference of two logarithms, and Welch's degrees of freedom."""
    known = [standing for standing in (one, other) if standing.error]
    squares = [(standing.error or 0.0) ** 2 for standing in known]
    total = sum(squares)
    if any(standing.freedom < 1 for standing in known):
        return sqrt(total), 0.0
    parts = sum(v**2 / standing.freedom for v, standing in zip(squares, known, strict=True))
    return sqrt(total), total**2 / parts if parts else 0.0


def places(standings: Sequence[Standing], least: int | None = None) -> list[Place]:
    """Return the ranks of a whole leaderboard, in order: by rank, of equal ranks by score.

    A copy never stands before what it is a copy of: of one source the earlier submission is first.
    The fastest that is not placed yet leads a group: those after it that are tied with the leader
    share its rank. So ties are no chains: what is told apart from the leader is placed behind it.
    With `least` it ends with the group in which so many are placed.
    """
    found: list[Place] = []
    ordered = sorted(standings, key=lambda one: (one.score_us, one.number))
    wanted = len(ordered) if least is None else min(least, len(ordered))
    while len(found) < wanted:
        group = _group(ordered, len(found))
        rank = len(found) + 1
        found += place_group(_originals_first(group), rank, is_tied=len(group) > 1)
    return found


def place_group(group: Sequence[Standing], rank: int, *, is_tied: bool) -> list[Place]:
    """Return the places of entries that share a rank and are in order but for their duels.

    It may be a part of the group, if nobody beat the entry before the part nor its last entry.
    """
    placed = _winners_first(group)
    following = [*placed[1:], None]
    return [
        Place(one.number, rank, is_tied, _duel_text(one, other))
        for one, other in zip(placed, following, strict=True)
    ]


def certain_reach_us(leader: Standing) -> float:
    """Return a score up to which every entry behind a leader is tied with it, whatever its error.

    >>> leader = Standing(1, 100.0, 0.01, 22, 0.003)
    >>> is_tied(leader, Standing(2, certain_reach_us(leader), None, 0, 0.0))
    True
    """
    least = min(max(leader.delta, NORMAL * (leader.error or 0.0)), CERTAIN_MAX)
    return leader.score_us * exp(least * (1 - 1e-6))


def group_order(group: Sequence[Standing]) -> dict[int, Key]:
    """Return by number where each entry of a group stands in it: with a score, behind a number.

    A copy stands behind the earliest submission of its source, which is its own place otherwise.

    >>> copy, other = Standing(9, 1.0, None, 1, 0.5, "a"), Standing(7, 1.1, None, 1, 0.5, "b")
    >>> group_order([copy, other, Standing(3, 1.2, None, 1, 0.5, "a")])
    {9: (1.2, 3), 7: (1.1, 7), 3: (1.2, 3)}
    """
    earliest: dict[str, Standing] = {}
    for one in sorted(group, key=lambda one: one.number):
        earliest.setdefault(one.source or str(one.number), one)
    found = {}
    for one in group:
        original = earliest[one.source or str(one.number)]
        ahead = original if one.score_us <= original.score_us else one
        found[one.number] = (ahead.score_us, ahead.number)
    return found


def _winners_first(group: Sequence[Standing]) -> list[Standing]:
    """Order neighbours by their duel, where they had one; the others stay in order.

    From the last to the first, so that a winner passes all that it beat, one after the other.

    >>> fast = Standing(1, 1.0, None, 1, 0.5, "a")
    >>> slow = Standing(2, 1.1, None, 1, 0.5, "b", {"a": "0.4 %"})
    >>> [one.number for one in _winners_first([fast, slow])]
    [2, 1]
    """
    ordered = list(group)
    for at in reversed(range(len(ordered) - 1)):
        first, second = ordered[at], ordered[at + 1]
        if first.source in second.ahead_of:
            ordered[at], ordered[at + 1] = second, first
    return ordered


def _duel_text(one: Standing, other: Standing | None) -> str:
    if other is None or other.source not in one.ahead_of:
        return ""
    return f"ahead of #{other.number} by a duel: {one.ahead_of[other.source]}"


def _originals_first(group: Sequence[Standing]) -> list[Standing]:
    """Order by score, but each copy behind the earliest submission of its source.

    >>> copy, other = Standing(9, 1.0, None, 1, 0.5, "a"), Standing(7, 1.1, None, 1, 0.5, "b")
    >>> original = Standing(3, 1.2, None, 1, 0.5, "a")
    >>> [one.number for one in _originals_first([copy, other, original])]
    [7, 3, 9]
    """
    order = group_order(group)
    return sorted(group, key=lambda one: (order[one.number], one.number))


def _group(ordered: Sequence[Standing], first: int) -> list[Standing]:
    """A leader and all directly behind it that cannot be told apart from it."""
    leader = ordered[first]
    behind = (ordered[index] for index in range(first + 1, len(ordered)))
    return [leader, *takewhile(lambda one: is_tied(leader, one), behind)]
