"""The ranking rules: how the times of a problem's timed cases become its score.

The harness, which imports nothing of ours, has the same rules in `harness.time.estimators`.
"""

import sys
from collections.abc import Mapping, Sequence
from math import exp, isfinite, log
from typing import Any, Literal, TypeVar

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
    if ranking_by not in RANKING_TEXTS:
        raise ValueError(f"unknown ranking {ranking_by!r}: expected {', '.join(RANKING_TEXTS)}")
    if not all(isfinite(time_us) and time_us >= sys.float_info.min for time_us in times_us):
        return None
    if not times_us:
        return None
    count = len(times_us)
    if ranking_by == "last":
        return times_us[-1]
    if ranking_by == "mean":
        # Divide first: the sum of two large times can overflow.
        return sum(time / count for time in times_us)
    return exp(sum(log(time) for time in times_us) / count)


def speedup_fields(
    yardstick_us: float | None, time_us: float | None, interval_us: Sequence[float] | None
) -> dict[str, Any]:
    """Return how many times as fast as the yardstick a time is, with its 95 % interval.

    Both are None if the time was not measured against a yardstick.

    >>> speedup_fields(30.0, 15.0, (12.0, 20.0))
    {'yardstick_us': 30.0, 'speedup': 2.0, 'speedup_interval': (1.5, 2.5)}
    >>> speedup_fields(None, 15.0, (12.0, 20.0))["speedup"]
    """
    speedup, interval = None, None
    if yardstick_us and time_us and time_us > 0:
        speedup = yardstick_us / time_us
        if interval_us and interval_us[0] > 0:
            low_us, high_us = interval_us
            interval = (yardstick_us / high_us, yardstick_us / low_us)
    return {"yardstick_us": yardstick_us, "speedup": speedup, "speedup_interval": interval}
