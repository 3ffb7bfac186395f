"""Helpers that measure passes and cases on the fake device."""

from dataclasses import replace
from random import Random

from harness.time.combination import CaseTime, combine_processes
from harness.time.policy import History, Policy, policy_for
from harness.time.procedure import measure_process
from harness.time.process import MeasurementPlan, Process
from tests.timing.fake import FakeKernel, FakeMachine, FakeSource

QUIET = FakeMachine(cv=0.003)
KNOWN = {"fma": 50.0, "copy": 60.0}


def plan_for(device: str = "cuda", mode: str = "ranked", **changes: object) -> MeasurementPlan:
    policy: Policy = replace(policy_for(device, mode), **changes)  # type: ignore[arg-type]
    return MeasurementPlan(policy, History())


def known(
    plan: MeasurementPlan, references: dict[str, float] | None = None, null_us: float = 0.0
) -> MeasurementPlan:
    """The plan on a machine with ten good passes."""
    history = plan.history
    for _ in range(10):
        history = history.with_pass(references or KNOWN, plan.shape, null_us)
    return replace(plan, history=history)


def one_pass(
    kernel: FakeKernel | None = None,
    machine: FakeMachine = QUIET,
    plan: MeasurementPlan | None = None,
    seed: int = 1,
) -> Process:
    fake = FakeSource(seed, kernel or FakeKernel(), machine)
    return measure_process(fake, plan or plan_for(), fake.now_s, Random(seed).randrange)


def one_case(
    kernel: FakeKernel | None = None,
    machine: FakeMachine = QUIET,
    plan: MeasurementPlan | None = None,
    seed: int = 1,
) -> CaseTime:
    plan = plan or plan_for()
    seeds = range(10 * seed, 10 * seed + plan.policy.processes)
    return combine_processes([one_pass(kernel, machine, plan, number) for number in seeds], plan)
