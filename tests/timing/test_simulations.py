"""The procedure end to end on synthetic machines, where the promises about times must hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import log, sqrt
from random import Random
from statistics import fmean, stdev

import pytest

from harness.time.combination import CaseTime, combine_processes
from harness.time.estimators import (
    PAIRS,
    ROUNDS,
    block_order,
    compare_rounds,
    interquartile_mean,
    t_quantile,
)
from harness.time.policy import History, policy_for
from harness.time.procedure import measure_process
from harness.time.process import MeasurementPlan
from ranker.domain.score import ScoredEntry, is_tied
from tests.timing.fake import FakeKernel, FakeMachine, FakeSource

pytestmark = pytest.mark.long

RUNS = 50
DUELS = 60
TRUE_US = 20.0
DELTA = 0.003
QUIET = FakeMachine(cv=0.005, speed_sd=0.0015, wander_sd=0.002, outliers=0.002)
TYPICAL = FakeMachine(cv=0.01, speed_sd=0.0025, wander_sd=0.004, outliers=0.01)
SHORT = FakeMachine(cv=0.03, speed_sd=0.004, wander_sd=0.004, outliers=0.01)


@dataclass(frozen=True)
class Naive:
    """A popular rule: stop when the standard error of the mean is under 0.1 %."""

    time_us: float
    error: float


def plan_on(machine: FakeMachine) -> MeasurementPlan:
    # Blocks of 25 as above 20 us; null calls change nothing where there is no handshake.
    policy = replace(policy_for("cuda", "ranked"), nulls=0)
    known = History(sigma_run=((TRUE_US, machine.speed_sd),))
    return MeasurementPlan(policy, known)


def ours(time_us: float, machine: FakeMachine, chance: Random) -> CaseTime:
    plan = plan_on(machine)
    fakes = [FakeSource(chance.getrandbits(64), FakeKernel(time_us), machine) for _ in range(3)]
    return combine_processes(
        [measure_process(fake, plan, fake.now_s, chance.randrange) for fake in fakes], plan
    )


def naive(time_us: float, machine: FakeMachine, chance: Random) -> Naive:
    fake = FakeSource(chance.getrandbits(64), FakeKernel(time_us), machine)
    total = squares = 0.0
    mean = error = 0.0
    for n in range(1, 101):
        sample = fake.call().time_us
        total, squares = total + sample, squares + sample**2
        mean = total / n
        if n >= 3:
            error = sqrt(max(squares / n - mean**2, 0.0) / (n - 1)) / mean
            if error < 0.001:
                break
    return Naive(mean, error)


@cache
def runs(machine: FakeMachine, slower: float, seed: int) -> list[CaseTime]:
    chance = Random(seed)
    return [ours(TRUE_US * (1 + slower), machine, chance) for _ in range(RUNS)]


@cache
def naive_runs(machine: FakeMachine, slower: float, seed: int) -> list[Naive]:
    chance = Random(seed)
    return [naive(TRUE_US * (1 + slower), machine, chance) for _ in range(RUNS)]


def share(found: Iterator[bool]) -> float:
    return fmean(found)


def coverage(found: list[CaseTime]) -> float:
    return share(time.interval_us[0] < TRUE_US < time.interval_us[1] for time in found)


def in_order(fast: Sequence[CaseTime | Naive], slow: Sequence[CaseTime | Naive]) -> float:
    return share(a.time_us < b.time_us for a, b in zip(fast, slow, strict=True))


def ties(some: list[CaseTime], others: list[CaseTime]) -> float:
    def standing(time: CaseTime) -> ScoredEntry:
        return ScoredEntry(0, time.time_us, time.error, time.freedom, DELTA)

    pairs = zip(some, others, strict=True)
    return share(is_tied(standing(a), standing(b)) for a, b in pairs)


@pytest.mark.parametrize("machine", [QUIET, TYPICAL], ids=["quiet", "typical"])
def test_an_interval_holds_the_truth_as_often_as_it_says(machine: FakeMachine) -> None:
    assert coverage(runs(machine, 0.0, 1)) >= 0.90


@pytest.mark.parametrize("machine", [QUIET, TYPICAL], ids=["quiet", "typical"])
def test_one_per_cent_is_put_in_the_right_order(machine: FakeMachine) -> None:
    assert in_order(runs(machine, 0.0, 1), runs(machine, 0.01, 2)) >= 0.98


def test_the_same_kernel_twice_is_tied() -> None:
    assert ties(runs(TYPICAL, 0.0, 1), runs(TYPICAL, 0.0, 3)) >= 0.92


def test_one_per_cent_is_usually_told_apart() -> None:
    assert ties(runs(TYPICAL, 0.0, 1), runs(TYPICAL, 0.01, 2)) <= 0.3


def test_nothing_is_left_of_the_outliers() -> None:
    values = [log(time.time_us / TRUE_US) for time in runs(TYPICAL, 0.0, 1)]
    assert abs(fmean(values)) < 0.0008
    assert stdev(values) < 0.003


def test_short_noisy_kernels_are_still_covered() -> None:
    chance = Random(4)
    found = [ours(TRUE_US, SHORT, chance) for _ in range(30)]
    assert coverage(found) >= 0.85


def test_stopping_when_the_data_look_good_is_worse() -> None:
    fast, slow = (naive_runs(TYPICAL, slower, seed) for slower, seed in ((0.0, 1), (0.01, 2)))
    covered = share(abs(log(one.time_us / TRUE_US)) < 1.96 * one.error for one in fast)
    assert covered < 0.75
    assert in_order(fast, slow) < 0.93
    ours_sd = stdev(log(time.time_us) for time in runs(TYPICAL, 0.0, 1))
    assert stdev(log(one.time_us) for one in fast) > 2 * ours_sd


@cache
def duels(slower: float) -> list[str]:
    chance = Random(9)
    return [one_duel(slower, chance) for _ in range(DUELS)]


def one_duel(slower: float, chance: Random) -> str:
    """One process holds both, like the clock of a device; fresh processes average the rest."""
    machine = FakeMachine(cv=0.01, wander_sd=0.004, outliers=0.01)
    fake = FakeSource(chance.getrandbits(64), FakeKernel(TRUE_US), machine)
    pairs = []
    plan = block_order()
    for first, second in zip(plan[::2], plan[1::2], strict=True):
        values = {}
        for name in (first, second):
            value = interquartile_mean([fake.call().time_us for _ in range(25)])
            values[name] = value * (1 + slower) if name == "B" else value
        pairs.append((values["A"], values["B"]))
    assert len(pairs) == PAIRS
    return compare_rounds([pairs]).winner


@pytest.mark.parametrize(
    ("slower", "verdict", "least"), [(0.0, "equal", 0.92), (0.0025, "A", 0.85), (0.005, "A", 0.98)]
)
def test_a_duel_tells_what_there_is_to_tell(slower: float, verdict: str, least: float) -> None:
    assert duels(slower).count(verdict) / DUELS >= least


def test_a_duel_never_crowns_the_slower_one() -> None:
    assert "B" not in duels(0.0025) + duels(0.005)


@cache
def duels_in_rounds(slower: float, process_sd: float) -> list[str]:
    chance = Random(9)
    return [one_duel_in_rounds(slower, process_sd, chance) for _ in range(DUELS)]


def one_duel_in_rounds(slower: float, process_sd: float, chance: Random) -> str:
    """Like the harness: each round has fresh processes, which differ by themselves."""
    machine = FakeMachine(cv=0.01, wander_sd=0.004, outliers=0.01)
    fake = FakeSource(chance.getrandbits(64), FakeKernel(TRUE_US), machine)
    rounds = []
    for _ in range(ROUNDS):
        speed = {name: 1 + chance.gauss(0, process_sd) for name in "AB"}
        speed["B"] *= 1 + slower
        plan, pairs = block_order(PAIRS // ROUNDS), []
        for first, second in zip(plan[::2], plan[1::2], strict=True):
            values = {
                name: speed[name] * interquartile_mean([fake.call().time_us for _ in range(25)])
                for name in (first, second)
            }
            pairs.append((values["A"], values["B"]))
        rounds.append(pairs)
    return compare_rounds(rounds).winner


@pytest.mark.parametrize(
    ("slower", "process_sd", "verdict", "least"),
    [
        (0.0, 0.0, "equal", 0.92),
        (0.0, 0.0025, "equal", 0.92),
        (0.0025, 0.0, "A", 0.75),
        (0.005, 0.001, "A", 0.92),
        (0.01, 0.0025, "A", 0.98),
    ],
)
def test_a_duel_in_rounds_allows_for_what_processes_differ(
    slower: float, process_sd: float, verdict: str, least: float
) -> None:
    assert duels_in_rounds(slower, process_sd).count(verdict) / DUELS >= least


def test_samples_are_no_independent_evidence() -> None:
    chance = Random(11)
    machine = FakeMachine(cv=0.006, wander_sd=0.004)
    covered = {"samples": 0, "blocks": 0}
    for _ in range(100):
        fake = FakeSource(chance.getrandbits(64), FakeKernel(1.0), machine)
        samples = [fake.call().time_us for _ in range(400)]
        blocks = [fmean(samples[at : at + 40]) for at in range(0, 400, 40)]
        for name, values in (("samples", samples), ("blocks", blocks)):
            half = t_quantile(len(values) - 1) * stdev(values) / sqrt(len(values))
            covered[name] += abs(fmean(values) - 1.0) < half
    assert covered["samples"] < 50 < covered["blocks"]
