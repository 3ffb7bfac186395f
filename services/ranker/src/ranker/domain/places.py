"""Which entries of a leaderboard are tied, and the ranks that follow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ranker.domain.score import fast_end_us, interval_us

# A score and a submission's number: the order of a leaderboard's entries.
EntryKey = tuple[float, int]


@dataclass(frozen=True)
class ScoredEntry:
    """The values of an entry that its rank depends on.

    Units: microseconds; `error` is the standard error of ln(score_us), None if unknown; `delta` is
    the share of the score below which a difference means nothing; `source` is the source's digest.
    `ahead_of` maps the digests of sources that it beat in a duel to the difference in words.
    A noisy entry claims no order: it is placed by the slow end of its interval.
    """

    number: int
    score_us: float
    error: float | None
    freedom: float
    delta: float
    source: str = ""
    ahead_of: Mapping[str, str] = field(default_factory=dict)
    is_noisy: bool = False

    @property
    def placed_us(self) -> float:
        """The time that decides the place."""
        return self.interval_us[1] if self.is_noisy else self.score_us

    @property
    def key(self) -> EntryKey:
        """The sort key among the entries of a leaderboard."""
        return self.placed_us, self.number

    @property
    def interval_us(self) -> tuple[float, float]:
        """The interval that is shown."""
        return interval_us(self.score_us, self.error or 0.0, self.freedom, self.delta)


@dataclass(frozen=True)
class Place:
    """A submission's rank; `is_tied` if another has the same.

    `duel` says that a duel puts it ahead of the next entry of its rank. A noisy entry also has the
    `best_rank` that its interval allows, if that is better.
    """

    number: int
    rank: int
    is_tied: bool
    duel: str = ""
    best_rank: int | None = None


class TieGroup:
    """Entries that share a rank: their shown intervals all have a value in common.

    Entries join in the order of their scores. `reach_us` is the least upper end of an interval: an
    entry whose interval begins above it can be told from one of the group. So two entries whose
    intervals do not touch never share a rank, and a wide interval does not join others.

    >>> group = TieGroup(ScoredEntry(1, 100.0, 0.0, 22, 0.02))
    >>> group.takes(ScoredEntry(2, 101.5, 0.0, 22, 0.02))
    True
    >>> group.takes(ScoredEntry(3, 103.0, 0.0, 22, 0.02))
    False
    """

    def __init__(self, leader: ScoredEntry, reach_us: float | None = None) -> None:
        self.leader = leader
        self.reach_us = leader.interval_us[1] if reach_us is None else reach_us

    def takes(self, entry: ScoredEntry) -> bool:
        """Return whether an entry that is not faster than the leader shares the rank."""
        return entry.interval_us[0] <= self.reach_us

    def add(self, entry: ScoredEntry) -> None:
        """Let an entry join."""
        self.reach_us = min(self.reach_us, entry.interval_us[1])


def assign_places(standings: Sequence[ScoredEntry], least: int | None = None) -> list[Place]:
    """Return the ranks of a whole leaderboard, by rank and then by score.

    Entries of equal sources share the place of the earliest, their original, whatever their scores.
    The fastest entry that is not placed yet leads a group, which those after it join as long as the
    intervals of all have a value in common: ties do not chain. A noisy entry stands where its slow
    end does, and its rank is a range.
    With `least` the list ends with the group that reaches this many entries.
    """
    placed: list[Place] = []
    units = copies_behind(standings)
    count = len(standings) if least is None else min(least, len(standings))
    first = 0
    # The reach of each group and how many entries there are up to its end.
    ends: list[tuple[float, int]] = []
    while len(placed) < count:
        group, reach_us = _group(units, first)
        first += len(group)
        rank = len(placed) + 1
        best_ranks = {
            entry.number: _best_rank(unit[0], ends)
            for unit in group
            for entry in unit
            if unit[0].is_noisy
        }
        members = [entry for unit in group for entry in unit]
        placed += place_group(members, rank, best_ranks, is_tied=len(members) > 1)
        ends.append((reach_us, len(placed)))
    return placed


def place_group(
    group: Sequence[ScoredEntry], rank: int, best_ranks: Mapping[int, int], *, is_tied: bool
) -> list[Place]:
    """Return the places of entries that share a rank and are in order except for their duels.

    It may be a part of the group if no duel was won against the entry before it or its last entry.
    `best_ranks` has the best ranks of the noisy entries by number.
    """
    ordered = _winners_first(group)
    following = [*ordered[1:], None]
    places = []
    for entry, next_entry in zip(ordered, following, strict=True):
        best_rank = best_ranks.get(entry.number, rank)
        text = _duel_text(entry, next_entry)
        is_range = best_rank < rank
        places.append(Place(entry.number, rank, is_tied, text, best_rank if is_range else None))
    return places


def _best_rank(entry: ScoredEntry, ends: Sequence[tuple[float, int]]) -> int:
    """Return the best rank that an entry's interval allows: behind those it can be told from."""
    fast_us = fast_end_us(entry.score_us, entry.placed_us)
    return 1 + next((count for reach_us, count in reversed(ends) if reach_us < fast_us), 0)


def copies_behind(standings: Iterable[ScoredEntry]) -> list[list[ScoredEntry]]:
    """Return the entries in order, those of equal sources together: the original is first.

    >>> copy, other = ScoredEntry(9, 1.0, None, 1, 0.5, "a"), ScoredEntry(7, 1.1, None, 1, 0.5, "b")
    >>> units = copies_behind([copy, other, ScoredEntry(3, 1.2, None, 1, 0.5, "a")])
    >>> [[entry.number for entry in unit] for unit in units]
    [[7], [3, 9]]
    """
    units: dict[str, list[ScoredEntry]] = {}
    for entry in sorted(standings, key=lambda entry: entry.number):
        units.setdefault(entry.source or str(entry.number), []).append(entry)
    return sorted(units.values(), key=lambda unit: unit[0].key)


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


def _group(units: Sequence[list[ScoredEntry]], first: int) -> tuple[list[list[ScoredEntry]], float]:
    """A leader and the entries directly behind it that share its rank, and their reach.

    Copies share the rank of their original and limit nobody else.
    """
    group, members = TieGroup(units[first][0]), [units[first]]
    for unit in islice(units, first + 1, None):
        if not group.takes(unit[0]):
            break
        group.add(unit[0])
        members.append(unit)
    return members, group.reach_us
