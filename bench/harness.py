"""What the harness costs and how far its times can be trusted, on the cpu device.

`python -m bench.harness [--smoke] [--part NAME ...]`. Kernels do a known amount of work, with and
without processes beside them that keep the cores busy. Parts: `across-load` compares kernels of
nearly the same work under every load, `truth` compares scores with the time of each kind of kernel
alone, `modes` measures a run of each mode. With WARPBOARD_BENCH_RUNS, the path of a file, finished
runs are kept there, and an interrupted benchmark goes on where it stopped. `--smoke` only shows
that it works.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from bench import harness_figures
from bench.figures import Figure, report
from bench.harness_runs import Kernel, Record, Records, Runner, busy_processes
from bench.noop_platform import load
from bench.results import read_before
from harness.entry import Harness

RUNS = "WARPBOARD_BENCH_RUNS"
MORE_PERCENT = (1, 2, 5)
# Products of 32 x 32 take 1.6 us each; 1 % of each count is a whole number.
SIZES = {"0.3 ms": 200, "2 ms": 1300, "10 ms": 6500}
# A millisecond or some of each kind.
TRUTH_KERNELS = (
    Kernel("compute", 3),
    Kernel("memory", 1),
    Kernel("cache", 500),
    Kernel("Python", 40),
)
MODE_KERNEL = Kernel("products", 650)


class Plan(NamedTuple):
    """What is measured: numbers of busy processes, kernels, and how often."""

    sizes: tuple[str, ...]
    percents: tuple[int, ...]
    loads: tuple[int, ...]
    truth_kernels: tuple[Kernel, ...]
    truth_loads: tuple[int, ...]
    modes: tuple[str, ...]
    repetitions: int
    mode: str


WHOLE = Plan(
    sizes=tuple(SIZES),
    percents=MORE_PERCENT,
    loads=(0, 1, 4, 8),
    truth_kernels=TRUTH_KERNELS,
    truth_loads=(0, 4),
    modes=("test", "benchmark", "ranked"),
    repetitions=2,
    mode="ranked",
)
SMOKE = Plan(
    sizes=("0.3 ms",),
    percents=(5,),
    loads=(0, 1),
    truth_kernels=TRUTH_KERNELS[:1],
    truth_loads=(0,),
    modes=("test", "benchmark"),
    repetitions=1,
    mode="benchmark",
)


def plan_across_load(plan: Plan, runner: Runner) -> Iterator[Record]:
    """Yield runs of a kernel, its twin and kernels with a little more work, in turn."""
    turns = product(plan.loads, range(plan.repetitions), plan.sizes)
    for busy, repetition, size in turns:
        base = Kernel("products", SIZES[size])
        more = [
            Kernel("products", base.count + base.count * percent // 100)
            for percent in plan.percents
        ]
        for kernel in (base, Kernel("products", base.count, twin=1), *more):
            yield Record(
                part="across-load",
                size=size,
                kernel=kernel,
                load=busy,
                repetition=repetition,
                mode=plan.mode,
                truth_us=runner.counted_us(kernel, base.yardstick),
                yardstick=base.yardstick,
            )


def plan_truth(plan: Plan, runner: Runner) -> Iterator[Record]:
    """Yield runs of a kernel of each kind."""
    for busy, repetition, kernel in product(
        plan.truth_loads, range(plan.repetitions), plan.truth_kernels
    ):
        yield Record(
            part="truth",
            size=kernel.kind,
            kernel=kernel,
            load=busy,
            repetition=repetition,
            mode=plan.mode,
            truth_us=runner.alone_us(kernel),
            yardstick=kernel.yardstick,
        )


def plan_modes(plan: Plan, _: Runner) -> Iterator[Record]:
    """Yield runs of each mode on a kernel of a millisecond."""
    for repetition, mode in product(range(2 * plan.repetitions), plan.modes):
        yield Record(
            part="modes",
            size="1 ms",
            kernel=MODE_KERNEL,
            load=0,
            repetition=repetition,
            mode=mode,
            truth_us=0.0,
            yardstick=MODE_KERNEL.yardstick,
        )


class Part(NamedTuple):
    """A part of the benchmark: its runs, and the figures that they give."""

    plan: Callable[[Plan, Runner], Iterator[Record]]
    summarize: Callable[[Sequence[Record]], list[Figure]]


PARTS = {
    "modes": Part(plan_modes, harness_figures.summarize_modes),
    "truth": Part(plan_truth, harness_figures.compare_truth),
    "across-load": Part(plan_across_load, harness_figures.compare),
}


async def measure(names: Sequence[str], plan: Plan, records: Records) -> list[Figure]:
    """Make the runs of some parts that are not recorded yet, and return the figures of all."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        async with Harness() as harness:
            runner = Runner(harness, Path(folder), records.rows)
            await runner.warm_up()
            for name in names:
                began = time.monotonic()
                await _run_part(PARTS[name], plan, runner, records)
                print(f"  {name}: {time.monotonic() - began:.0f} s ({load()})", flush=True)
                figures += PARTS[name].summarize([row for row in records.rows if row.part == name])
    return figures


async def _run_part(part: Part, plan: Plan, runner: Runner, records: Records) -> None:
    # All times alone are measured first, before a busy process starts.
    wanted = [run for run in part.plan(plan, runner) if not records.has(run)]
    for busy in dict.fromkeys(run.load for run in wanted):
        with busy_processes(busy):
            for run in wanted:
                if run.load == busy:
                    records.add(await runner.run(run))


def print_beside(figures: Sequence[Figure]) -> None:
    """Print figures beside those that were recorded before the clock was rewritten."""
    before = read_before("harness")
    for figure in figures:
        if figure.name in before:
            print(f"  {figure.name}: {figure.value}; before: {before[figure.name]}")


def main() -> None:
    """Measure the parts that are named, or all, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.harness", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; repeatable")
    parser.add_argument("--smoke", action="store_true", help="one kernel, once, in seconds")
    parser.add_argument("--repetitions", type=int, default=WHOLE.repetitions, metavar="N")
    options = parser.parse_args()
    path = os.environ.get(RUNS)
    records = Records(Path(path) if path and not options.smoke else None)
    plan = SMOKE if options.smoke else WHOLE._replace(repetitions=options.repetitions)
    figures = asyncio.run(measure(options.part or tuple(PARTS), plan, records))
    if not options.smoke:
        print_beside(figures)
    report(figures)


if __name__ == "__main__":
    main()
