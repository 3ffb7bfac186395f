"""Estimates block values from samples and their uncertainty, and compares two kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import erfc, exp, log, sqrt
from statistics import StatisticsError, correlation, fmean, stdev

TREND_BLOCKS_MIN = 8
# Below this many clock steps, the middle half of samples may all fall on one step.
STEPS_MIN = 40
_SLOW_FACTOR_MAX = 1.15
_TOP_SHARE = 0.02
_NORMAL_QUANTILE = 1.95996
# The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom, from the usual table.
_T_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)

PAIRS = 40
# Each round has fresh processes: processes of one kernel differ by more than pairs can show.
ROUNDS = 5
DELTA = 0.0015
_PAIRS_MIN = 2

Pair = tuple[float, float]


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


def mean_of_fastest(values: Sequence[float], share: float, usual: float) -> float:
    """Return the mean of the fastest values: this share of them, but at least one.

    Returns `usual` if that is over 15 % more: chance of the machine does not explain so much, and a
    submission that is slow in most calls must not be ranked by its other calls.

    >>> mean_of_fastest([10.0, 11.0, 12.0, 12.0], 0.5, 11.25), mean_of_fastest([3.0, 9.0], 0.5, 6.0)
    (10.5, 6.0)
    """
    ordered = sorted(values)
    fastest = fmean(ordered[: max(1, round(share * len(ordered)))])
    return fastest if usual <= _SLOW_FACTOR_MAX * fastest else usual


def block_value(samples_us: Sequence[float], timer_step_us: float) -> float:
    """Return the value of a block of samples: robust, and unbiased by the clock's step.

    Source: spec/timing.md 4; a step of 500 ns biases a middle half of 3 us by 2.5 %.
    """
    value = interquartile_mean(samples_us)
    return mean_without_top(samples_us) if value < STEPS_MIN * timer_step_us else value


def skew_us(samples_us: Sequence[float]) -> float:
    """Return by how much ordinary slow samples raise the mean over the middle half.

    >>> skew_us([1.0] * 80 + [2.0] * 20) > 0.1
    True
    """
    return mean_without_top(samples_us) - interquartile_mean(samples_us)


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


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean as a fraction of it; 0 for a single value.

    >>> round(standard_error([99.0, 101.0]), 3)
    0.01
    """
    if len(values) < 2:
        return 0.0
    return stdev(values) / sqrt(len(values)) / fmean(values)


def relative_half_width(values: Sequence[float]) -> float:
    """Return the half width of the mean's 95 % interval as a fraction of the mean.

    Shapes: at least two values.
    """
    return t_quantile(len(values) - 1) * standard_error(values)


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
class Comparison:
    """How two kernels compare: `winner` is `A`, `B` or `equal`.

    `ratio` is the time of A over that of B, with its 95 % interval.
    """

    winner: str
    ratio: float
    interval: tuple[float, float]


def block_order(pairs: int = PAIRS) -> str:
    """Return the order of blocks: neither is always first, and steady drift favours neither.

    >>> block_order(4)
    'ABBABAAB'
    """
    return "".join(islice(cycle(("AB", "BA", "BA", "AB")), pairs))


def compare_rounds(rounds: Sequence[Sequence[Pair]]) -> Comparison:
    """Compare the kernels by the block values of the pairs of each round.

    Shapes: at least two pairs in all, each of A and B, whichever came first.
    Source: spec/timing.md 4: equal if |mean d| < max(0.15 %, t interval), d = ln(A / B). The
    interval is the larger of those from the spread of pairs and of rounds.
    """
    differences = [[log(a / b) for a, b in pairs] for pairs in rounds]
    all_differences = [difference for round_ in differences for difference in round_]
    if len(all_differences) < _PAIRS_MIN:
        raise ValueError(f"a duel needs {_PAIRS_MIN} pairs and got {len(all_differences)}")
    mean, half_width = fmean(all_differences), _half_width(all_differences)
    if len(differences) > 1:
        half_width = max(half_width, _half_width([fmean(round_) for round_ in differences]))
    winner = "A" if mean < 0 else "B"
    if abs(mean) < max(DELTA, half_width):
        winner = "equal"
    return Comparison(winner, exp(mean), (exp(mean - half_width), exp(mean + half_width)))


def combine_cases(ranking_by: str, times_us: Sequence[float]) -> float:
    """Return the score of all cases' block values by their problem's ranking rule.

    Raises ValueError for an unknown rule.
    """
    match ranking_by:
        case "last":
            return times_us[-1]
        case "mean":
            return fmean(times_us)
        case "geom":
            return exp(fmean(map(log, times_us)))
    raise ValueError(f"unknown ranking rule {ranking_by!r}")


def _half_width(values: Sequence[float]) -> float:
    return t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
