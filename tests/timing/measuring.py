"""Helpers that measure processes and cases of two fake sides."""

from dataclasses import replace
from random import Random

from harness.time.combination import CaseTime, combine_processes
from harness.time.policy import policy_for
from harness.time.procedure import measure_edge, measure_process
from harness.time.process import MeasurementPlan, Process
from tests.timing.fake import FakeKernel, FakeMachine, FakePair

QUIET = FakeMachine(cv=0.003)


def plan_for(device: str = "cpu", mode: str = "ranked", **changes: object) -> MeasurementPlan:
    """Return a plan for kernels of any length: a fake has no jitter of some microseconds."""
    changes = {"sigma_us": 0.0} | changes
    return MeasurementPlan(replace(policy_for(device, mode), **changes))  # type: ignore[arg-type]


def measure_fake(fake: FakePair, plan: MeasurementPlan) -> Process:
    """Measure a process of the fake sides, with the last block of B after A's end."""
    process = measure_process(fake, plan, fake.now_s, Random(fake.seed).randrange)
    fake.end_submission()
    return replace(process, last=measure_edge(fake, plan))


def one_process(
    kernel: FakeKernel | None = None,
    machine: FakeMachine = QUIET,
    plan: MeasurementPlan | None = None,
    seed: int = 1,
) -> Process:
    fake = FakePair(seed, kernel or FakeKernel(), machine)
    return measure_fake(fake, plan or plan_for())


def one_case(
    kernel: FakeKernel | None = None,
    machine: FakeMachine = QUIET,
    plan: MeasurementPlan | None = None,
    seed: int = 1,
    yardstick: FakeKernel | None = None,
) -> CaseTime:
    """Measure a case as a stage does: null calls once, then so many processes."""
    plan = plan or plan_for()
    fakes = [
        FakePair(100 * seed + number, kernel or FakeKernel(), machine, yardstick or FakeKernel())
        for number in range(plan.policy.processes)
    ]
    if machine.null_us:
        plan = replace(plan, nulls=fakes[0].nulls())
    return combine_processes([measure_fake(fake, plan) for fake in fakes], plan)
