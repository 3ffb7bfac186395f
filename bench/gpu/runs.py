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
from harness.time.combination import combine_processes
from harness.time.estimators import block_order, compare_rounds
from harness.time.policy import PROCESSES as PROCESSES_OF
from harness.time.policy import History, policy_for
from harness.time.procedure import measure_process
from harness.time.process import MeasurementPlan, Process, Sample

MIB = 1024**2
# A guest moves 8 bytes for each of its floats, at some 4 TB/s.
FLOATS = {"5 us": MIB, "20 us": 8 * MIB, "100 us": 48 * MIB, "1000 us": 480 * MIB}
CV_MAX = {"5 us": 0.015, "20 us": 0.005, "100 us": 0.002, "1000 us": 0.0015}
LINKS = {"a": 25_000, "twin": 25_000, "half": 25_125, "one": 25_250}
SEEN = {"one": "1 %:", "half": "0.5 %:", "twin": "twin tied"}
TIE = 0.003
BUSY = 16
PROCESSES = PROCESSES_OF["ranked"]
RUNS, SHORT_RUNS = 20, 2
# The rest of an experiment's time is for a duel.
ROUNDS_SHARE = 0.85


@dataclass(frozen=True)
class Work:
    """What a guest does in a measurement: its mode, its wish, and so many floats."""

    name: str
    mode: str
    wish: dict[str, int]
    floats: int = 4096


@dataclass
class Gated:
    """A timing source: one guest that works, one that does nothing."""

    device: CudaDevice
    user: Pair
    idle: Pair
    wish: dict[str, int]
    pull: Callable[[], str]

    def call(self) -> Sample:
        """A call of the guest that works. Errors: AssertionError, if it answers wrongly."""
        outcome = self.user.call(self.pull(), **self.wish)
        assert outcome.is_right, outcome.foul or "a wrong answer"
        return _sample(outcome.shot)

    def null(self) -> Sample:
        """A call of the guest that does nothing."""
        return _sample(self.idle.call(self.pull()).shot)

    def probe(self) -> float | None:
        """None: a GPU is timed with its clock held still."""
        return None

    def reference(self, name: str) -> float:
        """One of the device's reference kernels."""
        return self.device.reference(name)


def repeatability(bench: Bench) -> Found:
    """E11: whole measurements of memory-bound work, in fresh processes, as often as time allows.

    A measurement combines the processes of a ranked run; in the short form it is one process.
    """
    each = 1 if bench.is_short else PROCESSES
    works = [Work(name, "honest", {"ns": 0}, floats) for name, floats in FLOATS.items()]
    rounds = _rounds(bench, works, SHORT_RUNS if bench.is_short else RUNS * each)
    found: dict[str, list[float]] = {name: [] for name in FLOATS}
    covered: dict[str, str] = {}
    for name, times in found.items():
        intervals = []
        for first in range(0, len(rounds) - each + 1, each):
            processes = [one[name] for one in rounds[first : first + each]]
            case = combine_processes(processes, _plan(each))
            times.append(case.time_us)
            intervals.append((case.time_us, case.error))
        covered[name] = _covered(intervals)
    cvs = {name: _cv(times) for name, times in found.items()}
    said = ", ".join(
        f"{name}: {_middle(found[name])} us CV {100 * cv:.2f} % n {len(found[name])}"
        for name, cv in cvs.items()
    )
    passed = all(cvs[name] <= CV_MAX[name] for name in cvs)
    return Found(said, passed, {"times_us": found, "covered": covered})


def resolution(bench: Bench) -> Found:
    """E12: true differences of nought, a half and one percent, between fresh processes."""
    works = [Work(name, "fma", {"links": links}) for name, links in LINKS.items()]
    rounds = _rounds(bench, works, SHORT_RUNS if bench.is_short else RUNS)
    values = [{name: one.value_us for name, one in by_name.items()} for by_name in rounds]
    seen = compare_processes(values)
    said = ", ".join(f"{words} {seen[name]}/{len(values)}" for name, words in SEEN.items())
    duel = "not in the short form" if bench.is_short else _duel(bench, 25_000, 25_125)
    goals = {"one": 1.0, "half": 0.9, "twin": 0.95}
    passed = len(values) > 1 and all(seen[name] >= goals[name] * len(values) for name in goals)
    return Found(f"{said}, duel of 0.5 %: {duel}", passed, {"values_us": values})


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
    works = [Work(mode, mode, {"ns": 50_000}) for mode in ("alternate", "drift")]
    grades = {name: one.grade for name, one in alone(partial(_measured, bench, works)).items()}
    said = ", ".join(f"{name}: {grade}" for name, grade in grades.items())
    return Found(said, grades == {"alternate": "bimodal", "drift": "trend"})


def _rounds(bench: Bench, works: Sequence[Work], most: int) -> list[dict[str, Process]]:
    """Measure every work in each of several fresh processes, as many as the time allows.

    The referee's process is fresh too: nothing CUDA is open in this one. Each process begins with
    another work, so that none is always the last.
    """
    until = time.monotonic() + ROUNDS_SHARE * bench.budget_s
    rounds: list[dict[str, Process]] = []
    longest_s = 0.0
    while len(rounds) < most and time.monotonic() + longest_s < until:
        began = time.monotonic()
        turn = len(rounds) % len(works)
        order = [*works[turn:], *works[:turn]]
        rounds.append(alone(partial(_measured, bench, order)))
        longest_s = max(longest_s, time.monotonic() - began)
    return rounds


def _measured(bench: Bench, works: Sequence[Work]) -> dict[str, Process]:
    """Measure works one after the other, with a guest for each mode."""
    with ExitStack() as stack:
        modes = dict.fromkeys((*(work.mode for work in works), "null"))
        guests = {mode: stack.enter_context(Pair(mode, bench.mps)) for mode in modes}
        device = bench.device()
        return {work.name: _measure(bench, device, guests, work) for work in works}


def _measure(bench: Bench, device: CudaDevice, guests: Mapping[str, Pair], work: Work) -> Process:
    user, idle = guests[work.mode], guests["null"]
    for one in (user, idle):
        one.open(device, work.floats)

    def way() -> str:
        drawn = rules.choose_reveal(device.tier, 4 * work.floats, secrets.randbits(32))
        return "blanket" if drawn == "spot" else drawn

    source = Gated(device, user, idle, work.wish, way)
    plan = _plan(1, is_short=bench.is_short)
    return measure_process(source, plan, time.monotonic, secrets.randbelow)


def _beside_busy(bench: Bench, pids: Sequence[int]) -> tuple[float, float, str]:
    """The time alone, the time beside busy processes, and what the health gate says."""
    work = Work("", "fma", {"links": 25_000})
    with Pair("fma", bench.mps) as user, Pair("null", bench.mps) as idle:
        device = bench.device()
        guests = {"fma": user, "null": idle}
        quiet = _measure(bench, device, guests, work).value_us
        _signal(pids, signal.SIGCONT)
        loud = _measure(bench, device, guests, work).value_us
        return quiet, loud, _stranger(device)


def _plan(processes: int, *, is_short: bool = False) -> MeasurementPlan:
    """The ranked policy, shorter where time is short."""
    policy = policy_for("cuda", "ranked")
    looks = policy.looks[:1] if is_short else policy.looks
    wall_s = 1.0 if is_short else 2.0
    policy = replace(policy, processes=processes, looks=looks, wall_s=wall_s, pause_s=0.0)
    return MeasurementPlan(policy, History())


def _duel(bench: Bench, first: int, second: int) -> str:
    """Two guests in turn under one referee, in the order that the harness gives."""

    def fought() -> str:
        with Pair("fma", bench.mps) as a, Pair("fma", bench.mps) as b:
            device = bench.device()
            for one in (a, b):
                one.open(device, 4096)
            blocks: dict[str, list[float]] = {"A": [], "B": []}
            for name in block_order():
                pair, links = (a, first) if name == "A" else (b, second)
                blocks[name].append(statistics.fmean(pair.times_us("strict", 10, links=links)))
        return compare_rounds([list(zip(blocks["A"], blocks["B"], strict=False))]).winner

    return str(alone(fought))


def _sample(shot: rules.CallTiming | None) -> Sample:
    assert shot is not None, "a call broke a rule"
    return Sample(shot.time_us, shot.flags)


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
