"""The ranking rules: how the times of a problem's timed cases become its score."""

import sys
from collections.abc import Mapping, Sequence
from math import exp, isfinite, log
from typing import Literal, TypeVar

CaseT = TypeVar("CaseT")
RankingRule = Literal["last", "mean", "geom"]
RANKING_TEXTS: Mapping[str, str] = {
    "last": "the time of the last timed case",
    "mean": "the arithmetic mean of the timed cases' times",
    "geom": "the geometric mean of the timed cases' times",
}


def describe_ranking(ranking_by: str, weights: Sequence[float] = ()) -> str:
    """Return a ranking rule in words, with the weights of the timed cases unless they are equal.

    >>> describe_ranking("mean", [1.0, 2.5])
    "the arithmetic mean of the timed cases' times, weighted 1 : 2.5 in their order"
    >>> describe_ranking("last", [1.0])
    'the time of the last timed case'
    """
    text = RANKING_TEXTS[ranking_by]
    if len(set(weights)) < 2:
        return text
    return f"{text}, weighted {' : '.join(f'{weight:g}' for weight in weights)} in their order"


def timed_cases(ranking_by: str, benchmarks: Sequence[CaseT]) -> Sequence[CaseT]:
    """Return the benchmarks that are timed: only the last one, where that alone is ranked.

    >>> timed_cases("last", ["a", "b"]), timed_cases("mean", ["a", "b"])
    (['b'], ['a', 'b'])
    """
    return benchmarks[-1:] if ranking_by == "last" else benchmarks


def score_us(
    ranking_by: str, times_us: Sequence[float], weights: Sequence[float] = ()
) -> float | None:
    """Return the value a leaderboard sorts by, lower first; None if a time is not plausible.

    Units: microseconds in and out. A time that is not finite, or is smaller than the smallest
    normal number, makes the whole score None: one false zero would win a geometric mean. So does a
    weight that is not a positive finite number.
    Errors: ValueError for a ranking that is not a RankingRule.

    >>> score_us("last", [5.0, 2.0]), score_us("mean", [5.0, 2.0])
    (2.0, 3.5)
    >>> score_us("mean", [5.0, 2.0], [1.0, 3.0])
    2.75
    >>> round(score_us("geom", [1.0, 100.0]), 9)
    10.0
    >>> score_us("geom", [0.0, 100.0]) is score_us("mean", []) is None
    True
    """
    positive = (*times_us, *weights)
    if not all(isfinite(value) and value >= sys.float_info.min for value in positive):
        return None
    return combine_times(ranking_by, times_us, weights) if times_us else None


def combine_times(
    ranking_by: str, times_us: Sequence[float], weights: Sequence[float] = ()
) -> float:
    """Return the score of at least one plausible time by a ranking rule.

    `weights` has the weight of each time in a mean; without weights all times count equally.
    Raises ValueError for a ranking that is not a RankingRule, or another number of weights.
    """
    weights = weights or [1.0] * len(times_us)
    total = sum(weights)
    pairs = list(zip(times_us, weights, strict=True))
    match ranking_by:
        case "last":
            return times_us[-1]
        case "mean":
            # Divide first: the sum of two large times can overflow.
            return sum(time / (total / weight) for time, weight in pairs)
        case "geom":
            return exp(sum(weight * log(time) for time, weight in pairs) / total)
    raise ValueError(f"unknown ranking {ranking_by!r}: expected {', '.join(RANKING_TEXTS)}")
