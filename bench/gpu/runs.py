"""E11 to E14: whole measurements by the harness's own procedure, again and again."""

import multiprocessing
import os
import secrets
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from bench.gpu.local import median
from bench.gpu.pair import Pair
from bench.gpu.table import Bench, Found, alone
from harness.devices.cuda import rules
from harness.devices.cuda.device import CudaDevice, NvmlMonitor
from harness.devices.device import DeviceFault
from harness.sandbox.crowding import crowding
from harness.time import duel
from harness.time.combination import combine_processes
from harness.time.policy import Policy, policy_for
from harness.time.procedure import ClockWarmUp, measure_process
from harness.time.process import COLD, MeasurementPlan, Process, Sample
from harness.vocabulary import MODES, SIDES

MIB = 1024**2
# A guest moves 8 bytes for each of its floats, at some 4 TB/s.
FLOATS = {"5 us": MIB, "20 us": 8 * MIB, "100 us": 48 * MIB, "1000 us": 480 * MIB}
CV_MAX = {"5 us": 0.015, "20 us": 0.005, "100 us": 0.002, "1000 us": 0.0015}
LINKS = {"a": 25_000, "twin": 25_000, "half": 25_125, "one": 25_250}
SEEN = {"one": "1 %:", "half": "0.5 %:", "twin": "twin tied"}
TIE = 0.003
BUSY = 16
PROCESSES = MODES["ranked"].processes
RUNS, SHORT_RUNS = 20, 2
# The rest of an experiment's time is for a duel.
ROUNDS_SHARE = 0.85
A, B = SIDES
# Times are this often the yardstick's, whose own time differs from process to process.
UNIT_US = 100.0


@dataclass(frozen=True)
class Work:
    """What a guest does in a measurement: its mode, its wish, and so many floats."""

    name: str
    mode: str
    wish: dict[str, int]
    floats: int = 4096


# A work and its yardstick.
Contest = tuple[Work, Work]
YARDSTICK = Work("yardstick", "fma", {"links": LINKS["a"]})


@dataclass(frozen=True)
class Measurement:
    """What one process measured, and what it knew."""

    process: Process
    plan: MeasurementPlan

    @property
    def value_us(self) -> float:
        """The time of the work in units of the yardstick's."""
        return combine_processes([self.process], self.plan).time_us


@dataclass(frozen=True)
class GatedPair:
    """A source of pairs: a guest for each side, A and B, behind one gate."""

    device: CudaDevice
    guests: Mapping[str, Pair]
    works: Mapping[str, Work]
    choose_way: Callable[[], str]

    def measure(self, order: str, calls: Mapping[str, int]) -> dict[str, tuple[Sample, ...]]:
        """Time a block of each side in this order. Errors: AssertionError for a wrong answer."""
        return {side: self._time_block(side, calls[side]) for side in order}

    def _time_block(self, side: str, count: int) -> tuple[Sample, ...]:
        samples = []
        for index in range(count):
            outcome = self.guests[side].call(self.choose_way(), **self.works[side].wish)
            assert outcome.is_right, outcome.foul or "a wrong answer"
            samples.append(_sample(outcome.shot, is_cold=index == 0 and count > 1))
        return tuple(samples)

    def time_fma(self) -> float:
        """Time one call of the platform's own kernel."""
        return self.device.time_fma()

    def is_crowded(self) -> bool:
        """Return whether more threads want to run than there are cores."""
        return crowding().is_crowded


def repeatability(bench: Bench) -> Found:
    """E11: whole measurements of memory-bound work, in fresh processes, as often as time allows.

    The yardstick does the same work. A measurement combines the processes of a ranked run; in the
    short form it is one process.
    """
    each = 1 if bench.is_short else PROCESSES
    works = [Work(name, "honest", {"ns": 0}, floats) for name, floats in FLOATS.items()]
    contests = [(work, work) for work in works]
    rounds = _rounds(bench, contests, SHORT_RUNS if bench.is_short else RUNS * each)
    times_us: dict[str, list[float]] = {name: [] for name in FLOATS}
    ratios: dict[str, list[float]] = {name: [] for name in FLOATS}
    covered: dict[str, str] = {}
    for name in FLOATS:
        intervals = []
        for first in range(0, len(rounds) - each + 1, each):
            measurements = [one[name] for one in rounds[first : first + each]]
            case = combine_processes([one.process for one in measurements], measurements[0].plan)
            ratios[name].append(case.time_us)
            times_us[name].append(case.statistics["raw_us"])
            intervals.append((case.time_us, case.error))
        covered[name] = _covered(intervals)
    cvs = {name: _cv(values) for name, values in ratios.items()}
    said = ", ".join(
        f"{name}: {_middle(times_us[name])} us CV {100 * cv:.2f} % n {len(ratios[name])}"
        for name, cv in cvs.items()
    )
    passed = all(cvs[name] <= CV_MAX[name] for name in cvs)
    data = {"times_us": times_us, "ratios": ratios, "covered": covered}
    return Found(said, passed, data)


def resolution(bench: Bench) -> Found:
    """E12: true differences of nought, a half and one percent, between fresh processes."""
    works = [Work(name, "fma", {"links": links}) for name, links in LINKS.items()]
    contests = [(work, YARDSTICK) for work in works]
    rounds = _rounds(bench, contests, SHORT_RUNS if bench.is_short else RUNS)
    values = [{name: one.value_us for name, one in by_name.items()} for by_name in rounds]
    seen = compare_processes(values)
    said = ", ".join(f"{words} {seen[name]}/{len(values)}" for name, words in SEEN.items())
    winner = "not in the short form" if bench.is_short else _duel(bench, works[0], works[2])
    goals = {"one": 1.0, "half": 0.9, "twin": 0.95}
    passed = len(values) > 1 and all(seen[name] >= goals[name] * len(values) for name in goals)
    return Found(f"{said}, duel of 0.5 %: {winner}", passed, {"values_us": values})


def compare_processes(values: Sequence[Mapping[str, float]]) -> dict[str, int]:
    """Count in how many processes each work compares as it must with `a` of the process before.

    The first process is compared with the last one.
    """
    seen = dict.fromkeys(("twin", "half", "one"), 0)
    for number, process in enumerate(values):
        first = values[number - 1]["a"]
        seen["twin"] += abs(process["twin"] / first - 1) < TIE
        for name in ("half", "one"):
            seen[name] += process[name] > first
    return seen


def neighbours(bench: Bench) -> Found:
    """E13: busy processors beside the measurement; a stranger on the device."""
    # A process with a context must not be forked, so they start before and are stopped at once.
    busy = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(BUSY)]
    for one in busy:
        one.start()
    pids = [one.pid for one in busy if one.pid]
    _signal(pids, signal.SIGSTOP)
    try:
        quiet, loud, health = alone(partial(_beside_busy, bench, pids))
    finally:
        for one in busy:
            one.kill()
            one.join()
    shift = loud / quiet - 1
    said = f"{quiet:.2f} us alone, {loud:.2f} us beside {BUSY} busy processes: {100 * shift:+.2f} %"
    data = {"quiet_us": quiet, "loud_us": loud}
    return Found(f"{said}; {health}", abs(shift) < 0.002, data)


def classes(bench: Bench) -> Found:
    """E14: work in two speeds, and work that grows."""
    contests = [(Work(mode, mode, {"ns": 50_000}), YARDSTICK) for mode in ("alternate", "drift")]
    measurements = alone(partial(_measure_all, bench, contests))
    grades = {name: one.process.grade for name, one in measurements.items()}
    said = ", ".join(f"{name}: {grade}" for name, grade in grades.items())
    return Found(said, grades == {"alternate": "bimodal", "drift": "trend"})


def _rounds(bench: Bench, contests: Sequence[Contest], most: int) -> list[dict[str, Measurement]]:
    """Measure every work in each of several fresh processes, as many as the time allows.

    The referee's process is fresh too: nothing CUDA is open in this one. Each process begins with
    another work, so that none is always the last.
    """
    until = time.monotonic() + ROUNDS_SHARE * bench.budget_s
    rounds: list[dict[str, Measurement]] = []
    longest_s = 0.0
    while len(rounds) < most and time.monotonic() + longest_s < until:
        began = time.monotonic()
        turn = len(rounds) % len(contests)
        order = [*contests[turn:], *contests[:turn]]
        rounds.append(alone(partial(_measure_all, bench, order)))
        longest_s = max(longest_s, time.monotonic() - began)
    return rounds


def _measure_all(bench: Bench, contests: Sequence[Contest]) -> dict[str, Measurement]:
    """Measure works one after the other, with a guest for each mode of each side."""
    with ExitStack() as stack:
        modes = dict.fromkeys(
            (side, work.mode)
            for contest in contests
            for side, work in zip(SIDES, contest, strict=True)
        )
        guests = {(side, mode): stack.enter_context(Pair(mode, bench.mps)) for side, mode in modes}
        idle = stack.enter_context(Pair("null", bench.mps))
        device = bench.device()
        return {
            contest[0].name: _measure(bench, device, guests, idle, contest) for contest in contests
        }


def _measure(
    bench: Bench,
    device: CudaDevice,
    guests: Mapping[tuple[str, str], Pair],
    idle: Pair,
    contest: Contest,
) -> Measurement:
    """Measure a work beside its yardstick in this process."""
    works = dict(zip(SIDES, contest, strict=True))
    pair = {side: guests[side, work.mode] for side, work in works.items()}
    for side, guest in pair.items():
        guest.open(device, works[side].floats)
    idle.open(device, works[A].floats)

    def choose_way() -> str:
        drawn = rules.choose_reveal(device.tier, 4 * works[A].floats, secrets.randbits(32))
        return "blanket" if drawn == "spot" else drawn

    policy = _policy(is_short=bench.is_short)
    shots = [idle.call(choose_way()).shot for _ in range(policy.nulls)]
    plan = MeasurementPlan(policy, tuple(map(_sample, shots)), unit_us=UNIT_US)
    source = GatedPair(device, pair, works, choose_way)
    ClockWarmUp(policy).warm_up(source, time.monotonic)
    return Measurement(measure_process(source, plan, time.monotonic, secrets.randbelow), plan)


def _beside_busy(bench: Bench, pids: Sequence[int]) -> tuple[float, float, str]:
    """The time alone, the time beside busy processes, and what the health gate says."""
    with ExitStack() as stack:
        guests = {(side, "fma"): stack.enter_context(Pair("fma", bench.mps)) for side in SIDES}
        idle = stack.enter_context(Pair("null", bench.mps))
        device = bench.device()
        contest = (YARDSTICK, YARDSTICK)
        quiet = _measure(bench, device, guests, idle, contest).value_us
        _signal(pids, signal.SIGCONT)
        loud = _measure(bench, device, guests, idle, contest).value_us
        return quiet, loud, _stranger(device)


def _policy(*, is_short: bool = False) -> Policy:
    """The ranked policy, shorter where time is short."""
    policy = replace(policy_for("cuda", "ranked"), wall_s=1.0 if is_short else 2.0)
    looks = policy.looks[:1] if is_short else policy.looks
    return replace(policy, looks=looks, pause_s=0.0)


def _duel(bench: Bench, first: Work, second: Work) -> str:
    """Two works as each other's yardstick, compared as the harness compares a duel's sides."""
    measurement = alone(partial(_measure_all, bench, [(first, second)]))[first.name]
    plan = measurement.plan
    pairs = [pair.values_us(plan) for pair in measurement.process.pairs]
    return duel.compare(pairs, len(pairs), plan.policy.sigma).winner


def _sample(shot: rules.CallTiming | None, *, is_cold: bool = False) -> Sample:
    assert shot is not None, "a call broke a rule"
    return Sample(shot.time_us, (*shot.flags, COLD) if is_cold else shot.flags)


def _stranger(device: CudaDevice) -> str:
    """What the health gate says of a process that is not ours; pids may be hidden from us."""
    try:
        with NvmlMonitor(device.describe()["gpu_uuid"]) as monitor:
            vitals = monitor.vitals()
    except DeviceFault as fault:
        return str(fault)
    return f"health says: {rules.find_unfitness(vitals, vitals.ecc_errors) or 'nobody else'}"


def _covered(intervals: Sequence[tuple[float, float]]) -> str:
    """How many intervals of two standard errors in logs hold the grand mean."""
    if not intervals:
        return "0 of 0"
    mean = statistics.fmean(time_us for time_us, _ in intervals)
    hits = sum(abs(time_us / mean - 1) <= 2 * error for time_us, error in intervals)
    return f"{hits} of {len(intervals)}"


def _cv(times: Sequence[float]) -> float:
    return statistics.stdev(times) / statistics.fmean(times) if len(times) > 1 else 1.0


def _middle(times: Sequence[float]) -> str:
    return f"{median(times):.2f}" if times else "-"


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _burn() -> None:
    while True:
        sum(range(10_000))
