"""Two kernels timed in alternation, so that what moves the machine moves both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import exp, log, sqrt
from statistics import fmean, stdev

from harness.timing.estimators import reach

PAIRS = 40
# Each has fresh processes: of one kernel, two processes differ by more than many pairs show.
ROUNDS = 5
DELTA = 0.0015
_PAIRS_MIN = 2

Pair = tuple[float, float]


@dataclass(frozen=True)
class Comparison:
    """How two kernels compare: `winner` is `A`, `B` or `equal`.

    `ratio` is the time of A over that of B, with its 95 % interval.
    """

    winner: str
    ratio: float
    interval: tuple[float, float]


def order(pairs: int = PAIRS) -> str:
    """Whose block comes when: neither is always first, and a steady drift favours neither.

    >>> order(4)
    'ABBABAAB'
    """
    return "".join(islice(cycle(("AB", "BA", "BA", "AB")), pairs))


def compare(rounds: Sequence[Sequence[Pair]]) -> Comparison:
    """Compare the kernels by the block values of the pairs of each round.

    Shapes: at least two pairs in all, each of A and B, whichever came first.
    Source: spec/timing.md 4: equal if |mean d| < max(0.15 %, t interval), d = ln(A / B). The
    interval is the larger of how the pairs differ and how the rounds differ.
    """
    apart = [[log(one / other) for one, other in pairs] for pairs in rounds]
    every = [one for some in apart for one in some]
    if len(every) < _PAIRS_MIN:
        raise ValueError(f"a duel needs {_PAIRS_MIN} pairs and got {len(every)}")
    middle, half = fmean(every), _half_width(every)
    if len(apart) > 1:
        half = max(half, _half_width([fmean(some) for some in apart]))
    winner = "A" if middle < 0 else "B"
    if abs(middle) < max(DELTA, half):
        winner = "equal"
    return Comparison(winner, exp(middle), (exp(middle - half), exp(middle + half)))


def decide(pairs: Sequence[Pair]) -> str:
    """The faster one, `A` or `B`, or `equal`, by the block values of the pairs of one round.

    >>> decide([(100.0, 101.0), (100.1, 101.2), (99.9, 100.8)])
    'A'
    """
    return compare([pairs]).winner


def combine_cases(ranking_by: str, times_us: Sequence[float]) -> float:
    """The score of the block values of all cases, by the ranking rule of their problem.

    Errors: KeyError for a rule that nobody knows.

    >>> combine_cases("mean", [1.0, 3.0]), round(combine_cases("geom", [1.0, 4.0]), 9)
    (2.0, 2.0)
    """
    return _RULES[ranking_by](times_us)


def _geometric_mean(times_us: Sequence[float]) -> float:
    return exp(fmean(map(log, times_us)))


def _last(times_us: Sequence[float]) -> float:
    return times_us[-1]


_RULES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": _last,
    "mean": fmean,
    "geom": _geometric_mean,
}


def _half_width(values: Sequence[float]) -> float:
    return reach(len(values) - 1) * stdev(values) / sqrt(len(values))
