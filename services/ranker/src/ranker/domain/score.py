"""A run's score with its error: process by process, so that what all cases share counts once."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, fsum, isfinite, log, sqrt
from statistics import stdev
from typing import Any

from ranker.domain.student import reach
from shared.events import CaseResult
from shared.problems.score import score_us

# Times closer than this are not told apart, whatever their errors (spec/timing.md 4 and 12).
DELTA_MIN = 0.003
DELTA_MIN_GPU = 0.02
REACH_MAX = 50.0
# From a picosecond to eleven days; what is outside was never measured, and breaks arithmetic.
TIME_US_MIN, TIME_US_MAX = 1e-6, 1e12
SPREAD_MAX = 10.0
FREEDOM_MAX = 1_000_000
PROCESSES_MAX = 1000


@dataclass(frozen=True)
class Score:
    """What a leaderboard sorts by; `error` is the standard error of its logarithm."""

    score_us: float
    interval_us: tuple[float, float]
    process_us: list[float]
    error: float | None
    freedom: int


def scored(ranking_by: str, timed: Sequence[CaseResult], sigma_run: float) -> Score | None:
    """The score of a run's timed cases; None if a time is missing or cannot be true.

    Source: spec/timing.md 4: L_p is the logarithm of the ranking rule over the values of process
    p, the score exp(mean L_p), its error max(s, sigma_run) / sqrt(P). A run of one process, or one
    from before processes were told apart, has the ranking rule over its cases' own intervals.
    """
    whole = score_us(ranking_by, [case.time_us or 0.0 for case in timed])
    if whole is None or not (0 <= sigma_run <= SPREAD_MAX and all(map(_is_likely, timed))):
        return None
    values = _by_process(ranking_by, timed)
    if None in values:
        return None
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return _of_one(ranking_by, timed, known[0] if known else whole, sigma_run)
    logs = [log(value) for value in known]
    error = max(stdev(logs), sigma_run) / sqrt(len(logs))
    freedom = min(case.freedom for case in timed) or len(logs) - 1
    middle = exp(fsum(logs) / len(logs))
    interval = interval_us(middle, error, freedom)
    return Score(middle, interval, known, error, freedom) if isfinite(interval[1]) else None


def interval_us(score: float, error: float, freedom: float) -> tuple[float, float]:
    """The 95 % interval of a score. Units: microseconds; `error` is that of its logarithm.

    >>> low, high = interval_us(100.0, 0.01, 22)
    >>> round(low, 2), round(high, 2)
    (97.95, 102.1)
    """
    half = min(reach(freedom) * error, REACH_MAX)
    return score * exp(-half), score * exp(half)


def tie_share(
    ranking_by: str, timed: Sequence[CaseResult], sigma_run: float, tie_us: float, tier: str
) -> float:
    """The share of a score under which a difference means nothing.

    `tie_us` is what a cheat could hide of the handshake in each call: its share is what the score
    would grow by if each call took so much longer.
    """
    least = DELTA_MIN_GPU if tier.startswith("G") else DELTA_MIN
    times = [case.time_us or 0.0 for case in timed]
    hidden_us = min(max(tie_us, 0.0), TIME_US_MAX)
    score, longer = (
        score_us(ranking_by, [time + extra for time in times]) for extra in (0.0, hidden_us)
    )
    hideable = log(longer / score) if score and longer else 0.0
    return max(least, 2 * sigma_run, hideable)


def _is_likely(case: CaseResult) -> bool:
    """Whether a clock could have said so: an agent may send any number."""
    low, high = case.interval_us or (0.0, TIME_US_MIN)
    measured = [case.time_us or 0.0, *case.process_us]
    return (
        all(TIME_US_MIN <= time <= TIME_US_MAX for time in measured)
        and len(case.process_us) <= PROCESSES_MAX
        and 0 <= low <= high <= TIME_US_MAX
        and 0 <= (case.error or 0.0) <= SPREAD_MAX
        and 0 <= case.freedom <= FREEDOM_MAX
    )


def _by_process(ranking_by: str, timed: Sequence[CaseResult]) -> list[float | None]:
    """The ranking rule over the cases' values in each process; empty if they have no such values.

    Where one case has fewer processes than another, their values cannot be paired: None.
    """
    counts = {len(case.process_us) for case in timed}
    if len(counts) > 1:
        return [None]
    rows = zip(*(case.process_us for case in timed), strict=True)
    return [score_us(ranking_by, row) for row in rows]


def _of_one(
    ranking_by: str, timed: Sequence[CaseResult], value: float, sigma_run: float
) -> Score | None:
    """The score of a single process, with the ranking rule over the cases' own intervals."""
    bounds = [case.interval_us for case in timed if case.interval_us is not None]
    high = score_us(ranking_by, [high for _, high in bounds])
    if len(bounds) != len(timed) or high is None:
        return None
    # A lower bound may be zero, as no time may be: then so is the score's.
    low = score_us(ranking_by, [low for low, _ in bounds]) or 0.0
    errors = [case.error for case in timed if case.error is not None]
    error = max([sigma_run, *errors]) if errors or sigma_run else None
    freedom = min(case.freedom for case in timed)
    return Score(value, (low, high), [value], error, freedom)


def with_interval(row: dict[str, Any]) -> dict[str, Any]:
    """Return a scored row with the bounds of the score that it shows.

    A score over several submissions has an interval of its own; else the bounds are the run's.
    """
    if row["pooled_over"] and row["error"] is not None:
        low_us, high_us = interval_us(row["score_us"], row["error"], row["freedom"])
        return row | {"low_us": low_us, "high_us": high_us}
    return row
