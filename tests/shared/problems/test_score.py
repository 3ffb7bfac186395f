"""One number from the times of the cases, or none."""

import sys
from math import inf, isclose, nan, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.ranking_rules import RANKING_TEXTS, score_us

TIMES = st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=20)


@pytest.mark.parametrize("ranking", RANKING_TEXTS)
@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf, -inf, 5e-324])
def test_one_impossible_time_leaves_no_score(ranking: str, bad: float) -> None:
    assert score_us(ranking, [2.0, bad]) is None
    assert score_us(ranking, [bad, 2.0]) is None


@pytest.mark.parametrize("ranking", RANKING_TEXTS)
def test_no_times_give_no_score(ranking: str) -> None:
    assert score_us(ranking, []) is None


@given(TIMES)
def test_a_mean_lies_between_the_extremes(times: list[float]) -> None:
    for ranking in ("mean", "geom"):
        score = score_us(ranking, times)
        assert score is not None
        assert min(times) * (1 - 1e-9) <= score <= max(times) * (1 + 1e-9)


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=20))
def test_the_geometric_mean_is_the_root_of_the_product(times: list[float]) -> None:
    score = score_us("geom", times)
    assert score is not None
    assert isclose(score, prod(times) ** (1 / len(times)), rel_tol=1e-9)


@pytest.mark.parametrize("ranking", RANKING_TEXTS)
def test_extreme_times_do_not_overflow(ranking: str) -> None:
    for time_us in (sys.float_info.min, sys.float_info.max):
        score = score_us(ranking, [time_us] * 8)
        assert score is not None
        assert isclose(score, time_us, rel_tol=1e-9)


def test_last_takes_the_last_case_alone() -> None:
    assert score_us("last", [9.0, 1.0, 4.0]) == 4.0


@given(st.lists(st.tuples(st.floats(0.5, 2e6), st.integers(1, 9)), min_size=1, max_size=12))
def test_a_weight_counts_a_case_so_many_times(cases: list[tuple[float, int]]) -> None:
    times, weights = [time for time, _ in cases], [float(weight) for _, weight in cases]
    repeated = [time for time, weight in cases for _ in range(weight)]
    for ranking in ("mean", "geom"):
        score, expected = score_us(ranking, times, weights), score_us(ranking, repeated)
        assert score is not None
        assert expected is not None
        assert isclose(score, expected, rel_tol=1e-9)


@given(TIMES)
def test_equal_weights_of_one_are_no_weights_to_the_last_bit(times: list[float]) -> None:
    for ranking in RANKING_TEXTS:
        assert score_us(ranking, times, [1.0] * len(times)) == score_us(ranking, times)


@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf])
def test_an_impossible_weight_leaves_no_score(bad: float) -> None:
    assert score_us("mean", [2.0, 3.0], [1.0, bad]) is None


def test_weights_belong_to_times_one_by_one() -> None:
    with pytest.raises(ValueError, match="zip"):
        score_us("mean", [2.0, 3.0], [1.0])


def test_an_unknown_ranking_is_a_bug() -> None:
    with pytest.raises(ValueError, match="median"):
        score_us("median", [1.0])
