"""What samples say, and how surely."""

import random

import pytest

from harness.supervisor.estimate import TooFewSamples, estimate, interquartile_mean


def test_equal_samples_leave_no_doubt() -> None:
    found = estimate([5.0] * 40)
    assert (found.time_us, found.low_us, found.high_us) == (5.0, 5.0, 5.0)


def test_one_slow_call_in_a_hundred_moves_nothing() -> None:
    samples = [10.0] * 200
    samples[77] = 10_000.0
    assert estimate(samples).time_us == 10.0


def test_a_slow_half_of_the_run_widens_the_interval() -> None:
    found = estimate([10.0] * 100 + [20.0] * 100)
    assert found.time_us == pytest.approx(15.0)
    assert found.high_us - found.low_us > 5.0


def test_the_interval_never_reaches_below_zero() -> None:
    assert estimate([0.1, 100.0] * 5 + [0.1] * 5).low_us >= 0.0


@pytest.mark.parametrize("count", [10, 23, 200])
def test_the_interval_covers_the_truth_as_often_as_it_says(count: int) -> None:
    dice = random.Random(count)
    hits = 0
    for _ in range(400):
        found = estimate([dice.gauss(100.0, 2.0) for _ in range(count)])
        hits += found.low_us <= 100.0 <= found.high_us
    assert 0.90 <= hits / 400 <= 0.99


def test_too_few_samples_are_no_estimate() -> None:
    with pytest.raises(TooFewSamples, match="needs 10 samples and got 9"):
        estimate([1.0] * 9)


@pytest.mark.parametrize(
    ("values", "mean"),
    [([7.0], 7.0), ([1.0, 3.0], 2.0), ([0.0, 6.0, 30.0], 9.0), ([1.0, 2.0, 4.0, 90.0], 3.0)],
)
def test_the_interquartile_mean_of_few_values(values: list[float], mean: float) -> None:
    assert interquartile_mean(values) == pytest.approx(mean)
