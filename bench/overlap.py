"""A mix of C++ submissions in one slot and in all slots of this machine, in the pool of an agent.

`python -m bench.overlap [--smoke]`. Each source differs in a constant, so that each is compiled,
and includes the standard library, as a kernel with templates does. One in eight is a benchmark,
whose timed stage has the processor alone; the others are tests. Both pools take turns, because the
load of the machine changes.
"""

import argparse
import asyncio
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
BENCHMARK_EVERY = 8
# How often each pool runs so many submissions.
WHOLE, SMOKE = 4, 1
ROUND = 8
SPEEDUP_MIN = 1.6
_numbers = count()


class Round(NamedTuple):
    """How long some submissions took, and the times and precisions of their benchmarks.

    They waited for the device for `waited_s` together.
    """

    took_s: float
    waited_s: float
    times_us: list[float]
    widths: list[float]


async def _ignore(_: Started | Progress | StageFinished) -> None:
    """Nobody follows a benchmark's runs."""


async def _run_one(pool: HarnessPool, problem: Path, home: Path, mode: str) -> RunReport:
    folder = Path(tempfile.mkdtemp(dir=home))
    (folder / "out").mkdir()
    source = folder / KERNEL.name
    text = f"#include <bits/stdc++.h>\n{KERNEL.read_text()}"
    source.write_text(f"{text}\nstatic const int number = {next(_numbers)};\n")
    request = RunRequest(str(problem), str(source), mode, str(folder / "out"), device=CPU_DEVICE)
    async with pool.lend() as harness:
        report = await harness.evaluate(request, _ignore)
    shutil.rmtree(folder)
    assert report.verdict == PASSED, report.reason
    return report


async def _run_round(pool: HarnessPool, problem: Path, home: Path) -> Round:
    modes = ["test" if place % BENCHMARK_EVERY else "benchmark" for place in range(ROUND)]
    began = time.monotonic()
    reports = await asyncio.gather(*(_run_one(pool, problem, home, mode) for mode in modes))
    took_s = time.monotonic() - began
    timed = [case for run in reports for case in run.cases if case.time_us]
    widths = [
        (case.interval_us[1] - case.interval_us[0]) / 2 / case.time_us
        for case in timed
        if case.interval_us and case.time_us
    ]
    waited_s = sum(run.usage.get("device_wait_s", 0.0) for run in reports)
    return Round(took_s, waited_s, [case.time_us or 0.0 for case in timed], widths)


async def run_rounds(slots: int, rounds: int) -> tuple[list[Round], list[Round]]:
    """Run the mix in one slot and in so many, in turns."""
    one, several = list[Round](), list[Round]()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        problem = await asyncio.to_thread(load_problem, ROOT / "problems" / PROBLEM, PROBLEM)
        write_version(problem, home / "problem")
        async with HarnessPool(1) as single, HarnessPool(slots) as pool:
            for each in (single, pool):
                await each.warm()
                # What is compiled once, such as the yardstick, is no part of a submission.
                await _run_one(each, home / "problem", home, "benchmark")
            for _ in range(rounds):
                one.append(await _run_round(single, home / "problem", home))
                several.append(await _run_round(pool, home / "problem", home))
    return one, several


def measure_overlap(rounds: int) -> list[Figure]:
    """Return how much faster a mix is in all slots of this machine than in one."""
    slots = count_slots(CPU_DEVICE)
    one, several = asyncio.run(run_rounds(slots, rounds))
    print(f"  {load()}", flush=True)
    found = []
    for name, runs in (("1 slot", one), (f"{slots} slots", several)):
        per_hour = ROUND * len(runs) / sum(run.took_s for run in runs) * 3600
        width = statistics.median(width for run in runs for width in run.widths)
        waited_s = statistics.mean(run.waited_s for run in runs) / ROUND
        found += [
            Figure(name=f"C++ submissions, {name}", measured=per_hour, unit="an hour"),
            Figure(name=f"wait for the device, {name}", measured=waited_s, unit="s each"),
            Figure(name=f"half width of an interval, {name}", measured=100 * width, unit="%"),
        ]
    speedups = [single.took_s / all_.took_s for single, all_ in zip(one, several, strict=True)]
    times = [
        statistics.median(time for run in runs for time in run.times_us) for runs in (several, one)
    ]
    return [
        *found,
        Figure(
            name=f"C++ submissions, {slots} slots: throughput over 1 slot",
            measured=statistics.median(speedups),
            unit="times",
            goal=at_least(SPEEDUP_MIN),
        ),
        Figure(
            name=f"median time in {slots} slots over that in 1 slot",
            measured=times[0] / times[1],
            unit="times",
        ),
    ]


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.overlap", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one round")
    options = parser.parse_args()
    report(measure_overlap(SMOKE if options.smoke else WHOLE))


if __name__ == "__main__":
    main()
