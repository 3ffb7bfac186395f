"""Decides which scores are tied, and the ranks that follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import exp, log

from ranker.domain.score import NORMAL, error_of_difference, t_quantile

# A score and a submission's number: the order of a leaderboard's entries.
EntryKey = tuple[float, int]
# Of a logarithm: no score is e^50 times another.
CERTAIN_MAX = 50.0


@dataclass(frozen=True)
class ScoredEntry:
    """The values of an entry that its rank depends on.

    Units: microseconds; `error` is the standard error of ln(score_us), None if unknown; `delta` is
    the share of the score below which a difference means nothing; `source` is the source's digest.
    `ahead_of` maps the digests of sources that it beat in a duel to the difference in words.
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

    `duel` says that a duel puts it ahead of the next entry of its rank.
    """

    number: int
    rank: int
    is_tied: bool
    duel: str = ""


def is_tied(first: ScoredEntry, second: ScoredEntry) -> bool:
    """Whether the difference of two scores is within machine noise or what a cheat could hide.

    Source: spec/timing.md 4: |L_A - L_B| < max(delta, t * sqrt(se_A^2 + se_B^2)).

    >>> fast, slow = ScoredEntry(1, 100.0, 0.0, 22, 0.003), ScoredEntry(2, 100.2, 0.0, 22, 0.003)
    >>> is_tied(fast, slow), is_tied(fast, ScoredEntry(3, 101.0, 0.0, 22, 0.003))
    (True, False)
    """
    distance = abs(log(first.score_us) - log(second.score_us))
    error, freedom = error_of_difference(
        [(first.error, first.freedom), (second.error, second.freedom)]
    )
    return distance < max(first.delta, second.delta, t_quantile(freedom) * error)


def assign_places(standings: Sequence[ScoredEntry], least: int | None = None) -> list[Place]:
    """Return the ranks of a whole leaderboard, by rank and then by score.

    Of submissions with equal source the earliest is first: a copy never passes its original. The
    fastest entry that is not placed yet leads a group: those after it that are tied with the leader
    share its rank. Ties do not chain: an entry that differs from the leader starts a new group.
    With `least` the list ends with the group that reaches this many entries.
    """
    placed: list[Place] = []
    ordered = sorted(standings, key=lambda entry: (entry.score_us, entry.number))
    count = len(ordered) if least is None else min(least, len(ordered))
    while len(placed) < count:
        group = _group(ordered, len(placed))
        rank = len(placed) + 1
        placed += place_group(_originals_first(group), rank, is_tied=len(group) > 1)
    return placed


def place_group(group: Sequence[ScoredEntry], rank: int, *, is_tied: bool) -> list[Place]:
    """Return the places of entries that share a rank and are in order except for their duels.

    It may be a part of the group if no duel was won against the entry before it or its last entry.
    """
    ordered = _winners_first(group)
    following = [*ordered[1:], None]
    return [
        Place(entry.number, rank, is_tied, _duel_text(entry, next_entry))
        for entry, next_entry in zip(ordered, following, strict=True)
    ]


def certain_reach_us(leader: ScoredEntry) -> float:
    """Return a score up to which every entry behind a leader is certainly tied with it.

    >>> leader = ScoredEntry(1, 100.0, 0.01, 22, 0.003)
    >>> is_tied(leader, ScoredEntry(2, certain_reach_us(leader), None, 0, 0.0))
    True
    """
    least = min(max(leader.delta, NORMAL * (leader.error or 0.0)), CERTAIN_MAX)
    return leader.score_us * exp(least * (1 - 1e-6))


def group_order(group: Sequence[ScoredEntry]) -> dict[int, EntryKey]:
    """Return the sort key of each entry of a group, by number.

    A copy is placed behind the earliest submission of its source, which keeps its own place.

    >>> copy, other = ScoredEntry(9, 1.0, None, 1, 0.5, "a"), ScoredEntry(7, 1.1, None, 1, 0.5, "b")
    >>> group_order([copy, other, ScoredEntry(3, 1.2, None, 1, 0.5, "a")])
    {9: (1.2, 3), 7: (1.1, 7), 3: (1.2, 3)}
    """
    earliest: dict[str, ScoredEntry] = {}
    for entry in sorted(group, key=lambda entry: entry.number):
        earliest.setdefault(entry.source or str(entry.number), entry)
    keys = {}
    for entry in group:
        original = earliest[entry.source or str(entry.number)]
        ahead = original if entry.score_us <= original.score_us else entry
        keys[entry.number] = (ahead.score_us, ahead.number)
    return keys


def _winners_first(group: Sequence[ScoredEntry]) -> list[ScoredEntry]:
    """Order neighbours by their duel, if they had one; the others keep their order.

    Goes from the last to the first, so that a winner passes all that it beat one after the other.

    >>> fast = ScoredEntry(1, 1.0, None, 1, 0.5, "a")
    >>> slow = ScoredEntry(2, 1.1, None, 1, 0.5, "b", {"a": "0.4 %"})
    >>> [entry.number for entry in _winners_first([fast, slow])]
    [2, 1]
    """
    ordered = list(group)
    for at in reversed(range(len(ordered) - 1)):
        first, second = ordered[at], ordered[at + 1]
        if first.source in second.ahead_of:
            ordered[at], ordered[at + 1] = second, first
    return ordered


def _duel_text(entry: ScoredEntry, next_entry: ScoredEntry | None) -> str:
    if next_entry is None or next_entry.source not in entry.ahead_of:
        return ""
    return f"ahead of #{next_entry.number} by a duel: {entry.ahead_of[next_entry.source]}"


def _originals_first(group: Sequence[ScoredEntry]) -> list[ScoredEntry]:
    """Order by score, but each copy behind the earliest submission of its source.

    >>> copy, other = ScoredEntry(9, 1.0, None, 1, 0.5, "a"), ScoredEntry(7, 1.1, None, 1, 0.5, "b")
    >>> original = ScoredEntry(3, 1.2, None, 1, 0.5, "a")
    >>> [entry.number for entry in _originals_first([copy, other, original])]
    [7, 3, 9]
    """
    order = group_order(group)
    return sorted(group, key=lambda entry: (order[entry.number], entry.number))


def _group(ordered: Sequence[ScoredEntry], first: int) -> list[ScoredEntry]:
    """A leader and all entries directly behind it that are tied with it."""
    leader = ordered[first]
    behind = (ordered[index] for index in range(first + 1, len(ordered)))
    return [leader, *takewhile(lambda entry: is_tied(leader, entry), behind)]
