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


def timed_cases(ranking_by: str, benchmarks: Sequence[CaseT]) -> Sequence[CaseT]:
    """Return the benchmarks that are timed: only the last one, where that alone is ranked.

    >>> timed_cases("last", ["a", "b"]), timed_cases("mean", ["a", "b"])
    (['b'], ['a', 'b'])
    """
    return benchmarks[-1:] if ranking_by == "last" else benchmarks


def score_us(ranking_by: str, times_us: Sequence[float]) -> float | None:
    """Return the value a leaderboard sorts by, lower first; None if a time is not plausible.

    Units: microseconds in and out. A time that is not finite, or is smaller than the smallest
    normal number, makes the whole score None: one false zero would win a geometric mean.
    Errors: ValueError for a ranking that is not a RankingRule.

    >>> score_us("last", [5.0, 2.0]), score_us("mean", [5.0, 2.0])
    (2.0, 3.5)
    >>> round(score_us("geom", [1.0, 100.0]), 9)
    10.0
    >>> score_us("geom", [0.0, 100.0]) is score_us("mean", []) is None
    True
    """
    if not all(isfinite(time_us) and time_us >= sys.float_info.min for time_us in times_us):
        return None
    return combine_times(ranking_by, times_us) if times_us else None


def combine_times(ranking_by: str, times_us: Sequence[float]) -> float:
    """Return the score of at least one plausible time by a ranking rule.

    Raises ValueError for a ranking that is not a RankingRule.
    """
    match ranking_by:
        case "last":
            return times_us[-1]
        case "mean":
            # Divide first: the sum of two large times can overflow.
            return sum(time / len(times_us) for time in times_us)
        case "geom":
            return exp(sum(map(log, times_us)) / len(times_us))
    raise ValueError(f"unknown ranking {ranking_by!r}: expected {', '.join(RANKING_TEXTS)}")
