"""Scores and their errors.

A run's score is computed per process, so that shared effects count once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, isfinite, log, sqrt
from statistics import stdev
from typing import Any, NamedTuple

from harness.ranking_rules import score_us
from shared.events import CaseResult, SubmissionFinished
from shared.speedups import speedup_fields

NORMAL_QUANTILE = 1.95996
# The 97.5 % quantiles for 1 to 30 degrees of freedom, from the usual table.
_TABLE = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile; fractions are rounded down, and below one means unknown: normal.

    Source: beyond the table two terms of the Cornish-Fisher expansion, accurate to 0.001.

    >>> t_quantile(2), t_quantile(22.9), round(t_quantile(60), 3), t_quantile(0)
    (4.303, 2.074, 2.0, 1.95996)
    """
    if freedom < 1:
        return NORMAL_QUANTILE
    if freedom < len(_TABLE) + 1:
        return _TABLE[int(freedom) - 1]
    square = NORMAL_QUANTILE**2
    first = (square + 1) / (4 * freedom)
    second = (5 * square**2 + 16 * square + 3) / (96 * freedom**2)
    return NORMAL_QUANTILE * (1 + first + second)


# Times closer than this count as tied, whatever their errors (spec/timing.md 4 and 12).
DELTA_MIN = 0.003
DELTA_MIN_GPU = 0.02
REACH_MAX = 50.0
# From a picosecond to eleven days; times outside were never measured and break the arithmetic.
TIME_US_MIN, TIME_US_MAX = 1e-6, 1e12
SPREAD_MAX = 10.0
FREEDOM_MAX = 1_000_000
PROCESSES_MAX = 1000
# The grade of a time that claims no order.
NOISY = "noisy"
# A pooled score takes no further runs from this many processes on (docs/adr/ranking.md).
POOLED_PROCESSES_MAX = 300


@dataclass(frozen=True)
class Score:
    """The value that a leaderboard sorts by; `error` is the standard error of its logarithm."""

    score_us: float
    interval_us: tuple[float, float]
    process_us: list[float]
    error: float | None
    freedom: int


def compute_score(ranking_by: str, timed: Sequence[CaseResult], sigma_run: float) -> Score | None:
    """The score of a run's timed cases; None if a time is missing or impossible.

    Source: spec/timing.md 4: L_p is the logarithm of the ranking rule over the values of process p,
    the score exp(mean L_p), its error max(s, sigma_run) / sqrt(P). A run with one process, or
    without values per process, has the ranking rule over its cases' own intervals.
    """
    weights = weights_of(timed)
    total_us = score_us(ranking_by, [case.time_us or 0.0 for case in timed], weights)
    if total_us is None or not (0 <= sigma_run <= SPREAD_MAX and all(map(_is_likely, timed))):
        return None
    values = _score_processes(ranking_by, timed)
    if None in values:
        return None
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return _single_process_score(ranking_by, timed, known[0] if known else total_us, sigma_run)
    logs = [log(value) for value in known]
    error = max(stdev(logs), sigma_run) / sqrt(len(logs))
    freedom = min(case.freedom for case in timed) or len(logs) - 1
    middle = exp(fsum(logs) / len(logs))
    interval = interval_us(middle, error, freedom)
    return Score(middle, interval, known, error, freedom) if isfinite(interval[1]) else None


def interval_us(
    score: float, error: float, freedom: float, delta: float = 0.0
) -> tuple[float, float]:
    """The interval of a score that is shown and decides ties. Units: microseconds.

    It is the 95 % interval, and half of `delta` to each side at least: two scores that differ by
    less than this share cannot be told apart. `error` is that of the score's logarithm.

    >>> low, high = interval_us(100.0, 0.01, 22)
    >>> round(low, 2), round(high, 2)
    (97.95, 102.1)
    >>> interval_us(100.0, 0.0, 22, 0.02) == interval_us(100.0, 0.0, 22, 0.0)
    False
    """
    half = reach(error, freedom, delta)
    return score * exp(-half), score * exp(half)


def reach(error: float | None, freedom: float, delta: float) -> float:
    """Return the half width of the shown interval of a score, in its logarithm."""
    return min(max(t_quantile(freedom) * (error or 0.0), delta / 2), REACH_MAX)


def error_of_difference(errors: Iterable[tuple[float | None, float]]) -> tuple[float, float]:
    """The standard error of the difference of two logarithms, and Welch's degrees of freedom.

    `errors` are the error and the degrees of freedom of each. The result has no freedom if one is
    unknown.
    """
    known = [(error**2, freedom) for error, freedom in errors if error]
    total = sum(square for square, _ in known)
    if any(freedom < 1 for _, freedom in known):
        return sqrt(total), 0.0
    parts = sum(square**2 / freedom for square, freedom in known)
    return sqrt(total), total**2 / parts if parts else 0.0


def tie_share(
    ranking_by: str, timed: Sequence[CaseResult], score: Score, tie_us: float, tier: str
) -> float:
    """The share of a score below which a difference means nothing.

    `tie_us` is the part of each call's handshake that a cheat could hide: its share is how much the
    score would grow if each call took that much longer. A score that was timed on a busy machine
    can be told from no other within the whole spread of its processes.
    """
    least = DELTA_MIN_GPU if tier.startswith("G") else DELTA_MIN
    times = [case.time_us or 0.0 for case in timed]
    hidden_us = min(max(tie_us, 0.0), TIME_US_MAX)
    base_us, longer_us = (
        score_us(ranking_by, [time + extra for time in times], weights_of(timed))
        for extra in (0.0, hidden_us)
    )
    hideable = log(longer_us / base_us) if base_us and longer_us else 0.0
    spread = 0.0
    if any(case.grade == NOISY for case in timed):
        spread = max(abs(log(value / score.score_us)) for value in score.process_us)
    return max(least, hideable, 2 * spread)


def shown_interval_us(score: Score, delta: float) -> tuple[float, float]:
    """Return a score's own interval, widened to what cannot be told apart."""
    low_us, high_us = score.interval_us
    return (
        min(low_us, score.score_us * exp(-delta / 2)),
        max(high_us, score.score_us * exp(delta / 2)),
    )


def weights_of(timed: Sequence[CaseResult]) -> list[float]:
    """Return the weights of timed cases in the score."""
    return [case.weight for case in timed]


def _is_likely(case: CaseResult) -> bool:
    """Whether a clock could have measured this: an agent may send any number."""
    low, high = case.interval_us or (0.0, TIME_US_MIN)
    measured = [case.time_us or 0.0, *case.process_us]
    return (
        all(TIME_US_MIN <= time <= TIME_US_MAX for time in measured)
        and len(case.process_us) <= PROCESSES_MAX
        and 0 <= low <= high <= TIME_US_MAX
        and 0 <= (case.error or 0.0) <= SPREAD_MAX
        and 0 <= case.freedom <= FREEDOM_MAX
    )


def _score_processes(ranking_by: str, timed: Sequence[CaseResult]) -> list[float | None]:
    """The ranking rule over the cases' values in each process; empty without such values.

    Where cases have different numbers of processes, their values cannot be paired: None.
    """
    counts = {len(case.process_us) for case in timed}
    if len(counts) > 1:
        return [None]
    rows = zip(*(case.process_us for case in timed), strict=True)
    return [score_us(ranking_by, row, weights_of(timed)) for row in rows]


def _single_process_score(
    ranking_by: str, timed: Sequence[CaseResult], value: float, sigma_run: float
) -> Score | None:
    """The score of a single process, from the cases' own intervals."""
    bounds = [case.interval_us for case in timed if case.interval_us is not None]
    if len(bounds) != len(timed):
        return None
    weights = weights_of(timed)
    high = score_us(ranking_by, [high for _, high in bounds], weights)
    if high is None:
        return None
    # Unlike a time, a lower bound may be zero: then the score's is zero too.
    low = score_us(ranking_by, [low for low, _ in bounds], weights) or 0.0
    errors = [case.error for case in timed if case.error is not None]
    error = max([sigma_run, *errors]) if errors or sigma_run else None
    freedom = min(case.freedom for case in timed)
    return Score(value, (low, high), [value], error, freedom)


def add_interval(row: dict[str, Any]) -> dict[str, Any]:
    """Return a scored row with the interval of the score that it shows, and its speed-up.

    A score over several submissions has its own interval; otherwise it is that of the run.
    """
    bounds = None if row["low_us"] is None else (row["low_us"], row["high_us"])
    if row["pooled_over"] and row["error"] is not None:
        bounds = interval_us(row["score_us"], row["error"], row["freedom"], row["delta"] or 0.0)
    speedup = speedup_fields(row.get("yardstick_us"), row["score_us"], bounds)
    return row | {"interval_us": bounds} | speedup


def slow_end_us(score_us: float, error: float | None, freedom: float, delta: float) -> float:
    """Return the slow end of a noisy time's interval, which decides its place."""
    return interval_us(score_us, error or 0.0, freedom, delta)[1]


def fast_end_us(score_us: float, placed_us: float) -> float:
    """Return the fast end of the interval of a noisy time, from its slow end.

    Intervals are symmetric in the logarithm. This is the one arithmetic that SQL repeats.
    """
    return score_us * score_us / placed_us


class PooledScore(NamedTuple):
    """The score of a participant's source on one leaderboard, made of its first `runs` runs.

    `error` is the standard error of the score's logarithm. The score is placed by `placed_us`.
    """

    score_us: float
    error: float | None
    freedom: int
    delta: float
    runs: int
    is_noisy: bool

    @property
    def placed_us(self) -> float:
        """The score, or for a noisy time the slow end of its interval."""
        if not self.is_noisy:
            return self.score_us
        return slow_end_us(self.score_us, self.error, self.freedom, self.delta)


def results_that_count(results: Mapping[str, SubmissionFinished]) -> list[str]:
    """Return the submissions of one source whose results count: without the noisy ones, if any."""
    quiet = [name for name, result in results.items() if result.grade != NOISY]
    return quiet or list(results)


def pool_results(results: Iterable[SubmissionFinished]) -> PooledScore:
    """Pool eligible results in the order of their decision; a single one keeps its own score.

    Source: docs/adr/ranking.md; runs past 300 processes are not added. Of noisy results, which
    `results_that_count` returns only if there are no others, the first counts.
    """
    first, *others = results
    is_noisy = first.grade == NOISY
    if is_noisy:
        others = []
    assert first.score_us is not None, "an eligible result has a score"
    processes = list(first.process_us) or [first.score_us]
    spare = max(first.freedom - len(first.process_us) + 1, 0)
    sigma, delta, runs = first.sigma_run, _delta(first), 1
    for result in others:
        if len(processes) >= POOLED_PROCESSES_MAX:
            break
        assert result.score_us is not None, "an eligible result has a score"
        processes += list(result.process_us) or [result.score_us]
        spare = max(spare, result.freedom - len(result.process_us) + 1)
        sigma, delta, runs = max(sigma, result.sigma_run), max(delta, _delta(result)), runs + 1
    if runs == 1:
        return PooledScore(first.score_us, first.error, first.freedom, delta, 1, is_noisy)
    logs = [log(value) for value in processes]
    error = max(stdev(logs), sigma) / sqrt(len(logs))
    score_us = exp(fsum(logs) / len(logs))
    return PooledScore(score_us, error, spare + len(logs) - 1, delta, runs, is_noisy)


def _delta(result: SubmissionFinished) -> float:
    return DELTA_MIN if result.delta is None else result.delta
