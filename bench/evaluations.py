"""Evaluations per hour and processor time per item, of many kernels for one problem.

`python -m bench.evaluations [--smoke] [--part NAME ...]`. Every part evaluates kernels that differ
in a number alone, so that none can be answered from a cache:

- `bare`: a loop that forks, loads the source, calls it and checks it without protection
- `single`: submissions in mode test through a platform of its own, 1 and 64 in flight
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from bench.cpu_group import CpuGroup, cpu_group
from bench.figures import Figure, report
from bench.noop_platform import (
    PROBLEM,
    ROOT,
    SOURCE,
    Platform,
    cpu_s,
    load,
    own_cpu_s,
    running_platform,
)
from harness.vocabulary import CPU_TYPE
from shared.problem_folders import read_problem_files
from shared.problems.compilation import compile_problem

UTILITIES = ROOT / "harness" / "src" / "harness" / "check" / "utilities.py"
IN_FLIGHT = (1, 64)
PART_S_MAX = 200.0
END_S_MAX = 120.0
# The names of agents among the processes of a platform begin with this.
AGENT = "gpu-agent"


class Size(NamedTuple):
    """How many kernels each part evaluates."""

    bare: int
    single: int


WHOLE = Size(bare=300, single=100)
SMOKE = Size(bare=20, single=5)


class Rate(NamedTuple):
    """How fast some kernels were evaluated, and the processor time of each.

    `services_ms` is the part of it that the processes of the platform took, without the harness.
    """

    per_hour: float
    cpu_ms: float
    services_ms: float = 0.0

    @classmethod
    def measured(cls, items: int, took_s: float, cpu_s: float, services_s: float = 0.0) -> "Rate":
        """Return the rate of so many items."""
        return cls(items / took_s * 3600, cpu_s / items * 1e3, services_s / items * 1e3)


Rates = dict[str, Rate]
_numbers = count()


def kernels(number: int) -> list[str]:
    """Return so many kernels that nobody has evaluated before."""
    return [f"NUMBER = {next(_numbers)}\n{SOURCE}" for _ in range(number)]


def write_problem(folder: Path) -> Path:
    """Write the problem's compiled version, as a harness takes it, into a new folder."""
    version = compile_problem(PROBLEM, read_problem_files(ROOT / "problems" / PROBLEM))
    folder.mkdir()
    for name, data in {**version.files, "manifest.json": version.manifest}.items():
        (folder / name).write_bytes(data)
    (folder / "utils.py").write_text(UTILITIES.read_text())
    return folder


def measure_bare(size: Size) -> Rates:
    """Run the bare loop in one process, and in one for each core."""
    cores = len(os.sched_getaffinity(0))
    rates = {}
    with tempfile.TemporaryDirectory() as home:
        problem, sources = write_problem(Path(home, "problem")), Path(home, "sources")
        sources.mkdir()
        for number, kernel in enumerate(kernels(size.bare)):
            (sources / f"kernel{number}.py").write_text(kernel)
        for loops in dict.fromkeys((1, cores)):
            rates[f"bare, {loops} at a time"] = _run_loops(loops, problem, sources, size.bare)
    return rates


def _run_loops(loops: int, problem: Path, sources: Path, items: int) -> Rate:
    command = [sys.executable, "-m", "bench.bare", str(problem), str(sources)]
    with cpu_group() as group:
        with group.started_here():
            environ = os.environ | {"OMP_NUM_THREADS": "1"}
            processes = [
                subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)
                for _ in range(loops)
            ]
        results = [process.communicate(timeout=PART_S_MAX)[0].split() for process in processes]
        cpu_s = group.cpu_s()
    assert all(int(passed) == items for passed, _, _ in results), results
    # What a loop imports is no part of an evaluation.
    imports_s = sum(float(imported) for _, _, imported in results)
    slowest_s = max(float(took) for _, took, _ in results)
    return Rate.measured(loops * items, slowest_s, cpu_s - imports_s)


class PlatformCosts:
    """The processor time of a platform."""

    def __init__(self, platform: Platform, group: CpuGroup) -> None:
        self._platform, self._group = platform, group

    def spent_s(self) -> tuple[float, float]:
        """Return that of all processes, and that of its services without the harness."""
        services_s = sum(
            own_cpu_s(pid) if name.startswith(AGENT) else cpu_s(pid)
            for name, pid in self._platform.pids().items()
        )
        return self._group.cpu_s(), services_s

    async def rate(self, items: int, evaluation: Awaitable[float]) -> Rate:
        """Return the rate of so many items, which are evaluated in the seconds that come."""
        before = self.spent_s()
        took_s = await evaluation
        after = self.spent_s()
        return Rate.measured(items, took_s, after[0] - before[0], after[1] - before[1])


@contextmanager
def counted_platform() -> Iterator[tuple[Platform, PlatformCosts]]:
    """Yield a platform, and what it costs."""
    with cpu_group() as group, ExitStack() as stack:
        with group.started_here():
            platform = stack.enter_context(running_platform())
        for pid in platform.pids().values():
            group.add(pid)
        yield platform, PlatformCosts(platform, group)


async def evaluate_all(
    evaluate: Callable[[int, str], Awaitable[None]], sources: Sequence[str], in_flight: int
) -> float:
    """Evaluate sources, so many at a time; return the seconds that it took."""
    waiting = iter(sources)

    async def work(worker: int) -> None:
        for source in waiting:
            await evaluate(worker, source)

    began = time.monotonic()
    async with asyncio.timeout(PART_S_MAX), asyncio.TaskGroup() as group:
        for worker in range(min(in_flight, len(sources))):
            group.create_task(work(worker))
    return time.monotonic() - began


async def measure_single(size: Size, platform: Platform, costs: PlatformCosts) -> Rates:
    """Submit each kernel alone in mode test, and wait for its end."""
    rates = {}
    async with httpx.AsyncClient(base_url=platform.url, timeout=END_S_MAX) as http:

        async def submit(worker: int, source: str) -> None:
            author = {"Warpboard-Participant": f"evaluations-{worker}"}
            form = {"problem": PROBLEM, "gpu": CPU_TYPE, "mode": "test"}
            file = {"file": ("kernel.py", source.encode())}
            answer = await http.post("/v1/submissions", data=form, files=file, headers=author)
            path = f"/v1/submissions/{answer.raise_for_status().json()['submissions'][0]['number']}"
            found: dict[str, Any] = {"is_over": False, "version": -1}
            while not found["is_over"]:
                query = {"after": found["version"], "wait_s": 20}
                answer = await http.get(path, params=query, headers=author)
                found = answer.raise_for_status().json()
            assert found["outcome"] == "passed", found["reason"]

        await evaluate_all(submit, kernels(1), 1)
        for in_flight in IN_FLIGHT:
            sources = kernels(size.single)
            evaluation = evaluate_all(submit, sources, in_flight)
            name = f"single submissions, {in_flight} in flight"
            rates[name] = await costs.rate(len(sources), evaluation)
    return rates


def measure_on_platform(size: Size, names: Sequence[str]) -> Rates:
    """Measure the named parts of ON_A_PLATFORM on one platform."""
    rates: Rates = {}
    with counted_platform() as (platform, costs):
        for name in names:
            rates |= asyncio.run(ON_A_PLATFORM[name](size, platform, costs))
    return rates


PARTS = {"bare": measure_bare}
ON_A_PLATFORM = {"single": measure_single}


def measure(names: Sequence[str], size: Size) -> Rates:
    """Measure parts, and print how long each took as soon as it is over."""
    rates: Rates = {}
    for name in names:
        if name in PARTS:
            with _timed(name):
                rates |= PARTS[name](size)
    if on_a_platform := [name for name in names if name in ON_A_PLATFORM]:
        with _timed(", ".join(on_a_platform)):
            rates |= measure_on_platform(size, on_a_platform)
    return rates


@contextmanager
def _timed(name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"  {name}: {time.monotonic() - began:.0f} s ({load()})", flush=True)


def figures(rates: Rates) -> list[Figure]:
    """Return what was measured, beside the goals."""
    found = []
    for name, rate in rates.items():
        found.append(Figure(name=f"{name}: evaluations", measured=rate.per_hour, unit="an hour"))
        found.append(Figure(name=f"{name}: processor", measured=rate.cpu_ms, unit="ms an item"))
        if rate.services_ms:
            figure = f"{name}: processor without the harness"
            found.append(Figure(name=figure, measured=rate.services_ms, unit="ms an item"))
    return found


def main() -> None:
    """Measure the parts that are named, or all, and print the figures."""
    names = (*PARTS, *ON_A_PLATFORM)
    parser = argparse.ArgumentParser(prog="python -m bench.evaluations", description=__doc__)
    parser.add_argument("--part", action="append", choices=names, help="only this; repeatable")
    parser.add_argument("--smoke", action="store_true", help="a few kernels, in seconds")
    options = parser.parse_args()
    rates = measure(options.part or names, SMOKE if options.smoke else WHOLE)
    report(figures(rates))


if __name__ == "__main__":
    main()
