"""Estimates block values from samples, and the ratio of two kernels with its uncertainty."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import erfc, exp, log, sqrt
from statistics import StatisticsError, correlation, fmean, stdev

TREND_BLOCKS_MIN = 8
# Below this many clock steps, the middle half of samples may all fall on one step.
STEPS_MIN = 40
_TOP_SHARE = 0.02
_NORMAL_QUANTILE = 1.95996
# The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom, from the usual table.
_T_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
# A share of so many pairs at each end does not count: an interruption may fall into any block.
_TRIMMED_SHARE = 0.2
_PAIRS_MIN = 2
# The deviation of processes that a policy states counts as if so many processes had shown it.
_KNOWN_FREEDOM = 8
# Looks at a growing sample end when it happens to agree; this much wider intervals hold.
LOOKS_FACTOR = 1.25
_HALF_WIDTH_MAX = 50.0
# A smaller difference than this between two kernels is none.
DELTA = 0.0015


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half; values on its edges count in part.

    Shapes: at least one value.

    >>> interquartile_mean([3.0, 3.0, 4.0, 900.0])
    3.5
    """
    ordered = sorted(values)
    cut = len(ordered) / 4
    whole_count = int(cut)
    inner = ordered[whole_count : len(ordered) - whole_count]
    edges = (cut - whole_count) * (inner[0] + inner[-1])
    return (sum(inner) - edges) / (len(ordered) - 2 * cut)


def mean_without_top(values: Sequence[float]) -> float:
    """Return the mean of all but the largest 2 %; values on the edge count in part.

    >>> mean_without_top([1.0] * 98 + [900.0] * 2)
    1.0
    """
    ordered = sorted(values)
    cut = _TOP_SHARE * len(ordered)
    whole_count = int(cut)
    inner = ordered[: len(ordered) - whole_count]
    return (sum(inner) - (cut - whole_count) * inner[-1]) / (len(ordered) - cut)


def block_value(samples_us: Sequence[float], timer_step_us: float) -> float:
    """Return the value of a block of samples: robust, and unbiased by the clock's step.

    Source: spec/timing.md 4; a step of 500 ns biases a middle half of 3 us by 2.5 %.
    """
    value = interquartile_mean(samples_us)
    return mean_without_top(samples_us) if value < STEPS_MIN * timer_step_us else value


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, with linear interpolation."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def t_quantile(freedom: float) -> float:
    """Return the 97.5 % quantile of Student's t: standard errors to each side of the mean.

    Source: the table to 30 degrees of freedom, rounded down; beyond it two terms of the
    Cornish-Fisher expansion, accurate to 0.001.
    """
    if freedom < len(_T_QUANTILES) + 1:
        return _T_QUANTILES[max(1, int(freedom)) - 1]
    square = _NORMAL_QUANTILE**2
    first = (square + 1) / (4 * freedom)
    second = (5 * square**2 + 16 * square + 3) / (96 * freedom**2)
    return _NORMAL_QUANTILE * (1 + first + second)


def is_settled(windows_us: Sequence[float]) -> bool:
    """Return whether the last three windows of one kernel agree within 1 %.

    Source: spec/timing.md 3: the ramp of a GPU's clock.

    >>> is_settled([400.0, 101.0, 100.5, 100.2]), is_settled([104.0, 102.0, 100.0])
    (True, False)
    """
    last = windows_us[-3:]
    return len(last) == 3 and max(last) <= 1.01 * min(last)


def trend_p(values: Sequence[float]) -> float:
    """Return the probability of such a trend by chance, by Spearman's rank correlation.

    Returns 1 if there are too few values.

    >>> trend_p([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]) < 0.01 < trend_p([1.0, 2.0] * 4)
    True
    """
    if len(values) < TREND_BLOCKS_MIN:
        return 1.0
    try:
        rho = correlation(range(len(values)), _ranks(values))
    except StatisticsError:  # all values are equal
        return 1.0
    return erfc(abs(rho) * sqrt((len(values) - 1) / 2))


def _ranks(values: Sequence[float]) -> list[float]:
    """Return ranks; equal values share their middle rank, else their order would be a trend."""
    ordered = sorted(values)
    firsts: dict[float, int] = {}
    for place, value in enumerate(ordered):
        firsts.setdefault(value, place)
    counts = dict.fromkeys(firsts, 0)
    for value in values:
        counts[value] += 1
    return [firsts[value] + (counts[value] - 1) / 2 for value in values]


@dataclass(frozen=True)
class Ratio:
    """The ratio of two times, and its uncertainty.

    `log` is the natural logarithm of the ratio, `error` its standard error with `freedom` degrees
    of freedom. `processes` has the logarithm of each process.
    """

    log: float
    error: float
    freedom: int
    processes: tuple[float, ...]

    @property
    def half_width(self) -> float:
        """The half width of the 95 % interval of the logarithm: about a fraction of the ratio."""
        return min(t_quantile(self.freedom) * self.error, _HALF_WIDTH_MAX)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the ratio."""
        return exp(self.log - self.half_width), exp(self.log + self.half_width)


def block_order(pairs: int, below: Callable[[int], int]) -> str:
    """Return the order of blocks: steady drift favours neither side, and nobody can predict it.

    `below` draws unpredictable numbers.

    >>> block_order(4, lambda _: 0), block_order(2, lambda _: 1)
    ('ABBAABBA', 'BAAB')
    """
    return "".join(("ABBA", "BAAB")[below(2)] for _ in range((pairs + 1) // 2))[: 2 * pairs]


def trimmed_mean(values: Sequence[float]) -> tuple[float, float, int]:
    """Return the mean without the extremes, its standard error and the degrees of freedom.

    Shapes: at least two values. Source: Yuen, 1974: the trimmed mean's error follows from the
    winsorized variance.

    >>> mean, error, freedom = trimmed_mean([0.99, 1.0, 1.0, 1.01, 9.0])
    >>> round(mean, 4), round(error, 4), freedom
    (1.0033, 0.0041, 2)
    """
    if len(values) < _PAIRS_MIN:
        raise ValueError(f"an error needs {_PAIRS_MIN} values and got {len(values)}")
    ordered, count = sorted(values), len(values)
    cut = int(_TRIMMED_SHARE * count)
    middle = ordered[cut : count - cut]
    winsorized = [middle[0]] * cut + middle + [middle[-1]] * cut
    error = stdev(winsorized) / ((1 - 2 * cut / count) * sqrt(count))
    return fmean(middle), error, len(middle) - 1


def arithmetic_mean(logs: Sequence[float]) -> tuple[float, float, int]:
    """Return the logarithm of the mean of values, its standard error and the degrees of freedom.

    Shapes: the logarithms of at least two values.

    >>> mean, error, freedom = arithmetic_mean([log(1.0), log(1.0), log(4.0)])
    >>> round(exp(mean), 4), round(error, 4), freedom
    (2.0, 0.5, 2)
    """
    values = [exp(value) for value in logs]
    mean = fmean(values)
    return log(mean), stdev(values) / (mean * sqrt(len(values))), len(values) - 1


def half_width_within(differences: Sequence[float]) -> float:
    """Return the half width of the 95 % interval of one process's mean difference."""
    _, error, freedom = trimmed_mean(differences)
    return LOOKS_FACTOR * t_quantile(freedom) * error


def estimate_ratio(
    processes: Sequence[Sequence[float]], sigma: float, *, is_plain: bool = False
) -> Ratio:
    """Return the ratio of two kernels from ln(A / B) of the pairs of blocks of each process.

    Shapes: at least one process with at least two pairs. `sigma` is how much processes differ on
    this device at least. The deviation of processes is what they show, but not less than what is
    known of them, combined with what they show, suggests. With `is_plain`, extreme pairs count.
    """
    estimate = arithmetic_mean if is_plain else trimmed_mean
    means, errors, freedoms = zip(*map(estimate, processes), strict=True)
    count = len(means)
    spread = stdev(means) if count > 1 else 0.0
    within = LOOKS_FACTOR**2 * fmean(error**2 for error in errors)
    expected = sigma**2 + within
    known = expected**2 / (sigma**4 / _KNOWN_FREEDOM + within**2 / sum(freedoms))
    if spread**2 > expected:
        # What is known says the less, the more the processes differ from it.
        known *= (expected / spread**2) ** 2
    freedom = known + count - 1
    pooled = (known * expected + (count - 1) * spread**2) / freedom
    error = max(spread, sqrt(pooled)) / sqrt(count)
    return Ratio(fmean(means), error, max(1, round(freedom)), means)
