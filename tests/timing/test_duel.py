"""Two kernels in alternation."""

import pytest

from harness.time.estimators import PAIRS, block_order, combine_cases, compare_rounds
from shared.ranking_rules import RANKING_TEXTS, score_us


def test_each_has_as_many_blocks_and_is_as_often_first() -> None:
    plan = block_order()
    assert plan.count("A") == plan.count("B") == PAIRS
    assert plan[::2].count("A") == plan[::2].count("B")


def test_a_steady_drift_favours_neither() -> None:
    places = {name: [at for at, one in enumerate(block_order()) if one == name] for name in "AB"}
    assert sum(places["A"]) == sum(places["B"])


def test_the_faster_one_wins_from_either_side() -> None:
    pairs = [(100.0 + 0.01 * at, 101.0 + 0.01 * at) for at in range(PAIRS)]
    assert compare_rounds([pairs]).winner == "A"
    assert compare_rounds([[(b, a) for a, b in pairs]]).winner == "B"


def test_a_steady_hairs_breadth_is_equal() -> None:
    assert compare_rounds([[(100.0, 100.1)] * PAIRS]).winner == "equal"


def test_pairs_that_disagree_are_equal() -> None:
    pairs = [(100.0, 101.0 if at % 2 else 99.6) for at in range(8)]
    assert compare_rounds([pairs]).winner == "equal"


def test_a_single_pair_decides_nothing() -> None:
    with pytest.raises(ValueError, match="got 1"):
        compare_rounds([[(1.0, 2.0)]])


def test_the_ratio_comes_with_its_interval() -> None:
    found = compare_rounds([[(99.0, 100.0), (99.1, 100.0)] * 4] * 5)
    assert found.winner == "A"
    assert found.interval[0] < found.ratio < found.interval[1]
    assert found.ratio == pytest.approx(0.9905, abs=1e-4)


def test_rounds_that_disagree_are_equal() -> None:
    """One kernel whose processes differ by half a percent is not two kernels."""
    rounds = [[(100.0 + off, 100.0)] * 8 for off in (0.5, -0.4, 0.6, 0.3, 0.1)]
    assert compare_rounds([[pair for pairs in rounds for pair in pairs]]).winner == "B"
    assert compare_rounds(rounds).winner == "equal"


@pytest.mark.parametrize("rule", RANKING_TEXTS)
def test_a_duel_combines_cases_as_the_leaderboard_does(rule: str) -> None:
    assert combine_cases(rule, [9.0, 4.0]) == pytest.approx(score_us(rule, [9.0, 4.0]))
