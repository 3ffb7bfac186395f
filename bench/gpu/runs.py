"""E11 to E14: whole measurements by the harness's own procedure, again and again."""

import multiprocessing
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
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
from harness.time.policy import History, policy_for
from harness.time.procedure import measure_process
from harness.time.process import MeasurementPlan, Process, Sample

MIB = 1024**2
# A guest moves 8 bytes for each of its floats, at some 4 TB/s.
FLOATS = {"5 us": MIB, "20 us": 8 * MIB, "100 us": 48 * MIB, "1000 us": 480 * MIB}
CV_MAX = {"5 us": 0.015, "20 us": 0.005, "100 us": 0.002, "1000 us": 0.0015}
LINKS = {"a": 25_000, "twin": 25_000, "half": 25_125, "one": 25_250}
BUSY = 16


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
    """E11: whole measurements of memory-bound work, in fresh processes, as often as time allows."""
    found: dict[str, list[float]] = {name: [] for name in FLOATS}
    covered: dict[str, str] = {}
    for name, floats in FLOATS.items():
        until = time.monotonic() + 0.9 * bench.budget_s / len(FLOATS)
        intervals = []
        while time.monotonic() < until and len(found[name]) < 20:
            times = _in_processes(bench, "honest", floats, {"ns": 0})
            case = combine_processes(times, _plan(len(times)))
            found[name].append(case.time_us)
            intervals.append((case.time_us, case.error))
        covered[name] = _covered(intervals)
    cvs = {name: _cv(times) for name, times in found.items()}
    said = ", ".join(
        f"{name}: {median(found[name]):.2f} us CV {100 * cv:.2f} % n {len(found[name])}"
        for name, cv in cvs.items()
    )
    passed = all(cvs[name] <= CV_MAX[name] for name in cvs)
    return Found(said, passed, {"times_us": found, "covered": covered})


def resolution(bench: Bench) -> Found:
    """E12: true differences of nought, a half and one percent."""
    right = {"half": 0, "one": 0}
    equal = runs = 0
    values: dict[str, list[float]] = {name: [] for name in LINKS}
    until = time.monotonic() + 0.85 * bench.budget_s
    while runs < 20 and time.monotonic() < until:
        for name, links in LINKS.items():
            values[name].append(_in_processes(bench, "fma", 4096, {"links": links}, 1)[0].value_us)
        runs += 1
        first = values["a"][-1]
        equal += abs(values["twin"][-1] / first - 1) < 0.003
        for name in right:
            right[name] += values[name][-1] > first
    duel = _duel(bench, 25_000, 25_125)
    said = f"1 %: {right['one']}/{runs}, 0.5 %: {right['half']}/{runs}, twin tied {equal}/{runs}"
    passed = right["one"] == runs and right["half"] >= 0.9 * runs and equal >= 0.95 * runs
    return Found(f"{said}, duel of 0.5 %: {duel}", passed, {"values_us": values})


def neighbours(bench: Bench) -> Found:
    """E13: busy processors beside the measurement; a stranger on the device."""
    quiet = _in_processes(bench, "fma", 4096, {"links": 25_000}, 1)[0].value_us
    busy = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(BUSY)]
    for one in busy:
        one.start()
    try:
        loud = _in_processes(bench, "fma", 4096, {"links": 25_000}, 1)[0].value_us
    finally:
        for one in busy:
            one.kill()
            one.join()
    shift = loud / quiet - 1
    said = f"{quiet:.2f} us alone, {loud:.2f} us beside {BUSY} busy processes: {100 * shift:+.2f} %"
    seen = _stranger(bench)
    return Found(f"{said}; {seen}", abs(shift) < 0.002, {"quiet_us": quiet, "loud_us": loud})


def classes(bench: Bench) -> Found:
    """E14: work in two speeds, and work that grows."""
    grades = {
        "alternate": _in_processes(bench, "alternate", 4096, {"ns": 50_000}, 1)[0],
        "drift": _in_processes(bench, "drift", 4096, {"ns": 50_000}, 1)[0],
    }
    said = ", ".join(f"{name}: {one.grade}" for name, one in grades.items())
    passed = grades["alternate"].grade == "bimodal" and grades["drift"].grade == "trend"
    return Found(said, passed)


def _in_processes(
    bench: Bench, mode: str, floats: int, wish: dict[str, int], processes: int = 3
) -> list[Process]:
    """Measurements in fresh processes, the referee's too: nothing CUDA is open in this one."""
    measured = partial(_measured, bench, mode, floats, wish)
    return [alone(measured) for _ in range(processes)]


def _measured(bench: Bench, mode: str, floats: int, wish: dict[str, int]) -> Process:
    with Pair(mode, bench.mps) as user, Pair("null", bench.mps) as idle:
        device = bench.device()
        for one in (user, idle):
            one.open(device, floats)
        size = 4 * floats

        def way() -> str:
            drawn = rules.choose_reveal(device.tier, size, secrets.randbits(32))
            return "blanket" if drawn == "spot" else drawn

        source = Gated(device, user, idle, wish, way)
        return measure_process(source, _plan(1, bench.scale), time.monotonic, secrets.randbelow)


def _plan(processes: int, scale: float = 1.0) -> MeasurementPlan:
    """The ranked policy, shorter where time is short."""
    policy = policy_for("cuda", "ranked")
    looks = tuple(look for look in policy.looks if look <= max(8, 40 * scale))
    policy = replace(policy, processes=processes, looks=looks, wall_s=2.0, pause_s=0.0)
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


def _stranger(bench: Bench) -> str:
    """What the health gate says of a process that is not ours; pids may be hidden from us."""
    with Pair("honest", bench.mps) as pair:
        device = bench.device()
        pair.open(device, 4096)
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


def _burn() -> None:
    while True:
        sum(range(10_000))
