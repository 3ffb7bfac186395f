"""Combines the processes of a case into its time and a reliable confidence interval.

It also makes the record of everything that was measured, so that anybody can recompute a result.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log, sqrt
from statistics import fmean, median, stdev
from typing import Any

from harness.time.estimators import (
    Ratio,
    estimate_ratio,
    interquartile_mean,
    mean_without_top,
    quantile,
)
from harness.time.process import (
    CROWDED_MAX,
    WAITED_MAX,
    MeasurementPlan,
    Process,
    Sample,
    has_slow_blocks,
)

_NULL_MAX = 0.05
# A time whose interval is this many times as wide as asked for claims no order.
_NOISY_FACTOR = 5.0
# The most serious first. A grade of any process is the case's grade; but one process of several
# can drift by chance.
_GRADES_OF_ANY = ("in_process", "host_sync", "launch_bound", "bimodal")
_EDGE_ERRORS = 2.0

_VERSION = 2


@dataclass(frozen=True)
class CaseTime:
    """What a case's report contains about its time; see messages.CaseReport for the fields.

    `statistics` describe the raw samples of the submission, which include the handshake, except
    those with names that say otherwise.
    """

    time_us: float
    interval_us: tuple[float, float]
    yardstick_us: float
    samples: int
    dropped: int
    process_us: list[float]
    error: float
    freedom: int
    null_us: list[float]
    grade: str
    statistics: dict[str, float]


def combine_processes(processes: Sequence[Process], plan: MeasurementPlan) -> CaseTime:
    """Return the time of a case from all its processes, which are the units of evidence.

    Shapes: at least one process. The time is the ratio to the yardstick, times the yardstick's
    frozen time, or its time in these processes if it has none.
    """
    ratio = measure_ratio(processes, plan)
    beside = [log(plan.work_us(pair.b)) for process in processes for pair in process.pairs]
    measured_us = exp(fmean(beside))
    slowdown = residue(processes, plan, beside, ratio.half_width)
    unit_us = plan.unit_us or measured_us
    low, high = ratio.interval
    scale = unit_us * exp(slowdown)
    return CaseTime(
        time_us=scale * exp(ratio.log),
        interval_us=(scale * low, scale * high),
        yardstick_us=unit_us,
        samples=sum(len(process.samples_us) for process in processes),
        dropped=sum(len(process.samples) - len(process.samples_us) for process in processes),
        process_us=[scale * exp(value) for value in ratio.processes],
        error=ratio.error,
        freedom=ratio.freedom,
        null_us=plan.null_us,
        grade=_grade(processes, ratio, plan),
        statistics=_statistics(processes, plan)
        | {"yardstick_measured_us": measured_us, "residue": slowdown},
    )


def measure_ratio(processes: Sequence[Process], plan: MeasurementPlan) -> Ratio:
    """Return the ratio of A to B in these processes; of all their calls if they are bimodal."""
    is_plain = _is_bimodal(processes, plan)
    differences = [
        [pair.difference(plan, is_plain=is_plain) for pair in process.pairs]
        for process in processes
    ]
    return estimate_ratio(differences, _known_sigma(processes, plan), is_plain=is_plain)


def _is_bimodal(processes: Sequence[Process], plan: MeasurementPlan) -> bool:
    """Return whether slow calls of A count: those within a process, or slow blocks in most.

    A slow block in a single process may be chance.
    """
    slow = sum(has_slow_blocks(process, plan) for process in processes)
    is_usual = slow > 1 and 2 * slow > len(processes)
    return is_usual or any(process.grade == "bimodal" for process in processes)


def _known_sigma(processes: Sequence[Process], plan: MeasurementPlan) -> float:
    """Return how much fresh processes differ at least, for calls as short as these."""
    values = [pair.values_us(plan) for process in processes for pair in process.pairs]
    shorter_us = min(fmean(side) for side in zip(*values, strict=True))
    return plan.policy.sigma_at(shorter_us)


def residue(
    processes: Sequence[Process], plan: MeasurementPlan, beside: Sequence[float], half_width: float
) -> float:
    """Return by how much A has slowed B down, as a logarithm; 0 if it cannot be told from chance.

    A submission would gain from a yardstick that is slow `beside` it, for example because of what
    its calls leave in the caches. Before its first call and after its last one, they leave nothing.
    """
    firsts = [log(plan.work_us(process.first)) for process in processes]
    lasts = [log(plan.work_us(process.last)) for process in processes if process.last]
    edges = [fmean(edge) for edge in (firsts, lasts) if edge]
    if len(beside) < 2:
        return 0.0
    error = stdev(beside) * sqrt(1 / len(beside) + 1 / len(firsts))
    return max(0.0, fmean(beside) - min(edges) - max(half_width, _EDGE_ERRORS * error))


def run_figures(times: Sequence[CaseTime]) -> tuple[float, float]:
    """Return the deviation of the run's processes, and what a cheat could hide in a case.

    Whatever moves a machine moves all cases of a run alike, so averaging does not reduce it.
    """
    if not times:
        return 0.0, 0.0
    sigma = fmean(time.error * sqrt(len(time.process_us)) for time in times)
    return sigma, max(time.statistics["hideable_us"] for time in times)


def _grade(processes: Sequence[Process], ratio: Ratio, plan: MeasurementPlan) -> str:
    grades = [process.grade for process in processes]
    if _is_bimodal(processes, plan):
        grades.append("bimodal")
    for grade in _GRADES_OF_ANY:
        if grade in grades:
            return grade
    if is_noisy(processes, ratio, plan):
        return "noisy"
    if 2 * grades.count("trend") > len(grades):
        return "trend"
    raw_us = fmean(time for process in processes for time in process.samples_us)
    return "handshake_bound" if plan.handshake_us > _NULL_MAX * raw_us else "ok"


def is_noisy(processes: Sequence[Process], ratio: Ratio, plan: MeasurementPlan) -> bool:
    """Return whether a time claims no order: too wide an interval, or a crowded machine.

    Short calls are never as precise as asked for; that is no noise of this machine.
    """
    usual = max(plan.policy.precision, _known_sigma(processes, plan))
    return (
        ratio.half_width > _NOISY_FACTOR * usual
        or fmean(process.crowded_share for process in processes) > CROWDED_MAX
        or fmean(process.waited_share for process in processes) > WAITED_MAX
    )


def _statistics(processes: Sequence[Process], plan: MeasurementPlan) -> dict[str, float]:
    times = [time for process in processes for time in process.samples_us]
    pairs = [pair for process in processes for pair in process.pairs]
    deviation = stdev(times) if len(times) > 1 else 0.0
    return {
        "mean_us": fmean(times),
        "median_us": median(times),
        "best_us": min(times),
        "worst_us": max(times),
        "sd_us": deviation,
        "se_us": deviation / sqrt(len(times)),
        "iq_mean_us": interquartile_mean(times),
        "mean_98_us": mean_without_top(times),
        "q1_us": quantile(times, 0.25),
        "q3_us": quantile(times, 0.75),
        "p5_us": quantile(times, 0.05),
        "p95_us": quantile(times, 0.95),
        "p99_us": quantile(times, 0.99),
        "raw_us": fmean(pair.a.value_us(plan.policy.timer_step_us) for pair in pairs),
        "handshake_us": plan.handshake_us,
        "hideable_us": _hideable_us(plan),
        "processes": float(len(processes)),
        "pairs": float(len(pairs)),
        "crowded_share": fmean(process.crowded_share for process in processes),
        "waited_share": fmean(process.waited_share for process in processes),
    }


def _hideable_us(plan: MeasurementPlan) -> float:
    if not plan.is_gated:
        return 0.0
    if plan.policy.hideable_us is not None:
        return plan.policy.hideable_us
    # A rank that starts late may have done another rank's work before, at most for the stagger.
    return plan.stagger_us + (plan.null_us[2] - plan.null_us[0] if plan.null_us else 0.0)


def make_record(processes: Sequence[Process], plan: MeasurementPlan) -> dict[str, Any]:
    """Return one case: the result and the samples of both sides; 10 to 40 kB compressed."""
    return {
        "time": asdict(combine_processes(processes, plan)) if processes else None,
        "calibration": dict(plan.calibration),
        "handshake_us": plan.handshake_us,
        "nulls": encode_samples(plan.nulls),
        "processes": [_encode_process(process) for process in processes],
    }


def compress_records(cases: Mapping[str, Any]) -> bytes:
    """Return the file samples.json.gz: records by case name, as reproducible bytes."""
    body = {"version": _VERSION, "unit": "us", "cases": cases}
    text = json.dumps(body, allow_nan=False, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), mtime=0)


def _encode_process(process: Process) -> dict[str, Any]:
    return {
        "grade": process.grade,
        "warm_ups": encode_samples(process.warm_ups),
        "first": encode_samples(process.first.samples),
        "last": encode_samples(process.last.samples if process.last else ()),
        "looks": [asdict(look) for look in process.looks],
        "pairs": [
            {
                "order": pair.order,
                "is_crowded": pair.is_crowded,
                "A": encode_samples(pair.a.samples),
                "B": encode_samples(pair.b.samples),
            }
            for pair in process.pairs
        ],
    }


def encode_samples(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return times by slot, and flags only of slots that have any, which are few."""
    flags = {str(slot): list(sample.flags) for slot, sample in enumerate(samples) if sample.flags}
    lost = {str(slot): sample.lost_us for slot, sample in enumerate(samples) if sample.lost_us}
    return {"time_us": [sample.time_us for sample in samples], "flags": flags, "lost_us": lost}
