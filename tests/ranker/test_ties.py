"""Ranks claim no more than the times support."""

from dataclasses import replace
from math import exp

from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.places import Place, ScoredEntry, Win, assign_places
from ranker.domain.score import fast_end_us

SCORES = st.lists(
    st.builds(
        ScoredEntry,
        number=st.integers(1, 10**6),
        score_us=st.floats(1.0, 1e6),
        error=st.none() | st.floats(0.0, 0.05),
        freedom=st.floats(0.0, 60.0),
        delta=st.floats(0.0, 0.05),
        is_noisy=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda item: item.number,
)


SOURCES = [f"s{number}" for number in range(8)]
WINS = st.builds(
    lambda middle, half: Win(exp(middle), exp(middle - half), exp(middle + half)),
    st.floats(-0.05, 0.05),
    st.floats(0.0, 0.01),
)
# Entries within a tenth of each other, most of them tied, that had duels.
DUELED = st.lists(
    st.builds(
        ScoredEntry,
        number=st.integers(1, 10**6),
        score_us=st.floats(100.0, 110.0),
        error=st.floats(0.0, 0.03),
        freedom=st.just(22),
        delta=st.sampled_from([0.003, 0.02]),
        source=st.sampled_from(SOURCES),
        ahead_of=st.dictionaries(st.sampled_from(SOURCES), WINS, max_size=3),
        is_noisy=st.integers(0, 5).map(lambda chance: chance == 0),
    ),
    max_size=8,
    unique_by=(lambda item: item.number, lambda item: item.source),
).map(lambda items: [without_lost(item, items) for item in items])


def without_lost(item: ScoredEntry, items: list[ScoredEntry]) -> ScoredEntry:
    """The entry, whose wins are only those that no earlier entry has against it."""
    earlier = items[: items.index(item)]
    lost = {other.source for other in earlier if item.source in other.ahead_of} | {item.source}
    wins = {loser: win for loser, win in item.ahead_of.items() if loser not in lost}
    return replace(item, ahead_of=wins)


def entry(
    number: int, share: float, error: float | None = 0.0, delta: float = 0.003
) -> ScoredEntry:
    return ScoredEntry(number, 100.0 * exp(share), error, 22, delta)


def is_tied(first: ScoredEntry, second: ScoredEntry) -> bool:
    return assign_places([first, second])[0].is_tied


def ranks(*standings: ScoredEntry) -> list[tuple[int, int]]:
    return [(place.number, place.rank) for place in assign_places(standings)]


def test_a_clear_difference_makes_a_rank() -> None:
    assert ranks(entry(1, 0.05), entry(2, 0.0)) == [(2, 1), (1, 2)]


def test_tied_entries_stand_in_the_order_of_their_scores() -> None:
    assert assign_places([entry(3, 0.002), entry(7, 0.0)]) == [Place(7, 1, True), Place(3, 1, True)]
    assert assign_places([entry(7, 0.0), entry(3, 0.0)]) == [Place(3, 1, True), Place(7, 1, True)]


def test_ties_make_no_chains() -> None:
    steps = [entry(number, 0.002 * number) for number in range(1, 5)]
    assert ranks(*steps) == [(1, 1), (2, 1), (3, 3), (4, 3)]


def test_entries_whose_intervals_do_not_touch_share_no_rank_through_a_wider_one() -> None:
    wide = entry(1, 0.0, delta=0.1)
    assert ranks(wide, entry(2, 0.01), entry(3, 0.03)) == [(1, 1), (2, 1), (3, 3)]


def noisy(number: int, share: float, delta: float) -> ScoredEntry:
    return replace(entry(number, share, delta=delta), is_noisy=True)


def test_a_noisy_entry_has_every_rank_that_its_interval_touches_and_stands_at_the_last() -> None:
    quiet = [entry(number, 0.02 * number) for number in range(1, 6)]
    places_ = assign_places([noisy(9, 0.05, delta=0.08), *quiet])
    assert [(place.number, place.best_rank, place.rank) for place in places_] == [
        *((1, None, 1), (2, None, 2), (3, None, 3)),
        *((4, None, 4), (9, 1, 4), (5, None, 6)),
    ]


def test_a_noisy_entry_is_ahead_of_those_alone_that_it_can_be_told_from() -> None:
    assert assign_places([noisy(1, 0.0, delta=0.1), entry(2, 0.06)]) == [
        Place(1, 1, False),
        Place(2, 2, False),
    ]
    assert assign_places([noisy(1, 0.0, delta=0.1), entry(2, 0.04)]) == [
        Place(2, 1, True),
        Place(1, 1, True),
    ]


def sourced(number: int, share: float, source: str) -> ScoredEntry:
    return replace(entry(number, share), source=source)


def test_equal_sources_share_a_rank_whatever_their_scores() -> None:
    original, faster, slower = (
        sourced(3, 0.1, "a"),
        sourced(7, 0.0, "a"),
        sourced(9, 0.5, "a"),
    )
    others = [entry(1, 0.05), entry(2, 0.2)]
    assert ranks(slower, faster, original, *others) == [(1, 1), (3, 2), (7, 2), (9, 2), (2, 5)]


def test_a_copy_has_the_range_of_a_noisy_original() -> None:
    original = replace(noisy(3, 0.0, delta=0.1), source="a")
    places_ = assign_places([original, sourced(7, 0.0, "a"), entry(1, -0.02), entry(2, 0.02)])
    assert [(place.number, place.best_rank, place.rank) for place in places_] == [
        *((1, None, 1), (2, None, 2), (3, 1, 2), (7, 1, 2)),
    ]


@given(SCORES, st.data())
def test_a_copy_counts_as_one_more_entry_and_changes_nothing_else(
    standings: list[ScoredEntry], data: st.DataObject
) -> None:
    originals = [replace(item, source=f"s{item.number}") for item in standings]
    if not originals:
        return
    source = data.draw(st.sampled_from(originals)).source
    score_us = data.draw(st.floats(1.0, 1e6))
    copy = ScoredEntry(10**7, score_us, 0.01, 22, 0.003, source)
    before = {place.number: place.rank for place in assign_places(originals)}
    after = {place.number: place.rank for place in assign_places([*originals, copy])}
    shared = before[int(source[1:])]
    for number, rank in before.items():
        assert after[number] == rank + (rank > shared)
    assert after[copy.number] == shared


@given(SCORES)
def test_nobody_has_a_better_rank_for_being_noisy(standings: list[ScoredEntry]) -> None:
    for one in standings:
        others = [other for other in standings if other is not one]
        ranks_ = [
            next(
                place.rank
                for place in assign_places([*others, replace(one, is_noisy=is_noisy)])
                if place.number == one.number
            )
            for is_noisy in (False, True)
        ]
        assert ranks_[0] <= ranks_[1]


@given(SCORES)
def test_a_noisy_range_has_no_rank_that_is_told_apart(standings: list[ScoredEntry]) -> None:
    by_number = {item.number: item for item in standings}
    places_ = assign_places(standings)
    for place in places_:
        one = by_number[place.number]
        fast_us = fast_end_us(one.score_us, one.placed_us)
        for rank in {other.rank for other in places_}:
            slow_ends = [
                by_number[other.number].interval_us[1] for other in places_ if other.rank == rank
            ]
            if place.best_rank is not None and rank < place.rank:
                assert (min(slow_ends) < fast_us) == (rank < place.best_rank)


@given(SCORES | DUELED)
def test_a_shared_rank_means_that_intervals_touch(standings: list[ScoredEntry]) -> None:
    bars = {item.number: item.interval_us for item in standings}
    places_ = assign_places(standings)
    for place in places_:
        for other in places_:
            if other.rank == place.rank:
                assert bars[place.number][0] <= bars[other.number][1]


def test_a_rank_counts_everybody_before_it() -> None:
    places_ = assign_places([entry(1, 0.0), entry(2, 0.001), entry(3, 0.1)])
    assert [(item.rank, item.is_tied) for item in places_] == [(1, True), (1, True), (3, False)]


def test_the_errors_of_both_widen_the_band() -> None:
    assert not is_tied(entry(1, 0.0), entry(2, 0.02))
    assert is_tied(entry(1, 0.0, error=0.01), entry(2, 0.02, error=0.01))
    assert not is_tied(entry(1, 0.0, error=0.01), entry(2, 0.05, error=0.01))


def test_few_degrees_of_freedom_widen_it_further() -> None:
    few = ScoredEntry(1, 100.0, 0.01, 2, 0.003)
    assert is_tied(few, ScoredEntry(2, 104.0, 0.0, 0, 0.003))
    assert not is_tied(ScoredEntry(1, 100.0, 0.01, 60, 0.003), ScoredEntry(2, 104.0, 0.0, 0, 0.003))


def test_what_cannot_be_told_apart_is_part_of_the_shown_interval() -> None:
    low_us, high_us = entry(1, 0.0, delta=0.02).interval_us
    assert (round(low_us, 2), round(high_us, 2)) == (99.0, 101.01)
    assert is_tied(entry(1, 0.0, delta=0.02), entry(2, 0.011))


@given(SCORES | DUELED)
def test_every_entry_gets_one_rank_and_order_follows_it(standings: list[ScoredEntry]) -> None:
    places_ = assign_places(standings)
    assert sorted(item.number for item in places_) == sorted(
        standing.number for standing in standings
    )
    assert [item.rank for item in places_] == sorted(item.rank for item in places_)
    for index, place in enumerate(places_, 1):
        shared = [other for other in places_ if other.rank == place.rank]
        assert place.rank <= index < place.rank + len(shared)
        assert place.is_tied == (len(shared) > 1)


@given(SCORES | DUELED, st.randoms())
def test_the_order_of_asking_changes_nothing(standings: list[ScoredEntry], chance: object) -> None:
    shuffled = list(standings)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign_places(shuffled) == assign_places(standings)


@given(SCORES | DUELED, st.integers(0, 14))
def test_the_top_is_what_the_whole_begins_with(standings: list[ScoredEntry], least: int) -> None:
    top, all_places = assign_places(standings, least), assign_places(standings)
    assert top == all_places[: len(top)]
    assert len(top) >= min(least, len(all_places))
    assert len(top) == len(all_places) or top == [] or all_places[len(top)].rank > top[-1].rank


CLOSE, CLEAR = Win(1.004, 1.001, 1.007), Win(1.01, 1.009, 1.011)


def test_who_won_a_duel_within_what_it_cannot_see_stands_first_in_the_shared_rank() -> None:
    fast, slow = dueling(1, 0.0, "a"), dueling(2, 0.001, "b", a=CLOSE)
    assert assign_places([fast, slow]) == [
        Place(2, 1, True, "ahead of #1 by a duel: 0.4 % ± 0.3 %"),
        Place(1, 1, True),
    ]


def test_a_winner_passes_every_copy_of_what_it_beat() -> None:
    original, copy = dueling(1, 0.0, "a"), dueling(3, 0.0005, "a")
    winner = dueling(2, 0.001, "b", a=CLOSE)
    assert [place.number for place in assign_places([original, copy, winner])] == [2, 1, 3]


def test_duels_that_go_round_in_a_circle_come_to_an_end() -> None:
    for win in (CLOSE, CLEAR):
        circle = [
            dueling(1, 0.0, "a", b=win),
            dueling(2, 0.001, "b", c=win),
            dueling(3, 0.002, "c", a=win),
        ]
        assert sorted(place.number for place in assign_places(circle)) == [1, 2, 3]


def test_a_duel_means_nothing_between_ranks() -> None:
    fast, slow = dueling(1, 0.0, "a"), dueling(2, 0.05, "b", a=CLEAR)
    assert assign_places([fast, slow]) == [Place(1, 1, False), Place(2, 2, False)]


AHEAD = "by a duel: 0.99 % ± 0.099 %"


def test_a_duel_that_separates_two_separates_their_ranks() -> None:
    fast, slow = dueling(1, 0.0, "a", b=CLEAR), dueling(2, 0.001, "b")
    assert assign_places([fast, slow]) == [
        Place(1, 1, False, f"ahead of #2 {AHEAD}"),
        Place(2, 2, False),
    ]


def test_who_lost_a_duel_to_a_slower_entry_stands_behind_it() -> None:
    fast, slow = dueling(1, 0.0, "a"), dueling(2, 0.001, "b", a=CLEAR)
    between, behind = dueling(3, 0.0005, "c"), dueling(4, 0.0015, "d")
    assert assign_places([fast, slow, between, behind]) == [
        Place(3, 1, True),
        Place(2, 1, True, f"ahead of #1 {AHEAD}"),
        Place(1, 3, True),
        Place(4, 3, True),
    ]


def test_a_loser_shares_no_rank_with_its_winner_whoever_stands_between() -> None:
    winner, loser = dueling(1, 0.0, "a", c=CLEAR), dueling(3, 0.002, "c")
    assert ranks(winner, dueling(2, 0.001, "b"), loser) == [(1, 1), (2, 1), (3, 3)]


def test_copies_of_a_loser_go_with_it() -> None:
    winner, loser, copy = (
        dueling(2, 0.001, "b", a=CLEAR),
        dueling(1, 0.0, "a"),
        dueling(3, 0.0005, "a"),
    )
    assert ranks(winner, loser, copy) == [(2, 1), (1, 2), (3, 2)]


def test_a_duel_separates_by_more_than_delta_alone() -> None:
    wide = replace(dueling(1, 0.0, "a", b=CLEAR), delta=0.02)
    assert ranks(wide, dueling(2, 0.001, "b")) == [(1, 1), (2, 1)]


def test_a_noisy_winner_separates_nobody_and_a_noisy_loser_is_separated() -> None:
    winner, loser = dueling(1, 0.0, "a", b=CLEAR), dueling(2, 0.001, "b")
    assert ranks(replace(winner, is_noisy=True), loser) == [(1, 1), (2, 1)]
    assert ranks(winner, replace(loser, is_noisy=True)) == [(1, 1), (2, 2)]


@given(DUELED)
def test_no_duel_that_separates_is_between_two_of_one_rank(standings: list[ScoredEntry]) -> None:
    by_number = {item.number: item for item in standings}
    at = {place.number: (place.rank, by_number[place.number]) for place in assign_places(standings)}
    for rank, one in at.values():
        for other_rank, other in at.values():
            if one is not other and one.is_separated_from(other):
                assert rank != other_rank


@given(DUELED)
def test_a_winner_stands_ahead_unless_it_lost_another_duel(standings: list[ScoredEntry]) -> None:
    ranks_ = {place.number: place.rank for place in assign_places(standings)}
    for one in standings:
        is_beaten = any(other.is_separated_from(one) for other in standings)
        for other in standings:
            if one.is_separated_from(other) and not is_beaten:
                assert ranks_[one.number] < ranks_[other.number]


def dueling(number: int, share: float, source: str, **beaten: Win) -> ScoredEntry:
    """An entry of a source that beat others in duels."""
    return ScoredEntry(number, 100.0 * exp(share), 0.0, 22, 0.003, source, beaten)
