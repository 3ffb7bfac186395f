"""The yardstick of a leaderboard: its fixed times, which are the unit of all scores.

A run measures the ratio of the submission's time to the yardstick's. Its times are that ratio
multiplied by the yardstick's own time in this run or, once they are fixed, by the frozen ones.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from harness.ranking_rules import score_us
from ranker.domain.goals import BASELINE, HELD_WITH_SCORE, PRACTICE, STOPPED
from ranker.domain.score import (
    NOISY,
    TIME_US_MAX,
    TIME_US_MIN,
    compute_score,
    shown_interval_us,
    tie_share,
    weights_of,
)
from shared.events import CaseResult, RestatedScore, SubmissionFinished
from shared.speedups import speedup_fields

# From so many runs on the median is fixed, even if all of them were noisy.
FIRST_RUNS = 3
# Besides eligible results, the codes of results whose runs count as first runs of a version.
FIRST_RUN_CODES = (BASELINE, PRACTICE, STOPPED, *HELD_WITH_SCORE)


class MeasuredRun(NamedTuple):
    """A ranked run with a score: its timed cases, and what its score was computed with."""

    submission: str
    run: str
    ranking_by: str
    timed: Sequence[CaseResult]
    sigma_run: float
    tie_us: float
    tier: str

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "MeasuredRun":
        """Make it from a row of sql/read.sql's `first_runs`."""
        cases = msgspec.convert(row["cases"], list[CaseResult])
        fields = {name: row[name] for name in cls._fields if name != "timed"}
        return cls(timed=[case for case in cases if case.stage == "time"], **fields)


def own_times(timed: Sequence[CaseResult]) -> dict[str, float] | None:
    """Return the yardstick's times by case; None if a case was timed alone, or without cases."""
    times = {
        case.name: case.yardstick_us
        for case in timed
        if case.yardstick_us is not None and TIME_US_MIN <= case.yardstick_us <= TIME_US_MAX
    }
    return times if timed and len(times) == len(timed) else None


def convert_times(
    timed: Sequence[CaseResult], fixed_us: Mapping[str, float] | None
) -> list[CaseResult]:
    """Return timed cases in units of the fixed times; unchanged if they were timed alone.

    >>> case = CaseResult(name="n=1", stage="time", verdict="passed", time_us=30.0,
    ...     process_us=[29.0, 31.0], interval_us=(28.0, 32.0), yardstick_us=60.0)
    >>> (converted,) = convert_times([case], {"n=1": 40.0})
    >>> converted.time_us, converted.yardstick_us
    (20.0, 40.0)
    """
    own_us = own_times(timed)
    if own_us is None or not fixed_us or not own_us.keys() <= fixed_us.keys():
        return list(timed)
    return [_convert_case(case, own_us[case.name], fixed_us[case.name]) for case in timed]


def _convert_case(case: CaseResult, own_us: float, fixed_us: float) -> CaseResult:
    if own_us == fixed_us:
        return case
    factor = fixed_us / own_us
    low_high = case.interval_us
    return replace(
        case,
        time_us=None if case.time_us is None else case.time_us * factor,
        interval_us=None if low_high is None else (low_high[0] * factor, low_high[1] * factor),
        process_us=[value * factor for value in case.process_us],
        yardstick_us=fixed_us,
    )


def show_cases(
    cases: Sequence[dict[str, Any]], fixed_us: Mapping[str, float] | None
) -> list[dict[str, Any]]:
    """Return stored cases in units of the fixed times, timed ones with their speed-up."""
    timed = msgspec.convert([case for case in cases if case["stage"] == "time"], list[CaseResult])
    converted = iter(convert_times(timed, fixed_us))
    return [
        case | _shown_fields(next(converted)) if case["stage"] == "time" else case for case in cases
    ]


def _shown_fields(case: CaseResult) -> dict[str, Any]:
    if case.yardstick_us is None:
        return {}
    names = ("time_us", "interval_us", "process_us")
    speedup = speedup_fields(case.yardstick_us, case.time_us, case.interval_us)
    return {name: getattr(case, name) for name in names} | speedup


def yardstick_score_us(ranking_by: str, timed: Sequence[CaseResult]) -> float | None:
    """Return the score that the yardstick itself would have; None if a case was timed alone."""
    own_us = own_times(timed)
    if own_us is None:
        return None
    return score_us(ranking_by, [own_us[case.name] for case in timed], weights_of(timed))


def is_first_run(end: SubmissionFinished) -> bool:
    """Whether a result's run counts among the first runs of a version."""
    return end.yardstick_us is not None and (end.is_eligible or end.code in FIRST_RUN_CODES)


def is_good(end: SubmissionFinished) -> bool:
    """Whether the yardstick's times in the run of a result may be fixed at once."""
    is_trusted = end.is_eligible or end.code in (BASELINE, PRACTICE)
    return is_trusted and end.yardstick_us is not None and end.grade != NOISY


def choose_runs(
    earlier: Sequence[MeasuredRun], newest: MeasuredRun, *, may_fix_alone: bool
) -> list[MeasuredRun]:
    """Return the runs whose median times are fixed, none if it is too early.

    A good run is enough; else the median over the first runs is fixed.
    """
    if may_fix_alone:
        return [newest]
    first_runs = [*earlier, newest]
    return first_runs if len(first_runs) >= FIRST_RUNS else []


def median_times(runs: Sequence[MeasuredRun]) -> dict[str, float] | None:
    """Return the median of the yardstick's times of runs, by case; None if one has none."""
    times = [own_times(run.timed) for run in runs]
    known = [by_case for by_case in times if by_case is not None]
    if (
        not known
        or len(known) < len(times)
        or any(by_case.keys() != known[0].keys() for by_case in known)
    ):
        return None
    return {name: median(by_case[name] for by_case in known) for name in known[0]}


def restate_score(run: MeasuredRun, fixed_us: Mapping[str, float]) -> RestatedScore | None:
    """Return the score of an earlier run in the new unit; None if it stays as it is."""
    timed = convert_times(run.timed, fixed_us)
    score = compute_score(run.ranking_by, timed, run.sigma_run)
    yardstick_us = yardstick_score_us(run.ranking_by, timed)
    if score is None or yardstick_us is None or timed == list(run.timed):
        return None
    delta = tie_share(run.ranking_by, timed, score, run.tie_us, run.tier)
    return RestatedScore(
        submission=run.submission,
        run=run.run,
        score_us=score.score_us,
        yardstick_us=yardstick_us,
        interval_us=shown_interval_us(score, delta),
        process_us=score.process_us,
        error=score.error,
        freedom=score.freedom,
        delta=delta,
    )


def restate_scores(
    runs: Sequence[MeasuredRun], fixed_us: Mapping[str, float]
) -> list[RestatedScore]:
    """Return the changed scores of earlier runs."""
    restated = (restate_score(run, fixed_us) for run in runs)
    return [score for score in restated if score is not None]


def apply_restated(result: SubmissionFinished, score: RestatedScore) -> SubmissionFinished:
    """Return a result with its restated score."""
    fields = msgspec.structs.asdict(score)
    del fields["submission"], fields["run"]
    return replace(result, **fields)
