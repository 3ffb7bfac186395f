"""A mix of C++ submissions in one slot and in all slots of this machine, in the pool of an agent.

`python -m bench.overlap [--smoke]`. Each source differs in a constant, so that each is compiled. A
quarter are benchmarks, whose timed stage has the processor alone; the others are tests.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench.figures import Figure, at_least, report
from bench.noop_platform import ROOT, load
from harness.entry import Progress, RunReport, RunRequest, StageFinished, Started
from harness.pool import HarnessPool, count_slots
from harness.vocabulary import CPU_DEVICE, PASSED
from shared.problem_versions import load_problem, write_version

PROBLEM = "axpy"
KERNEL = ROOT / "problems" / PROBLEM / "solutions" / "correct" / "cpp_loop.cpp"
BENCHMARK_EVERY = 4
WHOLE, SMOKE = 16, 4
SPEEDUP_MIN = 1.6
_numbers = count()


class Mix(NamedTuple):
    """How fast a mix was run, and the times and precisions of its benchmarks."""

    per_hour: float
    times_us: list[float]
    widths: list[float]


async def _ignore(_: Started | Progress | StageFinished) -> None:
    """Nobody follows a benchmark's runs."""


async def _run_one(pool: HarnessPool, problem: Path, home: Path, mode: str) -> RunReport:
    folder = Path(tempfile.mkdtemp(dir=home))
    (folder / "out").mkdir()
    source = folder / KERNEL.name
    source.write_text(f"{KERNEL.read_text()}\nstatic const int number = {next(_numbers)};\n")
    request = RunRequest(str(problem), str(source), mode, str(folder / "out"), device=CPU_DEVICE)
    async with pool.lend() as harness:
        report = await harness.evaluate(request, _ignore)
    shutil.rmtree(folder)
    assert report.verdict == PASSED, report.reason
    return report


async def measure_mix(slots: int, items: int) -> Mix:
    """Run a mix of C++ submissions, as many at a time as there are slots."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        problem = await asyncio.to_thread(load_problem, ROOT / "problems" / PROBLEM, PROBLEM)
        write_version(problem, home / "problem")
        async with HarnessPool(slots) as pool:
            await pool.warm()
            modes = ["test" if place % BENCHMARK_EVERY else "benchmark" for place in range(items)]
            # What is compiled once, such as the yardstick, is no part of a submission.
            await asyncio.gather(
                *(_run_one(pool, home / "problem", home, mode) for mode in ("benchmark", "test"))
            )
            began = time.monotonic()
            reports = await asyncio.gather(
                *(_run_one(pool, home / "problem", home, mode) for mode in modes)
            )
            took_s = time.monotonic() - began
    timed = [case for run in reports for case in run.cases if case.time_us]
    widths = [
        (case.interval_us[1] - case.interval_us[0]) / 2 / case.time_us
        for case in timed
        if case.interval_us and case.time_us
    ]
    return Mix(items / took_s * 3600, [case.time_us or 0.0 for case in timed], widths)


def measure_overlap(items: int) -> list[Figure]:
    """Return how much faster a mix is in all slots of this machine than in one."""
    slots = count_slots(CPU_DEVICE)
    one, all_ = (asyncio.run(measure_mix(number, items)) for number in (1, slots))
    print(f"  load {os.getloadavg()[0]:.1f} ({load()})", flush=True)
    name = f"C++ submissions, {slots} slots"
    return [
        Figure(name="C++ submissions, 1 slot", measured=one.per_hour, unit="an hour"),
        Figure(name=name, measured=all_.per_hour, unit="an hour"),
        Figure(
            name=f"{name}: throughput over 1 slot",
            measured=all_.per_hour / one.per_hour,
            unit="times",
            goal=at_least(SPEEDUP_MIN),
        ),
        Figure(
            name=f"{name}: median time over that in 1 slot",
            measured=statistics.median(all_.times_us) / statistics.median(one.times_us),
            unit="times",
        ),
        Figure(
            name="half width of a time's interval, 1 slot",
            measured=100 * statistics.median(one.widths),
            unit="%",
        ),
        Figure(
            name=f"half width of a time's interval, {slots} slots",
            measured=100 * statistics.median(all_.widths),
            unit="%",
        ),
    ]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.overlap", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few submissions, in seconds")
    options = parser.parse_args()
    report(measure_overlap(SMOKE if options.smoke else WHOLE))


if __name__ == "__main__":
    main()
