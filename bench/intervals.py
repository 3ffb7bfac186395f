"""Where the true value of a figure is, beside what one run measured."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

# Of a normal distribution, so many standard deviations leave out 1 in 20.
DEVIATIONS = 1.96
# Student's t for the same, by the number of values.
STUDENT = {4: 3.18, 8: 2.36}


class Interval(NamedTuple):
    """Where the true value is in 95 of 100 cases."""

    low: float
    high: float

    def __str__(self) -> str:
        """The interval as it is printed."""
        return f"({self.low:.4g} to {self.high:.4g})"

    def over(self, other: "Interval") -> "Interval":
        """The interval of a ratio, a little too wide."""
        return Interval(self.low / other.high, self.high / other.low)


class Percentile(NamedTuple):
    """A percentile of a sample, and where that of the whole population is."""

    value: float
    interval: Interval


def p99(values: Sequence[float]) -> Percentile:
    """The 99th percentile; its interval follows from ranks, as for independent values.

    >>> p99(range(1000))
    Percentile(value=990, interval=Interval(low=983, high=997))
    """
    ordered, rank = sorted(values), 0.99 * len(values)
    half = DEVIATIONS * math.sqrt(0.01 * rank)

    def at(place: float) -> float:
        return ordered[min(len(ordered) - 1, max(0, int(place)))]

    return Percentile(at(rank), Interval(at(rank - half), at(math.ceil(rank + half))))


def mean_interval(values: Sequence[float]) -> Interval:
    """The interval of the mean of 4 or 8 values."""
    mean, count = statistics.fmean(values), len(values)
    half = STUDENT[count] * statistics.stdev(values) / math.sqrt(count)
    return Interval(mean - half, mean + half)


def share_interval(share: float, count: int) -> Interval:
    """Wilson's interval of a share of `count` independent trials."""
    square = DEVIATIONS**2 / count
    middle = share + square / 2
    half = math.sqrt(square * share * (1 - share) + square**2 / 4)
    return Interval((middle - half) / (1 + square), (middle + half) / (1 + square))
