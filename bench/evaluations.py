"""Evaluations per hour and processor time per item, of many kernels for one problem.

`python -m bench.evaluations [--smoke] [--part NAME ...]`. Every part evaluates kernels that differ
in a number alone, so that none can be answered from a cache:

- `bare`: a loop that forks, loads the source, calls it and checks it without protection
- `single`: submissions in mode test through a platform of its own, 1 and 64 in flight
- `service`: tests as evaluations through the same platform, in batches of 1 and of 64
- `library`: tests by `harness.Evaluator`, 1 and 64 in flight
- `benchmark`: kernels of a millisecond that it times to 5 %
- `builds`: kernels in C++, one run at a time and as many as the machine has cores
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
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from bench.cpu_group import CpuGroup, cpu_group
from bench.figures import Figure, at_least, at_most, report
from bench.harness import MODE_KERNEL
from bench.harness_runs import UTILITIES, Runner
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
from harness.entry import Harness
from harness.evaluator import EvaluationMode, Evaluator, Source
from harness.vocabulary import CPU_TYPE
from shared.api.evaluations import EvaluationItem, EvaluationRequest
from shared.problem_folders import read_problem_files
from shared.problems.compilation import compile_problem
from warpboard.api import Caller, open_api
from warpboard.service.evaluations import batch_key, evaluate_batch

# Kernels in C++, whose compilation takes longer than their test.
NATIVE = ROOT / "problems" / "sort-keys" / "solutions" / "correct"
IN_FLIGHT = (1, 64)
PRECISION = 0.05
PART_S_MAX = 200.0
END_S_MAX = 120.0
CORES = len(os.sched_getaffinity(0))
# The names of agents among the processes of a platform begin with this.
AGENT = "gpu-agent"


class Size(NamedTuple):
    """How many kernels each part evaluates."""

    bare: int
    single: int
    service: int
    library: int
    benchmark: int
    builds: int


WHOLE = Size(bare=300, single=100, service=192, library=150, benchmark=60, builds=24)
SMOKE_PARTS = ("bare", "library", "benchmark")
SMOKE = Size(bare=20, single=5, service=4, library=10, benchmark=2, builds=2)


class Rate(NamedTuple):
    """How fast some kernels were evaluated, and the processor time of each.

    `services_ms` is the part of it that the platform took: ingest, scheduler, ranker, nats-server,
    Postgres and the agent's own process, without its supervisors, their runs and the boxes.
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
    rates = {}
    with tempfile.TemporaryDirectory() as home:
        problem, sources = write_problem(Path(home, "problem")), Path(home, "sources")
        sources.mkdir()
        for number, kernel in enumerate(kernels(size.bare)):
            (sources / f"kernel{number}.py").write_text(kernel)
        for loops in dict.fromkeys((1, CORES)):
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


def measure_library(size: Size) -> Rates:
    """Evaluate kernels in mode test by the library."""
    with tempfile.TemporaryDirectory() as home:
        problem = write_problem(Path(home, "problem"))
        with counted_evaluator() as (evaluator, group):
            drain(evaluator, problem, kernels(evaluator.slots))
            return {
                f"library, {in_flight} in flight": _measure_map(
                    evaluator, group, problem, kernels(size.library), in_flight
                )
                for in_flight in IN_FLIGHT
            }


def _measure_map(
    evaluator: Evaluator, group: CpuGroup, problem: Path, sources: Sequence[str], in_flight: int
) -> Rate:
    # The evaluator has as many in flight as it can.
    maps = [[source] for source in sources] if in_flight == 1 else [sources]
    cpu_s, began = group.cpu_s(), time.monotonic()
    for some in maps:
        drain(evaluator, problem, some)
    return Rate.measured(len(sources), time.monotonic() - began, group.cpu_s() - cpu_s)


def measure_benchmark(size: Size) -> Rates:
    """Time kernels of a millisecond to 5 % by the library; their yardstick takes twice as long."""
    with tempfile.TemporaryDirectory() as home, counted_evaluator() as (evaluator, group):
        problem = Runner(Harness(), Path(home)).find_problem(MODE_KERNEL.yardstick)
        twins = [
            msgspec.structs.replace(MODE_KERNEL, twin=number)
            for number in range(1 + size.benchmark)
        ]
        drain(evaluator, problem, [twins[0].source], "benchmark")
        cpu_s, began = group.cpu_s(), time.monotonic()
        drain(evaluator, problem, [twin.source for twin in twins[1:]], "benchmark")
        took_s = time.monotonic() - began
        rate = Rate.measured(size.benchmark, took_s, group.cpu_s() - cpu_s)
    return {"benchmarks of 1 ms to 5 %": rate}


def measure_builds(size: Size) -> Rates:
    """Test kernels in C++, one at a time, and with as many slots as the machine has cores."""
    rates = {}
    for slots in dict.fromkeys((1, CORES)):
        sources = [
            Source(f"// Kernel {next(_numbers)}\n{path.read_text()}", path.name)
            for _, path in zip(range(1 + size.builds), cycle(sorted(NATIVE.glob("*.cpp"))))
        ]
        with counted_evaluator(slots=slots) as (evaluator, group):
            problem = NATIVE.parents[1]
            drain(evaluator, problem, sources[:1])
            cpu_s, began = group.cpu_s(), time.monotonic()
            drain(evaluator, problem, sources[1:])
            took_s = time.monotonic() - began
            rates[f"C++, {slots} at a time"] = Rate.measured(
                size.builds, took_s, group.cpu_s() - cpu_s
            )
    return rates


@contextmanager
def counted_evaluator(slots: int = 0) -> Iterator[tuple[Evaluator, CpuGroup]]:
    """Yield an evaluator for the processor, and the group of its processes and of this one."""
    with (
        cpu_group() as group,
        group.started_here(),
        Evaluator(["cpu"], slots=slots, level_min="none", is_caching=False) as evaluator,
    ):
        yield evaluator, group


def drain(
    evaluator: Evaluator,
    problem: Path,
    sources: Sequence[str | Source],
    mode: EvaluationMode = "test",
) -> None:
    """Evaluate sources, all of which must pass."""
    for result in evaluator.map(problem, sources, mode, precision=PRECISION):
        assert result.verdict == "passed", result
        assert (result.speedup is not None) == (mode == "benchmark"), result


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


async def measure_service(size: Size, platform: Platform, costs: PlatformCosts) -> Rates:
    """Evaluate kernels in batches, one after the other; nothing is answered from the cache."""
    rates = {}
    async with open_api(platform.url, Caller("evaluations")) as api:

        async def evaluate(sources: Sequence[str], in_flight: int) -> float:
            remaining, began = iter(enumerate(sources)), time.monotonic()
            while batch := list(islice(remaining, in_flight)):
                items = [EvaluationItem(id=str(n), source=text) for n, text in batch]
                request = EvaluationRequest(
                    problem=PROBLEM, gpu=CPU_TYPE, items=items, use_cache=False
                )
                async for result in evaluate_batch(api, request, batch_key(request)):
                    assert result.verdict == "passed", result
            return time.monotonic() - began

        for in_flight in IN_FLIGHT:
            # One at a time takes as long as single submissions.
            sources = kernels(size.service if in_flight > 1 else max(1, size.service // 4))
            name = f"service, {in_flight} in flight"
            rates[name] = await costs.rate(len(sources), evaluate(sources, in_flight))
    return rates


def measure_on_platform(size: Size, names: Sequence[str]) -> Rates:
    """Measure the named parts of ON_A_PLATFORM on one platform."""
    rates: Rates = {}
    with counted_platform() as (platform, costs):
        for name in names:
            rates |= asyncio.run(ON_A_PLATFORM[name](size, platform, costs))
    return rates


PARTS = {
    "bare": measure_bare,
    "library": measure_library,
    "benchmark": measure_benchmark,
    "builds": measure_builds,
}
ON_A_PLATFORM = {"single": measure_single, "service": measure_service}


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


GOALS = {
    "service, 64 in flight": at_least(20_000),
    "benchmarks of 1 ms to 5 %": at_least(3000),
}
CPU_GOALS = {"service, 64 in flight": at_most(25)}
# A rate over another one, and what it should be at least.
RATIOS = (
    ("library, 1 in flight", "bare, 1 at a time", 0.5),
    ("library, 64 in flight", f"bare, {CORES} at a time", 0.5),
    (f"C++, {CORES} at a time", "C++, 1 at a time", 1.6),
)


def figures(rates: Rates) -> list[Figure]:
    """Return what was measured, beside the goals."""
    found = []
    for name, rate in rates.items():
        found += [
            Figure(
                name=f"{name}: evaluations",
                measured=rate.per_hour,
                unit="an hour",
                goal=GOALS.get(name),
            ),
            Figure(name=f"{name}: processor", measured=rate.cpu_ms, unit="ms an item"),
        ]
        if rate.services_ms:
            figure = f"{name}: processor without the harness"
            goal = CPU_GOALS.get(name)
            found.append(
                Figure(name=figure, measured=rate.services_ms, unit="ms an item", goal=goal)
            )
    for name, other, least in RATIOS:
        if name in rates and other in rates and name != other:
            ratio = rates[name].per_hour / rates[other].per_hour
            title = f"{name}, over {other}"
            note = "the process of a run alone costs as much as the bare loop (docs/evaluator.md)"
            found.append(Figure(name=title, measured=ratio, goal=at_least(least), note=note))
    return found


def main() -> None:
    """Measure the parts that are named, or all, and print the figures."""
    names = (*PARTS, *ON_A_PLATFORM)
    parser = argparse.ArgumentParser(prog="python -m bench.evaluations", description=__doc__)
    parser.add_argument("--part", action="append", choices=names, help="only this; repeatable")
    parser.add_argument("--smoke", action="store_true", help="a few kernels, in seconds")
    options = parser.parse_args()
    # Compilers and platforms take minutes on a busy machine.
    names = SMOKE_PARTS if options.smoke else names
    rates = measure(options.part or names, SMOKE if options.smoke else WHOLE)
    report(figures(rates))


if __name__ == "__main__":
    main()
