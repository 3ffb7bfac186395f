"""Which entries of a leaderboard are tied, and the ranks that follow."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from math import inf, log, nextafter
from typing import NamedTuple

from ranker.domain.score import fast_end_us, interval_us
from shared.presentation.units import difference_text

# A score and a submission's number: the order of a leaderboard's entries.
EntryKey = tuple[float, int]


class Win(NamedTuple):
    """A duel that a source won: the ratio of the two times, with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The difference in words."""
        return difference_text(self.ratio, (self.low, self.high))

    @property
    def least(self) -> float:
        """The least difference that the interval allows, in the logarithm; 0 if it has 1 inside.

        >>> round(Win(0.99, 0.98, 0.995).least, 4), round(Win(1.01, 1.005, 1.02).least, 4)
        (0.005, 0.005)
        """
        if self.low > 1:
            return log(self.low)
        return -log(self.high) if 0 < self.high < 1 else 0.0


@dataclass(frozen=True)
class ScoredEntry:
    """The values of an entry that its rank depends on.

    Units: microseconds; `error` is the standard error of ln(score_us), None if unknown; `delta` is
    the share of the score below which a difference means nothing; `source` is the source's digest.
    `ahead_of` has the duels that it won by the digests of the sources that it beat.
    A noisy entry claims no order: it is placed by the slow end of its interval.
    """

    number: int
    score_us: float
    error: float | None
    freedom: float
    delta: float
    source: str = ""
    ahead_of: Mapping[str, Win] = field(default_factory=dict)
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

    def is_separated_from(self, other: "ScoredEntry") -> bool:
        """Whether a duel that it won against an entry gives the two different ranks.

        It does if their scores cannot tell them apart, and the whole interval of the duel says more
        than `delta`, which no duel sees. A noisy winner claims no order.
        """
        win = self.ahead_of.get(other.source)
        if win is None or self.is_noisy or win.least <= max(self.delta, other.delta):
            return False
        (low_us, high_us), (other_low_us, other_high_us) = self.interval_us, other.interval_us
        return low_us <= other_high_us and other_low_us <= high_us


@dataclass(frozen=True)
class Place:
    """A submission's rank; `is_tied` if another has the same.

    `duel` says that a duel puts it ahead of the next entry. A noisy entry also has the `best_rank`
    that its interval allows, if that is better.
    """

    number: int
    rank: int
    is_tied: bool
    duel: str = ""
    best_rank: int | None = None


class Unit(NamedTuple):
    """Entries of equal sources, which stand together at a key: the original is first."""

    key: EntryKey
    entries: list[ScoredEntry]

    @property
    def original(self) -> ScoredEntry:
        """The earliest entry."""
        return self.entries[0]


class TieGroup:
    """Entries that share a rank: their shown intervals all have a value in common.

    Entries join in their order. `reach_us` is the least upper end of an interval: an entry whose
    interval begins above it can be told from one of the group. So two entries whose intervals do
    not touch never share a rank, and a wide interval does not join others. Nor do two that a duel
    separates.

    >>> group = TieGroup(ScoredEntry(1, 100.0, 0.0, 22, 0.02))
    >>> group.takes(ScoredEntry(2, 101.5, 0.0, 22, 0.02))
    True
    >>> group.takes(ScoredEntry(3, 103.0, 0.0, 22, 0.02))
    False
    """

    def __init__(self, leader: ScoredEntry) -> None:
        self._low_us, self.reach_us = leader.interval_us
        self._members: dict[str, ScoredEntry] = {}
        self._winners: list[ScoredEntry] = []
        self.add(leader)

    def takes(self, entry: ScoredEntry) -> bool:
        """Return whether the next entry shares the rank."""
        low_us, high_us = entry.interval_us
        if low_us > self.reach_us or high_us < self._low_us:
            return False
        beaten = (self._members[loser] for loser in entry.ahead_of if loser in self._members)
        return not (
            any(entry.is_separated_from(member) for member in beaten)
            or any(winner.is_separated_from(entry) for winner in self._winners)
        )

    def add(self, entry: ScoredEntry) -> None:
        """Let an entry join."""
        low_us, high_us = entry.interval_us
        self._low_us, self.reach_us = max(self._low_us, low_us), min(self.reach_us, high_us)
        self._members[entry.source] = entry
        if entry.ahead_of:
            self._winners.append(entry)


class _End(NamedTuple):
    """The end of a group: how many entries there are up to it."""

    first_us: float
    reach_us: float
    entries_count: int


def assign_places(standings: Sequence[ScoredEntry], least: int | None = None) -> list[Place]:
    """Return the ranks of a whole leaderboard, by rank and then by score.

    Entries of equal sources share the place of the earliest, their original, whatever their scores.
    The first entry that is not placed yet leads a group, which those after it join as long as the
    intervals of all have a value in common and no duel separates two: ties do not chain. A noisy
    entry stands where its slow end does, and its rank is a range.
    With `least` the list ends with the group that reaches this many entries.
    """
    placed: list[RankedEntry] = []
    units = arrange(standings)
    count = len(standings) if least is None else min(least, len(standings))
    first = end = 0
    ends: list[_End] = []
    while first < len(units):
        # The next group is only for what is said of the last entry.
        is_next = len(placed) >= count
        group, reach_us = _group(units, first)
        rank = len(placed) + 1
        best_ranks = {
            entry.number: _best_rank(unit.original, ends)
            for unit in group
            for entry in unit.entries
            if unit.original.is_noisy
        }
        members = [entry for unit in group for entry in unit.entries]
        placed += place_group(members, rank, best_ranks, is_tied=len(members) > 1)
        if is_next:
            break
        end = len(placed)
        ends.append(_End(units[first].key[0], reach_us, end))
        first += len(group)
    return say_duels(placed)[:end]


class RankedEntry(NamedTuple):
    """An entry and its place."""

    entry: ScoredEntry
    place: Place


def place_group(
    group: Sequence[ScoredEntry], rank: int, best_ranks: Mapping[int, int], *, is_tied: bool
) -> list[RankedEntry]:
    """Return the places of entries that share a rank and are in order except for their duels.

    It may be a part of the group if no duel was won against the entry before it or its last entry.
    `best_ranks` has the best ranks of the noisy entries by number.
    """
    placed = []
    for entry in _winners_first(group):
        best_rank = best_ranks.get(entry.number, rank)
        is_range = best_rank < rank
        place = Place(entry.number, rank, is_tied, best_rank=best_rank if is_range else None)
        placed.append(RankedEntry(entry, place))
    return placed


def say_duels(placed: Sequence[RankedEntry]) -> list[Place]:
    """Return the places, each with the duel that puts it ahead of the next one, if any."""
    places = [place for _, place in placed]
    for at, ((entry, place), (other, next_place)) in enumerate(pairwise(placed)):
        is_shared = place.rank == next_place.rank and other.source in entry.ahead_of
        if is_shared or entry.is_separated_from(other):
            difference = entry.ahead_of[other.source].text
            places[at] = replace(place, duel=f"ahead of #{other.number} by a duel: {difference}")
    return places


def _best_rank(entry: ScoredEntry, ends: Sequence[_End]) -> int:
    """Return the best rank that an entry's interval allows: behind those it can be told from."""
    fast_us = fast_end_us(entry.score_us, entry.placed_us)
    ends_before = (end for end in reversed(ends) if max(end.first_us, end.reach_us) < fast_us)
    return 1 + next((end.entries_count for end in ends_before), 0)


def arrange(standings: Iterable[ScoredEntry]) -> list[Unit]:
    """Return the entries in order, copies with their originals.

    Who lost a duel that separates stands behind the winner, even where the order by score is the
    other one.

    >>> copy, other = ScoredEntry(9, 1.0, None, 1, 0.5, "a"), ScoredEntry(7, 1.1, None, 1, 0.5, "b")
    >>> units = arrange([copy, other, ScoredEntry(3, 1.2, None, 1, 0.5, "a")])
    >>> [[entry.number for entry in unit.entries] for unit in units]
    [[7], [3, 9]]
    """
    by_source: dict[str, list[ScoredEntry]] = {}
    for entry in sorted(standings, key=lambda entry: entry.number):
        by_source.setdefault(entry.source or str(entry.number), []).append(entry)
    originals = {source: entries[0] for source, entries in by_source.items()}
    keys = _stand_behind_winners(originals)
    return sorted(Unit(keys[entries[0].number], entries) for entries in by_source.values())


def _stand_behind_winners(originals: Mapping[str, ScoredEntry]) -> dict[int, EntryKey]:
    """Return the key of each original: its own, or one behind a slower entry that beat it."""
    keys = {entry.number: entry.key for entry in originals.values()}
    winners: dict[str, list[ScoredEntry]] = defaultdict(list)
    for winner in originals.values():
        for loser in winner.ahead_of.keys() & originals.keys():
            if winner.key > originals[loser].key and winner.is_separated_from(originals[loser]):
                winners[loser].append(winner)
    # The slowest first: a winner's own key is known when its losers are placed.
    for loser in sorted(winners, key=lambda source: originals[source].key, reverse=True):
        entry = originals[loser]
        last_us = max(keys[winner.number][0] for winner in winners[loser])
        keys[entry.number] = nextafter(last_us, inf), entry.number
    return keys


def _winners_first(group: Sequence[ScoredEntry]) -> list[ScoredEntry]:
    """Order neighbours by their duel, if they had one; the others keep their order.

    Goes from the last to the first, so that a winner passes all that it beat one after the other.

    >>> fast = ScoredEntry(1, 1.0, None, 1, 0.5, "a")
    >>> slow = ScoredEntry(2, 1.1, None, 1, 0.5, "b", {"a": Win(1.004, 1.003, 1.005)})
    >>> [entry.number for entry in _winners_first([fast, slow])]
    [2, 1]
    """
    ordered = list(group)
    for at in reversed(range(len(ordered) - 1)):
        first, second = ordered[at], ordered[at + 1]
        if first.source in second.ahead_of:
            ordered[at], ordered[at + 1] = second, first
    return ordered


def _group(units: Sequence[Unit], first: int) -> tuple[list[Unit], float]:
    """A leader and the entries directly behind it that share its rank, and their reach.

    Copies share the rank of their original and limit nobody else.
    """
    group, members = TieGroup(units[first].original), [units[first]]
    for unit in islice(units, first + 1, None):
        if not group.takes(unit.original):
            break
        group.add(unit.original)
        members.append(unit)
    return members, group.reach_us
