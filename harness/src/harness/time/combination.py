"""Combines the processes of a case into its time and a reliable confidence interval.

It also makes the record of everything that was measured, so that anybody can recompute a result.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, hypot, log, sqrt
from statistics import fmean, median, stdev
from typing import Any

from harness.time.estimators import (
    interquartile_mean,
    mean_of_fastest,
    mean_without_top,
    quantile,
    t_quantile,
)
from harness.time.policy import Policy, interpolate_sigma
from harness.time.process import (
    MeasurementPlan,
    Process,
    Sample,
    kernels_beyond,
    select_times_us,
)

# A machine's own deviation counts as known with this many degrees of freedom.
HISTORY_FREEDOM = 20
_NULL_MAX = 0.05
_WORK_SHARE_MIN = 0.05
_HALF_WIDTH_MAX = 50.0
# Between a quiet core and one whose sibling is busy a probe takes 1.6 times as long (2 cores of a
# shared host, 2026-11); on a quiet one 95 of 100 are within 5 %.
_QUIET_FACTOR_MAX = 1.1
_QUIET_CALLS_MIN = 10
# In none of 135 honest runs were more probes slow while all those at the edges were fast (2 cores
# of a shared host, 2026-11).
_LOUD_SHARE_MAX = 1 / 3
# The most serious first. A grade of any process is the case's grade; but one process of several
# can be noisy by chance, so some grades need most of them.
_GRADES_OF_ANY = ("in_process", "host_sync", "launch_bound", "bimodal")
_GRADES_OF_MOST = ("trend", "noisy")

_VERSION = 1


@dataclass(frozen=True)
class CaseTime:
    """What a case's report contains about its time; see messages.CaseReport for the fields.

    `statistics` describe the raw samples, which include the handshake, except `sigma_run`, the
    machine's deviation as a fraction of `time_us`, and names that say otherwise.
    """

    time_us: float
    interval_us: tuple[float, float]
    samples: int
    dropped: int
    process_us: list[float]
    error: float
    freedom: int
    null_us: list[float]
    grade: str
    statistics: dict[str, float]


@dataclass(frozen=True)
class _ProcessShare:
    """What one process contributes: its raw value, its handshake, and the rest, `work_us`.

    `time_us` is the rest on a machine at its usual speed.
    """

    value_us: float
    handshake_us: float
    work_us: float
    time_us: float


def combine_processes(processes: Sequence[Process], plan: MeasurementPlan) -> CaseTime:
    """Return the time of a case from all its processes, which are the units of evidence.

    Shapes: at least one process; no more values come out than the policy asks for, because a score
    pairs the values of all cases, and another case may have needed fewer processes.
    Source: spec/timing.md 4: the mean of logarithms; its error is at least the machine's own.
    """
    quiet = _quiet_share(processes, plan)
    if not quiet:
        processes = _fastest_processes(processes, plan.policy.processes)
    shares = [quiet] if quiet else _shares(processes, plan)
    times = (
        _jackknife_times(quiet, processes, plan) if quiet else [share.time_us for share in shares]
    )
    raw_us = fmean(share.value_us for share in shares)
    centre = fmean(log(time) for time in times)
    # A fraction of the raw value is a larger fraction of the time without the handshake.
    scale = raw_us / fmean(share.work_us for share in shares)
    # A machine that was quiet during the counted calls was not off for them.
    shift = 0.0 if quiet else _machine_shift(processes, plan)
    own_sigma = interpolate_sigma(plan.history.sigma_run or plan.policy.sigma_run, raw_us)
    sigma = scale * hypot(own_sigma, shift * sqrt(len(times)))
    # The spread of quiet processes already contains the spread of their calls.
    includes_within = quiet is not None and len(times) > 1
    within = (
        0.0
        if includes_within
        else scale * sqrt(sum(process.error**2 for process in processes)) / len(times)
    )
    error, freedom = _log_error(times, sigma, within)
    half_width_log = min(t_quantile(freedom) * error, _HALF_WIDTH_MAX)
    return CaseTime(
        time_us=exp(centre),
        interval_us=(exp(centre - half_width_log), exp(centre + half_width_log)),
        samples=sum(len(process.samples_us) for process in processes),
        dropped=sum(process.dropped for process in processes),
        process_us=times,
        error=error,
        freedom=freedom,
        null_us=_null_us(processes),
        grade=_grade(processes, shares, plan),
        statistics=_statistics(processes)
        | _machine_statistics(processes, shares, plan)
        | {"sigma_run": sigma},
    )


def run_figures(times: Sequence[CaseTime]) -> tuple[float, float]:
    """Return the machine's run-to-run deviation, and what a cheat could hide in a case.

    Whatever moves a machine moves all cases of a run alike, so averaging does not reduce it.
    """
    if not times:
        return 0.0, 0.0
    sigma = fmean(time.statistics["sigma_run"] for time in times)
    return sigma, max(time.statistics["hideable_us"] for time in times)


def list_quiet_us(processes: Sequence[Process], plan: MeasurementPlan) -> list[float]:
    """Return the times of calls while the machine was quiet: the probes beside them were fast.

    They are scaled to the machine's usual speed, which the fast probes of a process show. A
    submission cannot make a loud machine seem quiet. What it leaves behind may slow the probe after
    a call and so hide that call: see `_is_loud_by_itself`.
    """
    probed = [process for process in processes if process.fast_probe_us]
    if not probed:
        return []
    least_us = min(process.fast_probe_us for process in probed)
    usual_us = plan.history.probe_us or least_us
    limit_us = _quiet_limit_us(probed, plan)
    times_us = []
    for process in probed:
        fast_us = process.fast_probe_us
        # If it was loud nearly all the time, its fast probes do not describe the quiet calls.
        scale = usual_us / (fast_us if fast_us <= limit_us else least_us)
        times_us += [scale * time_us for time_us in process.quiet_us(limit_us)]
    return times_us


def _quiet_limit_us(probed: Sequence[Process], plan: MeasurementPlan) -> float:
    """Return the time of a probe above which the machine counts as loud."""
    least_us = min(process.fast_probe_us for process in probed)
    return _QUIET_FACTOR_MAX * min(least_us, plan.history.probe_us or least_us)


def _uses_plain_mean(processes: Sequence[Process], plan: MeasurementPlan) -> bool:
    """Whether a submission loses the benefit of its fastest calls.

    Its calls fall into two groups, or it slows the probes after its calls.
    """
    is_bimodal = any(process.grade == "bimodal" for process in processes)
    return is_bimodal or _is_loud_by_itself(processes, plan)


def _is_loud_by_itself(processes: Sequence[Process], plan: MeasurementPlan) -> bool:
    """Whether many probes after calls are slow, but none that the submission cannot influence."""
    probed = [process for process in processes if process.fast_probe_us]
    if not probed:
        return False
    limit_us = _quiet_limit_us(probed, plan)
    probes_us = [probe_us for process in probed for probe_us in process.probes]
    loud_count = sum(probe_us > limit_us for probe_us in probes_us)
    edges = [edge for process in processes for edge in (process.first_probes, process.last_probes)]
    is_machine_loud = any(edge and median(edge) > limit_us for edge in edges)
    return loud_count > _LOUD_SHARE_MAX * len(probes_us) and not is_machine_loud


def _quiet_share(processes: Sequence[Process], plan: MeasurementPlan) -> _ProcessShare | None:
    """Combine the fastest quiet calls of all processes; None if there are too few."""
    times_us = list_quiet_us(processes, plan)
    is_plain = _uses_plain_mean(processes, plan)
    if plan.policy.quiet_share is None or is_plain or len(times_us) < _QUIET_CALLS_MIN:
        return None
    usual_us = interquartile_mean(times_us)
    value_us = mean_of_fastest(times_us, plan.policy.quiet_share, usual_us)
    handshake_us = min(_handshake_us(process, plan) for process in processes)
    rest_us = work_us(value_us, handshake_us, plan.policy)
    return _ProcessShare(value_us, handshake_us, rest_us, rest_us)


def _jackknife_times(
    whole: _ProcessShare, processes: Sequence[Process], plan: MeasurementPlan
) -> list[float]:
    """Return one time per group of processes; the mean of their logarithms is that of the whole.

    They differ by what each group contributes (jackknife), so that their standard error is that of
    the whole. There are as many groups as the policy asks for processes; extra ones join them. A
    group without which too few quiet calls remain contributes nothing.
    """
    count = min(len(processes), plan.policy.processes)
    middle = log(whole.time_us)
    others = [
        _quiet_share(
            [process for index, process in enumerate(processes) if index % count != group], plan
        )
        or whole
        for group in range(count)
    ]
    logs = [log(other.time_us) for other in others]
    return [exp(middle + (count - 1) * (fmean(logs) - value)) for value in logs]


def _fastest_processes(processes: Sequence[Process], count: int) -> list[Process]:
    """Return so many processes, in their order: other work only ever adds to times."""
    fastest = sorted(processes, key=lambda process: process.value_us)[:count]
    return [process for process in processes if process in fastest]


def work_us(value_us: float, handshake_us: float, policy: Policy) -> float:
    """Return a value without the handshake, but at least a share of it.

    A smaller rest cannot be told from an empty call, and might be negative. The spread of the null
    calls is no useful minimum: on a busy machine it exceeds the calls that are timed.
    """
    least_us = max(policy.timer_step_us, _WORK_SHARE_MIN * value_us)
    return max(least_us, value_us - handshake_us)


def _shares(processes: Sequence[Process], plan: MeasurementPlan) -> list[_ProcessShare]:
    """Return each process without its handshake."""
    is_plain = _uses_plain_mean(processes, plan)
    usual_us = _usual_probe_us(processes, plan)
    shares = []
    for process in processes:
        value_us = fmean(process.samples_us) if is_plain else process.value_us
        handshake_us = _handshake_us(process, plan)
        rest_us = work_us(value_us, handshake_us, plan.policy)
        time_us = rest_us * usual_us / process.probe_us if process.probe_us else rest_us
        shares.append(_ProcessShare(value_us, handshake_us, rest_us, time_us))
    return shares


def _usual_probe_us(processes: Sequence[Process], plan: MeasurementPlan) -> float:
    """Return the usual time of the platform's fixed work here, or the current one if unknown."""
    probes_us = [process.probe_us for process in processes if process.probe_us]
    return plan.history.probe_us or (median(probes_us) if probes_us else 0.0)


def _handshake_us(process: Process, plan: MeasurementPlan) -> float:
    """Return what an empty call takes; a temporarily slow machine does not raise it."""
    if not plan.is_gated:
        return 0.0
    usual_us = plan.history.null_us(plan.shape)
    times = select_times_us(process.nulls)
    # The fastest samples of a block count, so the fastest null call must count too.
    is_fastest = plan.policy.samples_share is not None and times
    null_us = min(times) if is_fastest else process.null_us
    return null_us if usual_us is None else min(null_us, usual_us)


def _machine_shift(processes: Sequence[Process], plan: MeasurementPlan) -> float:
    """Return half of the machine's deviation if it was too large; the interval must cover it."""
    deviation = median(process.deviation_max for process in processes)
    is_off = any(kernels_beyond(process.deviation, plan.policy.flag_at) for process in processes)
    return abs(log(1 + deviation)) / 2 if is_off else 0.0


def _log_error(times: Sequence[float], sigma: float, within: float) -> tuple[float, int]:
    """Return the standard error of the logarithm, at least the machine's own, and its freedom."""
    spread = stdev(map(log, times)) if len(times) > 1 else 0.0
    own = max(spread, sigma) / sqrt(len(times))
    freedom = HISTORY_FREEDOM + (len(times) - 1 if spread > sigma else 0)
    return max(own, within), freedom


def _null_us(processes: Sequence[Process]) -> list[float]:
    """Return p10, median and p90 of all null calls."""
    times = [time for process in processes for time in select_times_us(process.nulls)]
    return [quantile(times, share) for share in (0.1, 0.5, 0.9)] if times else []


def _grade(
    processes: Sequence[Process], shares: Sequence[_ProcessShare], plan: MeasurementPlan
) -> str:
    grades = [process.grade for process in processes]
    for grade in _GRADES_OF_ANY:
        if grade in grades:
            return grade
    for grade in _GRADES_OF_MOST:
        if 2 * grades.count(grade) > len(grades):
            return grade
    handshake_us = fmean(share.handshake_us for share in shares)
    if plan.is_gated and handshake_us > _NULL_MAX * fmean(share.value_us for share in shares):
        return "handshake_bound"
    return "ok"


def _statistics(processes: Sequence[Process]) -> dict[str, float]:
    times = [time for process in processes for time in process.samples_us]
    deviation = stdev(times)
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
    }


def _machine_statistics(
    processes: Sequence[Process], shares: Sequence[_ProcessShare], plan: MeasurementPlan
) -> dict[str, float]:
    handshake_us = fmean(share.handshake_us for share in shares)
    statistics = {
        "raw_us": fmean(share.value_us for share in shares),
        "handshake_us": handshake_us,
        "hideable_us": _hideable_us(processes, plan),
        "processes": float(len(processes)),
        "blocks": float(sum(len(process.counted) for process in processes)),
    }
    if probes := [process.probe_us for process in processes if process.probe_us]:
        statistics["probe_us"] = fmean(probes)
        statistics["usual_probe_us"] = _usual_probe_us(processes, plan)
    if any(process.deviation for process in processes):
        statistics["reference_deviation"] = median(process.deviation_max for process in processes)
    return statistics


def _hideable_us(processes: Sequence[Process], plan: MeasurementPlan) -> float:
    if not plan.is_gated:
        return 0.0
    if plan.policy.hideable_us is not None:
        return plan.policy.hideable_us
    null_us = _null_us(processes)
    # A rank that starts late may have done another rank's work before, at most for the stagger.
    return plan.stagger_us + (null_us[2] - null_us[0] if null_us else 0.0)


def make_record(processes: Sequence[Process], time: CaseTime) -> dict[str, Any]:
    """Return one case: the result and the samples; about 10 to 40 kB compressed."""
    return {
        "time": asdict(time),
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
        "value_us": process.value_us,
        "calibration": dict(process.calibration),
        "probes": list(process.probes),
        "first_probes": list(process.first_probes),
        "last_probes": list(process.last_probes),
        "probe_us": process.probe_us,
        "deviation": dict(process.deviation),
        "references": process.references,
        "nulls": _encode_samples(process.nulls),
        "warm_ups": _encode_samples(process.warm_ups),
        "looks": [asdict(look) for look in process.looks],
        "blocks": [
            {
                "value_us": block.value_us,
                "wall_s": block.wall_s,
                "is_counted": block.is_counted,
                "references": [
                    [sample.name, sample.slot, sample.time_us] for sample in block.references
                ],
                **_encode_samples(block.samples),
            }
            for block in process.blocks
        ],
    }


def _encode_samples(samples: Sequence[Sample]) -> dict[str, Any]:
    """Return times by slot, and flags only of slots that have any, which are few."""
    flags = {str(slot): list(sample.flags) for slot, sample in enumerate(samples) if sample.flags}
    lost = {str(slot): sample.lost_us for slot, sample in enumerate(samples) if sample.lost_us}
    return {"time_us": [sample.time_us for sample in samples], "flags": flags, "lost_us": lost}
