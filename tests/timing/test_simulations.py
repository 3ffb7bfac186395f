"""The procedure on simulated machines, where the promises of docs/timing.md must hold."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from math import exp
from random import Random
from statistics import fmean

import pytest

from harness.time.combination import CaseTime
from harness.time.duel import compare
from harness.time.estimators import Ratio, block_order, estimate_ratio, half_width_within
from harness.time.policy import Policy, policy_for
from ranker.domain.places import ScoredEntry, assign_places
from tests.timing.fake import FakeKernel, FakeMachine
from tests.timing.measuring import one_case, plan_for

# Thousands of simulated runs.
pytestmark = pytest.mark.long

RUNS = 300
CASES = 60
DUELS = 200
OUTLIERS = 0.05
DRIFT = 0.0003
# A tie on the processor: 0.3 % in all.
TIE = 0.003
MACHINE = FakeMachine(cv=0.005, process_sd=0.001, wander_sd=0.002, outliers=0.002)
YARDSTICK = FakeKernel(1000.0)


def pairs_until_precise(
    chance: Random, policy: Policy, pair_sd: float, shift: float
) -> list[float]:
    """Draw ln(A / B) of pairs until a look finds them precise: normal, with outliers and drift."""
    order = block_order(policy.looks[-1], chance.randrange)
    drift = chance.gauss(0, DRIFT)
    pairs: list[float] = []
    for look in policy.looks:
        while len(pairs) < look:
            sign = 1 if order[2 * len(pairs)] == "A" else -1
            value = shift + sign * drift / 2 + chance.gauss(0, pair_sd)
            if chance.random() < OUTLIERS:
                value += chance.choice((-1, 1)) * chance.expovariate(1 / 0.05)
            pairs.append(value)
        if half_width_within(pairs) <= policy.target:
            break
    return pairs


def stopped_ratio(chance: Random, policy: Policy, pair_sd: float, process_sd: float) -> Ratio:
    """Measure two equal kernels whose processes differ by chance."""
    processes = [
        pairs_until_precise(chance, policy, pair_sd, chance.gauss(0, process_sd))
        for _ in range(policy.processes)
    ]
    return estimate_ratio(processes, policy.sigma)


def coverage(mode: str, pair_sd: float, process_sd: float) -> float:
    chance, policy = Random(5), policy_for("cpu", mode)
    ratios = [stopped_ratio(chance, policy, pair_sd, process_sd) for _ in range(RUNS)]
    return share(abs(ratio.log) <= ratio.half_width for ratio in ratios)


def share(found: Iterable[bool]) -> float:
    return fmean(found)


@pytest.mark.parametrize("mode", ["benchmark", "ranked", "duel"])
@pytest.mark.parametrize("pair_sd", [0.005, 0.02])
@pytest.mark.parametrize("process_sd", [0.0, 0.002, 0.004, 0.005])
def test_an_interval_contains_the_truth_although_looks_decide_when_to_stop(
    mode: str, pair_sd: float, process_sd: float
) -> None:
    assert coverage(mode, pair_sd, process_sd) >= 0.92


@pytest.mark.parametrize("mode", ["benchmark", "ranked", "duel"])
def test_an_interval_is_no_wider_than_needed_where_processes_differ_as_known(mode: str) -> None:
    assert coverage(mode, 0.02, policy_for("cpu", mode).sigma) <= 0.985


@cache
def times(work: float, first_seed: int) -> list[CaseTime]:
    """Time a kernel with so much work in many ranked runs, beside a yardstick of fixed time."""
    plan = replace(plan_for(), unit_us=YARDSTICK.time_us)
    kernel = FakeKernel(500.0 * work)
    return [
        one_case(kernel, MACHINE, plan, seed=seed, yardstick=YARDSTICK)
        for seed in range(first_seed, first_seed + CASES)
    ]


def are_tied(first: CaseTime, second: CaseTime) -> bool:
    """Return whether two runs share a rank of a leaderboard."""
    entries = [
        ScoredEntry(number, time.time_us, time.error, time.freedom, TIE)
        for number, time in enumerate((first, second))
    ]
    return all(place.is_tied for place in assign_places(entries))


def pair_up(
    found: Callable[[CaseTime, CaseTime], bool], some: list[CaseTime], others: list[CaseTime]
) -> float:
    return share(found(a, b) for a, b in zip(some, others, strict=True))


def test_of_kernels_one_percent_apart_the_faster_one_comes_first() -> None:
    found = pair_up(lambda a, b: a.time_us < b.time_us, times(1.0, 1), times(1.01, 1001))
    assert found >= 0.98


def test_the_same_kernel_twice_is_tied() -> None:
    assert pair_up(are_tied, times(1.0, 1), times(1.0, 2001)) >= 0.99


def test_kernels_two_percent_apart_are_told_apart() -> None:
    assert pair_up(are_tied, times(1.0, 1), times(1.02, 1001)) <= 0.05


def winners(slower: float, process_sd: float) -> list[str]:
    """Duel a kernel with a rival that is slower by this fraction."""
    chance, policy = Random(9), policy_for("cpu", "duel")
    found = []
    for _ in range(DUELS):
        pairs = []
        for _ in range(policy.processes):
            shift = chance.gauss(-slower, process_sd)
            differences = pairs_until_precise(chance, policy, 0.005, shift)
            pairs += [(exp(difference), 1.0) for difference in differences]
        found.append(compare(pairs, policy.looks[-1], policy.sigma).winner)
    return found


@pytest.mark.parametrize("process_sd", [0.0, 0.0025, 0.004])
def test_a_duel_calls_equal_kernels_equal(process_sd: float) -> None:
    assert winners(0.0, process_sd).count("equal") / DUELS >= 0.95


@pytest.mark.parametrize(("slower", "least"), [(0.005, 0.7), (0.01, 0.98)])
def test_a_duel_finds_the_faster_kernel(slower: float, least: float) -> None:
    found = winners(slower, 0.001)
    assert found.count("A") / DUELS >= least
    assert "B" not in found
