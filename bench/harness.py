"""What the harness costs and what its clock can tell apart, on the cpu device.

`python -m bench.harness [--quick]`. Turnaround stands beside a cold `plain_eval.py` of the same
problem in the same run; ordering is asked of two kernels that differ by a known amount of work.
"""

import asyncio
import contextlib
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.entry import Harness, RunReport, RunRequest
from shared.problems import compile_problem

ROOT = Path(__file__).parent.parent
UTILITIES = ROOT / "harness" / "src" / "harness" / "supervisor" / "utilities.py"
IDENTITY = ROOT / "problems" / "identity"
WORK = ROOT / "bench" / "work"
PLAIN = ROOT / "bench" / "plain_eval.py"
TURNS = 10
TRIALS = 20
QUICK = 3
# A product of two matrices of 128 x 128 takes about 60 us: the base kernel some 6 ms.
BASE = 100
MORE_PERCENT = (1, 2, 5)
KERNEL = """
import torch
square = torch.rand(128, 128)
def custom_kernel(data):
    for _ in range({count}):
        torch.mm(square, square)
    return data * 2
"""


@dataclass
class Bench:
    """A warm harness, a folder, and how often things are repeated."""

    harness: Harness
    folder: Path
    trials: int
    runs: int = 0

    async def run(self, problem: Path, source: Path, mode: str) -> RunReport:
        """One submission's report. Errors: AssertionError, if it did not pass."""
        self.runs += 1
        out = self.folder / f"out{self.runs}"
        out.mkdir()
        request = RunRequest(str(problem), str(source), mode, str(out))
        report = await self.harness.evaluate(request, _unheard)
        assert report.verdict == "passed", report.reason
        return report

    async def time_us(self, problem: Path, source: Path) -> float:
        """The time that a ranked run finds for a kernel."""
        report = await self.run(problem, source, "ranked")
        (found,) = (case.time_us for case in report.cases if case.stage == "time")
        assert found is not None
        return found


async def _unheard(_: object) -> None:
    return


def _compiled(slug: str, source: Path, folder: Path) -> Path:
    """A problem's folder as an agent would have fetched it."""
    files = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    version = compile_problem(slug, files)
    target = folder / slug
    target.mkdir()
    files = {**version.files, "manifest.json": version.manifest}
    for name, data in files.items():
        (target / name).write_bytes(data)
    (target / "utils.py").write_text(UTILITIES.read_text())
    return target


def _plain(problem: Path, kernel: Path) -> float:
    """Seconds of a cold process that tests the same kernel in itself."""
    began = time.monotonic()
    command = [sys.executable, str(PLAIN), "test", str(problem), str(kernel), "2"]
    environ = {"PATH": os.defpath, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, capture_output=True, env=environ, timeout=120)
    return time.monotonic() - began


async def _turnaround(bench: Bench) -> None:
    problem = _compiled("identity", IDENTITY, bench.folder)
    kernel = IDENTITY / "solutions" / "correct" / "torch_copy.py"
    await bench.run(problem, kernel, "test")
    ours, plain = [], []
    for _ in range(TURNS):
        began = time.monotonic()
        await bench.run(problem, kernel, "test")
        ours.append(time.monotonic() - began)
        plain.append(_plain(problem, kernel))
    ratio = statistics.median(plain) / statistics.median(ours)
    print(f"turnaround, mode test, identity: median of {TURNS} (least to most)")
    print(f"  warm harness, sandboxed   {_spread(ours)}")
    print(f"  cold plain_eval.py test   {_spread(plain)}")
    print(f"  the cold process takes {ratio:.1f} times as long", flush=True)


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.3f} s ({min(seconds):.3f} to {max(seconds):.3f})"


async def _overhead(bench: Bench, problem: Path) -> None:
    kernel = _kernel(bench.folder, BASE)
    nulls = []
    for _ in range(3):
        report = await bench.run(problem, kernel, "benchmark")
        nulls += [case.null_us for case in report.cases if case.stage == "time"]
    low, middle, high = (statistics.median(column) for column in zip(*nulls, strict=True))
    print("per-call cost of the protocol, a null call with the same shapes, frozen and thawed:")
    print(f"  p10 {low:.1f} us, median {middle:.1f} us, p90 {high:.1f} us", flush=True)


def _kernel(folder: Path, count: int) -> Path:
    path = folder / f"work{count}.py"
    path.write_text(KERNEL.format(count=count))
    return path


@contextlib.contextmanager
def _neighbour(is_there: bool) -> Iterator[None]:
    """A process that keeps one core busy, or none."""
    if not is_there:
        yield
        return
    process = multiprocessing.Process(target=_burn, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _burn() -> None:
    while True:
        math.factorial(1000)


async def _repeatability(bench: Bench, problem: Path, name: str) -> None:
    """Base and variants in turn, so that all kernels meet the same moods of the machine."""
    kernels = {0: _kernel(bench.folder, BASE)}
    for percent in MORE_PERCENT:
        kernels[percent] = _kernel(bench.folder, BASE + BASE * percent // 100)
    found: dict[int, list[float]] = {percent: [] for percent in kernels}
    for _ in range(bench.trials):
        for percent, kernel in kernels.items():
            found[percent].append(await bench.time_us(problem, kernel))
    base = found[0]
    cv = 100 * statistics.stdev(base) / statistics.fmean(base)
    print(f"{name}: {bench.trials} submissions of one kernel, {statistics.median(base):.0f} us:")
    print(f"  CV of the score {cv:.2f} %")
    for percent in MORE_PERCENT:
        pairs = list(zip(base, found[percent], strict=True))
        right = sum(slow > fast for fast, slow in pairs)
        read = 100 * statistics.median(slow / fast - 1 for fast, slow in pairs)
        text = f"{percent} % more work: ordered right {right} of {len(pairs)}, reads {read:+.2f} %"
        print(f"  {text}", flush=True)


async def _measure(trials: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        async with Harness() as harness:
            bench = Bench(harness, folder, trials)
            problem = _compiled("work", WORK, folder)
            await _turnaround(bench)
            await _overhead(bench, problem)
            for name, is_loaded in (("idle neighbour", False), ("loaded neighbour", True)):
                with _neighbour(is_loaded):
                    await _repeatability(bench, problem, name)


def main() -> None:
    """Measures, and prints as it goes; `--quick` repeats less."""
    trials = QUICK if "--quick" in sys.argv[1:] else TRIALS
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()[0]}))
    asyncio.run(_measure(trials))


if __name__ == "__main__":
    main()
