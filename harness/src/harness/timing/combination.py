"""From the processes of a case to its time, with an interval that tells the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt
from statistics import fmean, median, stdev

from harness.timing.estimators import (
    interquartile_mean,
    mean_without_top,
    quantile,
    reach,
)
from harness.timing.gates import beyond
from harness.timing.history import sigma_at
from harness.timing.process import Plan, Process, kept_us

# A machine's own deviation counts as known with so many degrees of freedom.
HISTORY_FREEDOM = 20
_NULL_MAX = 0.05
_REST_MIN = 0.05
_REACH_MAX = 50.0
# The gravest first. What any process shows, the case shows; but chance lets one process of
# several be noisy, so that takes most of them.
_BY_ANY = ("in_process", "host_sync", "launch_bound", "bimodal")
_BY_MOST = ("trend", "noisy")


@dataclass(frozen=True)
class CaseTime:
    """What a case's report says of its time; messages.CaseReport has the meaning of the fields.

    `statistics` are of the raw samples, the handshake still in them, but for `sigma_run`, which
    is the machine's deviation as a fraction of `time_us`, and what its name says otherwise.
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
class _Share:
    """What one process says: its raw value, the handshake in it, and what is left without it.

    `time_us` is what is left, on a machine as fast as this one usually is.
    """

    value_us: float
    handshake_us: float
    rest_us: float
    time_us: float


def combine(processes: Sequence[Process], plan: Plan) -> CaseTime:
    """The time of a case from all its processes, which are the evidence; samples are not.

    Shapes: at least one process.
    Source: spec/timing.md 4: the mean in logarithms; its error is at least the machine's own.
    """
    shares = _shares(processes, plan)
    times = [share.time_us for share in shares]
    raw_us = fmean(share.value_us for share in shares)
    centre = fmean(log(time) for time in times)
    # What is a fraction of the raw value is a larger one of what the handshake leaves.
    scale = raw_us / fmean(share.rest_us for share in shares)
    sigma = scale * hypot(_sigma_run(plan, raw_us), _shift(processes, plan) * sqrt(len(times)))
    error, freedom = _error(processes, times, sigma, scale)
    half = min(reach(freedom) * error, _REACH_MAX)
    return CaseTime(
        time_us=exp(centre),
        interval_us=(exp(centre - half), exp(centre + half)),
        samples=sum(len(process.samples_us) for process in processes),
        dropped=sum(process.dropped for process in processes),
        process_us=times,
        error=error,
        freedom=freedom,
        null_us=_null_us(processes),
        grade=_grade(processes, shares, plan),
        statistics=_statistics(processes)
        | _of_machine(processes, shares, plan)
        | {"sigma_run": sigma},
    )


def figures(times: Sequence[CaseTime]) -> tuple[float, float]:
    """The machine's run-to-run deviation over a run's cases, and what a cheat could hide in one.

    What moves a machine moves all cases of a run alike, so deviations are not averaged away.
    """
    if not times:
        return 0.0, 0.0
    sigma = fmean(time.statistics["sigma_run"] for time in times)
    return sigma, max(time.statistics["hideable_us"] for time in times)


def _shares(processes: Sequence[Process], plan: Plan) -> list[_Share]:
    """Each process without its handshake, but with no less than a share of its raw value.

    A smaller rest cannot be told from an empty call, and might be negative. The spread of the null
    calls would be no floor: on a crowded machine it is longer than the calls that are timed.
    """
    is_plain = any(process.grade == "bimodal" for process in processes)
    usual_us = _usual_probe_us(processes, plan)
    shares = []
    for process in processes:
        value_us = fmean(process.samples_us) if is_plain else process.value_us
        handshake_us = _handshake_us(process, plan)
        least_us = max(plan.policy.timer_step_us, _REST_MIN * value_us)
        rest_us = max(least_us, value_us - handshake_us)
        time_us = rest_us * usual_us / process.probe_us if process.probe_us else rest_us
        shares.append(_Share(value_us, handshake_us, rest_us, time_us))
    return shares


def _usual_probe_us(processes: Sequence[Process], plan: Plan) -> float:
    """What the platform's fixed work takes on this machine, or took now if that is not known."""
    found = [process.probe_us for process in processes if process.probe_us]
    return plan.history.probe_us or (median(found) if found else 0.0)


def _handshake_us(process: Process, plan: Plan) -> float:
    """What a call with nothing in it takes; a machine slowed for a moment does not raise it."""
    if not plan.is_gated:
        return 0.0
    usual = plan.history.null_us(plan.shape)
    times = kept_us(process.nulls)
    # Of a block the fastest samples count, so of the null calls the fastest must.
    is_fastest = plan.policy.samples_share is not None and times
    null_us = min(times) if is_fastest else process.null_us
    return null_us if usual is None else min(null_us, usual)


def _sigma_run(plan: Plan, raw_us: float) -> float:
    return sigma_at(plan.history.sigma_run or plan.policy.sigma_run, raw_us)


def _shift(processes: Sequence[Process], plan: Plan) -> float:
    """Half of what the machine was off, where that was too much: a shift the interval must hold."""
    off = median(process.deviation_max for process in processes)
    is_off = any(beyond(process.deviation, plan.policy.flag_at) for process in processes)
    return abs(log(1 + off)) / 2 if is_off else 0.0


def _error(
    processes: Sequence[Process], times: Sequence[float], sigma: float, scale: float
) -> tuple[float, int]:
    """The standard error of the logarithm, never less than the machine's own, and its freedom."""
    within = scale * sqrt(sum(process.error**2 for process in processes)) / len(times)
    spread = stdev(map(log, times)) if len(times) > 1 else 0.0
    own = max(spread, sigma) / sqrt(len(times))
    freedom = HISTORY_FREEDOM + (len(times) - 1 if spread > sigma else 0)
    return max(own, within), freedom


def _null_us(processes: Sequence[Process]) -> list[float]:
    """The p10, median and p90 of all null calls."""
    times = [time for process in processes for time in kept_us(process.nulls)]
    return [quantile(times, share) for share in (0.1, 0.5, 0.9)] if times else []


def _grade(processes: Sequence[Process], shares: Sequence[_Share], plan: Plan) -> str:
    grades = [process.grade for process in processes]
    for grade in _BY_ANY:
        if grade in grades:
            return grade
    for grade in _BY_MOST:
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


def _of_machine(
    processes: Sequence[Process], shares: Sequence[_Share], plan: Plan
) -> dict[str, float]:
    handshake_us = fmean(share.handshake_us for share in shares)
    found = {
        "raw_us": fmean(share.value_us for share in shares),
        "handshake_us": handshake_us,
        "hideable_us": _hideable_us(processes, plan),
        "processes": float(len(processes)),
        "blocks": float(sum(len(process.counted) for process in processes)),
    }
    if probes := [process.probe_us for process in processes if process.probe_us]:
        found["probe_us"] = fmean(probes)
        found["usual_probe_us"] = _usual_probe_us(processes, plan)
    if any(process.deviation for process in processes):
        found["reference_deviation"] = median(process.deviation_max for process in processes)
    return found


def _hideable_us(processes: Sequence[Process], plan: Plan) -> float:
    if not plan.is_gated:
        return 0.0
    if plan.policy.hideable_us is not None:
        return plan.policy.hideable_us
    null_us = _null_us(processes)
    # A rank that starts late can have done another's work before: no more of it than the stagger.
    return plan.stagger_us + (null_us[2] - null_us[0] if null_us else 0.0)
