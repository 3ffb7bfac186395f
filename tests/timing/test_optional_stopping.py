"""A kernel of random speed gains nothing by when a measurement stops."""

from collections.abc import Iterator
from dataclasses import replace
from math import exp, log
from random import Random
from statistics import fmean

import pytest

from harness.time.combination import combine_processes, measure_ratio
from harness.time.process import MeasurementPlan, Process
from tests.timing.fake import FakeKernel, FakeMachine, FakePair
from tests.timing.measuring import measure_fake, plan_for

# Thousands of simulated runs.
pytestmark = pytest.mark.long

# What ties two scores at least, on the processor: half of it may be the advantage of a stop.
TIE = 0.01
MACHINE = FakeMachine(cv=0.01, process_sd=0.002)
RUNS = 40
RUNS_LONG = 800
KINDS = ("of one speed", "slow in some calls", "of another speed in each process", "often lucky")


def kernel(kind: str, draws: Random) -> FakeKernel:
    """Return a kernel as it is in one process; all kinds take about a millisecond."""
    speed = 1.0
    if kind == "of another speed in each process":
        speed = exp(0.03 * draws.gauss(0, 1))
    if kind == "often lucky":
        speed = 1.1 if draws.random() < 0.3 else 1.0
    share, by = (0.3, 1.0) if kind == "slow in some calls" else (0.0, 0.0)
    return FakeKernel(time_us=1000.0 * speed, slow_share=share, slow_by=by)


def processes(kind: str, seed: int, plan: MeasurementPlan) -> Iterator[Process]:
    """Measure one process after the other, each with a kernel and a yardstick of its own."""
    draws = Random(seed)
    while True:
        fake = FakePair(draws.randrange(2**32), kernel(kind, draws), MACHINE, FakeKernel(1000.0))
        yield measure_fake(fake, plan)


def stopped_log(kind: str, seed: int, plan: MeasurementPlan) -> float:
    """Return ln(time / yardstick) of a run that stops when it is precise, as a stage does."""
    found: list[Process] = []
    for process in processes(kind, seed, plan):
        found.append(process)
        if len(found) >= plan.policy.processes:
            half_width = measure_ratio(found, plan).half_width
            is_precise = half_width <= plan.policy.precision
            if is_precise or plan.policy.is_futile(half_width):
                break
        if len(found) == plan.policy.processes_max:
            break
    return log(combine_processes(found, plan).time_us / 1000.0)


def whole_log(kind: str, seed: int, plan: MeasurementPlan) -> float:
    """Return the same of a run that never stops early."""
    patient = replace(plan, policy=replace(plan.policy, precision=0.0))
    measured = processes(kind, seed, patient)
    found = [next(measured) for _ in range(plan.policy.processes_max)]
    return log(combine_processes(found, patient).time_us / 1000.0)


def advantage(kind: str, runs: int) -> float:
    """Return by how much a run that may stop is faster on average, as a fraction."""
    plan = replace(plan_for(), unit_us=1000.0)
    stopped = fmean(stopped_log(kind, seed, plan) for seed in range(runs))
    return fmean(whole_log(kind, -1 - seed, plan) for seed in range(runs // 4)) - stopped


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_at_a_lucky_moment_gains_less_than_a_tie(kind: str) -> None:
    assert advantage(kind, RUNS) < TIE


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_over_many_runs_a_stop_gains_less_than_half_a_tie(kind: str) -> None:
    assert advantage(kind, RUNS_LONG) < TIE / 2
