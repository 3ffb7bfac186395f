"""What a problem's baselines came to on a leaderboard, and what a time is against them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ranker.domain.conclusion import BASELINE

Row = Mapping[str, Any]
# How a run ends that says something of its baseline: another was cancelled, or failed by us.
SAID = ("passed", "failed", "timed_out")
TIME = "time"


def standing(runs: Iterable[Row]) -> dict[str, Row]:
    """The run that counts for each baseline, of all its runs, newest first.

    The newest with a verdict counts; where there is none yet, the newest. Who asked for another
    run waits for it, and meanwhile the last one stands.
    """
    found: dict[str, Row] = {}
    for run in runs:
        known = found.get(run["name"])
        if known is None or (known["outcome"] not in SAID and run["outcome"] in SAID):
            found[run["name"]] = run
    return found


def is_measured(run: Row) -> bool:
    """Whether a run gives its baseline a score."""
    return run["code"] == BASELINE and run["score_us"] is not None


def scores_us(standing: Mapping[str, Row]) -> dict[str, float]:
    """The score of each baseline that has one."""
    return {name: run["score_us"] for name, run in standing.items() if is_measured(run)}


def speedup(baseline_us: float | None, own_us: float | None) -> float | None:
    """How many times as fast as a baseline a time is; None of what is no time.

    >>> speedup(30.0, 10.0), speedup(10.0, 20.0), speedup(None, 10.0), speedup(10.0, 0.0)
    (3.0, 0.5, None, None)
    """
    if baseline_us is None or own_us is None or not (baseline_us > 0 and own_us > 0):
        return None
    return baseline_us / own_us


def times_us(cases: Sequence[Row]) -> dict[str, float]:
    """The time of each timed case of a run, by its name; hidden ones have none to show."""
    return {
        case["name"]: case["time_us"]
        for case in cases
        if case["stage"] == TIME and not case.get("is_hidden") and case.get("time_us")
    }


def against(case: Row, baselines: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """How many times as fast as each baseline a case was, where both have a time."""
    own_us = times_us([case]).get(case["name"])
    found = {name: speedup(times.get(case["name"]), own_us) for name, times in baselines.items()}
    return {name: ratio for name, ratio in found.items() if ratio is not None}
