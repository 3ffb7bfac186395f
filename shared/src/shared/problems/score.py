"""The one number of a run, from the times of its cases."""

import sys
from collections.abc import Sequence
from math import exp, isfinite, log

RANKINGS = ("last", "mean", "geom")


def score_us(ranking_by: str, times_us: Sequence[float]) -> float | None:
    """What a leaderboard sorts by, lower first; None if a time cannot be true.

    Units: microseconds in and out. A time that is not finite, or not over zero by at least the
    smallest normal number, makes the whole score None: one false zero would win a product.
    Errors: ValueError for a ranking that is not in RANKINGS.

    >>> score_us("last", [5.0, 2.0]), score_us("mean", [5.0, 2.0])
    (2.0, 3.5)
    >>> round(score_us("geom", [1.0, 100.0]), 9)
    10.0
    >>> score_us("geom", [0.0, 100.0]) is score_us("mean", []) is None
    True
    """
    if ranking_by not in RANKINGS:
        raise ValueError(f"no ranking {ranking_by!r}: there are {', '.join(RANKINGS)}")
    if not times_us or not all(map(_is_possible, times_us)):
        return None
    count = len(times_us)
    if ranking_by == "last":
        return times_us[-1]
    if ranking_by == "mean":
        # Divided first: the sum of two large times may leave the range of floats.
        return sum(time / count for time in times_us)
    return exp(sum(log(time) for time in times_us) / count)


def _is_possible(time_us: float) -> bool:
    return isfinite(time_us) and time_us >= sys.float_info.min
