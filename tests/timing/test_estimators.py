"""The arithmetic: robust where it must be, unbiased where it can be."""

from random import Random
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.time.estimators import (
    block_value,
    estimate_ratio,
    interquartile_mean,
    mean_without_top,
    quantile,
    t_quantile,
    trend_p,
    trimmed_mean,
)

VALUES = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60)


@given(VALUES)
def test_every_mean_lies_among_its_values(values: list[float]) -> None:
    low, high = min(values) * (1 - 1e-9), max(values) * (1 + 1e-9)
    for estimator in (interquartile_mean, mean_without_top):
        assert low <= estimator(values) <= high


@given(VALUES, st.randoms())
def test_the_order_of_samples_does_not_matter(values: list[float], chance: Random) -> None:
    shuffled = list(values)
    chance.shuffle(shuffled)
    assert interquartile_mean(shuffled) == interquartile_mean(values)
    assert mean_without_top(shuffled) == mean_without_top(values)


def test_a_quarter_of_outliers_does_not_move_a_block() -> None:
    assert interquartile_mean([2.0] * 15 + [900.0] * 5) == 2.0


def test_edges_of_the_middle_half_count_in_part() -> None:
    assert interquartile_mean([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(3.0)
    assert interquartile_mean([0.0, 0.0, 6.0]) == pytest.approx(1.0)


def _read(time_us: float, step_us: float, chance: Random) -> float:
    began = chance.random() * step_us
    return step_us * ((began + time_us) // step_us)


def test_a_coarse_clock_does_not_bias_a_block() -> None:
    chance = Random(3)
    samples = [_read(3.1 * (1 + 0.01 * chance.gauss(0, 1)), 0.5, chance) for _ in range(4000)]
    assert block_value(samples, 0.5) == pytest.approx(3.1, rel=0.01)
    assert abs(median(samples) / 3.1 - 1) > 0.02


def test_a_fifth_of_the_values_at_each_end_does_not_count() -> None:
    mean, error, freedom = trimmed_mean([0.0, 1.0, 1.1, 0.9, 90.0])
    assert mean == pytest.approx(1.0)
    assert error < 0.1
    assert freedom == 2


def test_a_mean_of_one_value_has_no_error() -> None:
    with pytest.raises(ValueError, match="needs 2 values and got 1"):
        trimmed_mean([1.0])


def test_the_error_of_processes_is_what_is_known_or_what_they_show() -> None:
    alike, apart = [[0.1, 0.1]] * 3, [[0.0, 0.0], [0.1, 0.1], [0.2, 0.2]]
    assert estimate_ratio(alike, 0.03).error == pytest.approx(0.03 * (8 / 10) ** 0.5 / 3**0.5)
    assert estimate_ratio(apart, 0.03).error == pytest.approx(0.1 / 3**0.5)
    assert estimate_ratio(apart, 0.03).processes == pytest.approx((0.0, 0.1, 0.2))


def test_pairs_that_differ_widen_the_interval_of_one_process() -> None:
    chance = Random(1)
    noisy = [chance.gauss(0, 0.1) for _ in range(20)]
    assert estimate_ratio([noisy], 0.001).error > 0.015


def test_the_interval_of_a_ratio_is_symmetric_in_logarithms() -> None:
    low, high = estimate_ratio([[0.0, 0.02, 0.01, 0.0]], 0.01).interval
    ratio = estimate_ratio([[0.0, 0.02, 0.01, 0.0]], 0.01)
    assert low * high == pytest.approx(2.718281828 ** (2 * ratio.log))
    assert t_quantile(1) == 12.706
    assert t_quantile(1e9) == pytest.approx(1.95996, abs=1e-4)


def test_students_t_falls_with_freedom() -> None:
    reaches = [t_quantile(freedom) for freedom in range(1, 200)]
    assert reaches == sorted(reaches, reverse=True)


def test_equal_blocks_are_no_trend() -> None:
    assert trend_p([5.0] * 20) == 1.0
    assert trend_p([5.0, 5.0, 5.0, 6.0] * 5) > 0.01


def test_noise_seldom_looks_like_a_trend() -> None:
    chance = Random(5)
    found = [trend_p([chance.gauss(0, 1) for _ in range(18)]) < 0.01 for _ in range(1000)]
    assert fmean(found) < 0.02


def test_a_quantile_lies_between_two_values() -> None:
    assert quantile([4.0], 0.9) == 4.0
    assert quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5) == 3.0
    assert quantile([1.0, 2.0], 0.1) == pytest.approx(1.1)
