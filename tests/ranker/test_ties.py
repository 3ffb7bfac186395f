"""Ranks claim no more than the times support."""

from dataclasses import replace
from math import exp

from hypothesis import given
from hypothesis import strategies as st

from ranker.domain.places import Place, ScoredEntry, assign_places
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


@given(SCORES)
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


@given(SCORES)
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


@given(SCORES, st.randoms())
def test_the_order_of_asking_changes_nothing(standings: list[ScoredEntry], chance: object) -> None:
    shuffled = list(standings)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign_places(shuffled) == assign_places(standings)


@given(SCORES, st.integers(0, 14))
def test_the_top_is_what_the_whole_begins_with(standings: list[ScoredEntry], least: int) -> None:
    top, all_places = assign_places(standings, least), assign_places(standings)
    assert top == all_places[: len(top)]
    assert len(top) >= min(least, len(all_places))
    assert len(top) == len(all_places) or top == [] or all_places[len(top)].rank > top[-1].rank


def test_who_won_a_duel_stands_before_the_neighbour_it_beat() -> None:
    fast, slow = dueling(1, 0.0, "a"), dueling(2, 0.001, "b", a="0.4 % ± 0.1 %")
    assert assign_places([fast, slow]) == [
        Place(2, 1, True, "ahead of #1 by a duel: 0.4 % ± 0.1 %"),
        Place(1, 1, True),
    ]


def test_a_winner_passes_every_copy_of_what_it_beat() -> None:
    original, copy = dueling(1, 0.0, "a"), dueling(3, 0.0005, "a")
    winner = dueling(2, 0.001, "b", a="1 %")
    assert [place.number for place in assign_places([original, copy, winner])] == [2, 1, 3]


def test_duels_that_go_round_in_a_circle_come_to_an_end() -> None:
    circle = [
        dueling(1, 0.0, "a", b=""),
        dueling(2, 0.001, "b", c=""),
        dueling(3, 0.002, "c", a=""),
    ]
    assert sorted(place.number for place in assign_places(circle)) == [1, 2, 3]


def test_a_duel_means_nothing_between_ranks() -> None:
    fast, slow = dueling(1, 0.0, "a"), dueling(2, 0.05, "b", a="1 %")
    assert assign_places([fast, slow]) == [Place(1, 1, False), Place(2, 2, False)]


def dueling(number: int, share: float, source: str, **beaten: str) -> ScoredEntry:
    """An entry of a source that beat others in duels."""
    return ScoredEntry(number, 100.0 * exp(share), 0.0, 22, 0.003, source, beaten)
