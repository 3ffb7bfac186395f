"""From samples to block values, and from block values to what they are worth: pure arithmetic."""

from collections.abc import Sequence
from math import erfc, sqrt
from statistics import StatisticsError, correlation, fmean, stdev

TREND_BLOCKS_MIN = 8
# Where a time is so few steps of its clock, a middle half may lock to one step.
STEPS_MIN = 40
_SLOW_FACTOR_MAX = 1.15
_TOP_SHARE = 0.02
_NORMAL = 1.95996
# The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom, from the usual table.
_FEW = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half, values on its edges counted in part.

    Shapes: at least one value.

    >>> interquartile_mean([3.0, 3.0, 4.0, 900.0])
    3.5
    """
    ordered = sorted(values)
    cut = len(ordered) / 4
    whole = int(cut)
    inner = ordered[whole : len(ordered) - whole]
    edges = (cut - whole) * (inner[0] + inner[-1])
    return (sum(inner) - edges) / (len(ordered) - 2 * cut)


def mean_without_top(values: Sequence[float]) -> float:
    """The mean of all but the largest 2 %, values on the edge counted in part.

    >>> mean_without_top([1.0] * 98 + [900.0] * 2)
    1.0
    """
    ordered = sorted(values)
    cut = _TOP_SHARE * len(ordered)
    whole = int(cut)
    inner = ordered[: len(ordered) - whole]
    return (sum(inner) - (cut - whole) * inner[-1]) / (len(ordered) - cut)


def mean_of_fastest(values: Sequence[float], share: float, usual: float) -> float:
    """The mean of the fastest values, this share of them but at least one.

    `usual` if that is over 15 % more: so much is no chance of the machine, and who is slow in most
    calls must not be ranked by the others.

    >>> mean_of_fastest([10.0, 11.0, 12.0, 12.0], 0.5, 11.25), mean_of_fastest([3.0, 9.0], 0.5, 6.0)
    (10.5, 6.0)
    """
    ordered = sorted(values)
    fastest = fmean(ordered[: max(1, round(share * len(ordered)))])
    return fastest if usual <= _SLOW_FACTOR_MAX * fastest else usual


def block_value(samples_us: Sequence[float], timer_step_us: float) -> float:
    """What a block of samples says: robust, and unbiased by the step of the clock.

    Source: spec/timing.md 4; a step of 500 ns biases a middle half of 3 us by 2.5 %.
    """
    value = interquartile_mean(samples_us)
    return mean_without_top(samples_us) if value < STEPS_MIN * timer_step_us else value


def skew_us(samples_us: Sequence[float]) -> float:
    """By how much ordinary slow samples lift the mean over the middle half.

    >>> skew_us([1.0] * 80 + [2.0] * 20) > 0.1
    True
    """
    return mean_without_top(samples_us) - interquartile_mean(samples_us)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of the values lies, between two of them by a straight line.

    >>> quantile([1.0, 2.0, 4.0], 0.75)
    3.0
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def reach(freedom: float) -> float:
    """Student's t: how many standard errors a 95 % interval reaches to each side.

    Source: the table to 30 degrees of freedom, rounded down; beyond it two terms of the
    Cornish-Fisher expansion, right to 0.001.

    >>> reach(2), reach(22.9), round(reach(60), 3)
    (4.303, 2.074, 2.0)
    """
    if freedom < len(_FEW) + 1:
        return _FEW[max(1, int(freedom)) - 1]
    square = _NORMAL**2
    first = (square + 1) / (4 * freedom)
    second = (5 * square**2 + 16 * square + 3) / (96 * freedom**2)
    return _NORMAL * (1 + first + second)


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean as a fraction of it; nothing is known of a single value.

    >>> round(standard_error([99.0, 101.0]), 3)
    0.01
    """
    if len(values) < 2:
        return 0.0
    return stdev(values) / sqrt(len(values)) / fmean(values)


def half_width(values: Sequence[float]) -> float:
    """How far the 95 % interval of the mean reaches to each side, as a fraction of the mean.

    Shapes: at least two values.
    """
    return reach(len(values) - 1) * standard_error(values)


def is_settled(windows_us: Sequence[float]) -> bool:
    """Whether the last three windows of one kernel agree within 1 %.

    Source: spec/timing.md 3: the ramp of a GPU's clock.

    >>> is_settled([400.0, 101.0, 100.5, 100.2]), is_settled([104.0, 102.0, 100.0])
    (True, False)
    """
    last = windows_us[-3:]
    return len(last) == 3 and max(last) <= 1.01 * min(last)


def trend_p(values: Sequence[float]) -> float:
    """How likely so much order in time is by chance, by Spearman's rank correlation.

    One where there are too few values to say.

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
    """Equal values share their middle rank: by order in time they would be a trend."""
    ordered = sorted(values)
    firsts: dict[float, int] = {}
    for place, value in enumerate(ordered):
        firsts.setdefault(value, place)
    counts = dict.fromkeys(firsts, 0)
    for value in values:
        counts[value] += 1
    return [firsts[value] + (counts[value] - 1) / 2 for value in values]
