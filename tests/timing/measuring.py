"""Passes and cases measured on the fake device."""

from dataclasses import replace
from random import Random

from harness.devices.fake import Fake, Kernel, Machine
from harness.timing.combination import CaseTime, combine
from harness.timing.history import History
from harness.timing.policy import Policy, policy_for
from harness.timing.procedure import measure
from harness.timing.process import Plan, Process

QUIET = Machine(cv=0.003)
KNOWN = {"fma": 50.0, "copy": 60.0}


def plan_for(device: str = "cuda", mode: str = "ranked", **changes: object) -> Plan:
    policy: Policy = replace(policy_for(device, mode), **changes)  # type: ignore[arg-type]
    return Plan(policy, History())


def known(plan: Plan, references: dict[str, float] | None = None, null_us: float = 0.0) -> Plan:
    """The plan on a machine with ten good passes behind it."""
    history = plan.history
    for _ in range(10):
        history = history.with_pass(references or KNOWN, plan.shape, null_us)
    return replace(plan, history=history)


def one_pass(
    kernel: Kernel | None = None,
    machine: Machine = QUIET,
    plan: Plan | None = None,
    seed: int = 1,
) -> Process:
    fake = Fake(seed, kernel or Kernel(), machine)
    return measure(fake, plan or plan_for(), fake.now_s, Random(seed).randrange)


def one_case(
    kernel: Kernel | None = None,
    machine: Machine = QUIET,
    plan: Plan | None = None,
    seed: int = 1,
) -> CaseTime:
    plan = plan or plan_for()
    seeds = range(10 * seed, 10 * seed + plan.policy.processes)
    return combine([one_pass(kernel, machine, plan, number) for number in seeds], plan)
