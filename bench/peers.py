"""KernelBot's own server and evaluation beside ours, on the same problem, kernel and machine.

`python -m bench.peers [--smoke]`. WARPBOARD_KERNELBOT names a checkout of gpu-mode/kernelbot, and
WARPBOARD_KERNELBOT_PYTHON a Python 3.12 or newer with its dependencies. Its API server, backend,
database and evaluation run as they are; `bench/kernelbot/` has the launcher that starts the
evaluation in a local process, and what stands in for CUDA. Submissions to both alternate.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from bench.figures import Figure, at_least, at_most, report
from bench.harness_runs import Kernel
from bench.intervals import Interval
from bench.noop_platform import GPU, PROBLEM, SOURCE, WORK, load, machine_cpu_s, running_platform
from bench.peers_kernelbot import (
    END_S_MAX,
    LEADERBOARD,
    MODES,
    NOOP,
    USERS,
    KernelBot,
    count_samples,
    find_kernelbot,
    read_result,
    running_kernelbot,
)
from bench.pipeline_client import Client
from bench.turnaround import submit

# A millisecond.
KERNEL = Kernel("products", 650)
ROUNDS, ROUNDS_SMOKE = 3, 1
AGENTS = 10
CLIENTS, MEASURED_S = 16, 6.0
ALONE, ALONE_SMOKE = 20, 3
NOTE = "a ranked run checks hidden cases and times several fresh processes (docs/adr/timing.md)"
Submit = Callable[[int, str], Awaitable[None]]


class Cost(NamedTuple):
    """What one submission cost, in seconds, and how many calls its score is made of."""

    wall_s: float
    cpu_s: float
    samples: int


def measure_modes(url: str, kernelbot: KernelBot, rounds: int) -> list[Figure]:
    """Submit to both in turn, in each mode, and return what ours costs of KernelBot's."""
    with TemporaryDirectory() as folder:
        path = KERNEL.write(Path(folder))

        def ours(mode: str) -> int:
            return int(submit(url, mode, problem=WORK.name, kernel=path)["calls"])

        def theirs(mode: str) -> int:
            return count_samples(kernelbot.submit(path.read_text(), mode), mode)

        figures = []
        for run in (ours, theirs):
            run("test")
        for mode in MODES:
            pairs = [(_cost(ours, mode), _cost(theirs, mode)) for _ in range(rounds)]
            figures += compare_costs(mode, pairs)
            print(f"  {mode} ({load()})", *figures[-5:], sep="\n    ", flush=True)
    return figures


def _cost(run: Callable[[str], int], mode: str) -> Cost:
    cpu_s, began = machine_cpu_s(), time.monotonic()
    samples = run(mode)
    return Cost(time.monotonic() - began, machine_cpu_s() - cpu_s, samples)


def compare_costs(mode: str, pairs: Sequence[tuple[Cost, Cost]]) -> list[Figure]:
    """Return the figures of one mode from pairs of ours and KernelBot's."""
    ours, theirs = zip(*pairs, strict=True)
    wall_ratios = [our.wall_s / their.wall_s for our, their in pairs]
    cpu_ratios = [our.cpu_s / their.cpu_s for our, their in pairs]
    figures = [
        _seconds(f"{mode}: ours", ours),
        _seconds(f"{mode}: KernelBot", theirs),
        _ratio(f"{mode}: wall time of KernelBot's", wall_ratios),
        _ratio(f"{mode}: processor time of KernelBot's", cpu_ratios),
    ]
    if all(cost.samples for cost in (*ours, *theirs)):
        ratios = [our.wall_s / our.samples / (their.wall_s / their.samples) for our, their in pairs]
        figures.append(_ratio(f"{mode}: wall time per counted call of KernelBot's", ratios))
    return figures


def _seconds(name: str, costs: Sequence[Cost]) -> Figure:
    times = [cost.wall_s for cost in costs]
    spread = Interval(min(times), max(times))
    return Figure(name=name, measured=statistics.median(times), unit="s", interval=spread)


def _ratio(name: str, ratios: Sequence[float]) -> Figure:
    """Return the median of ratios, with the least and the most of them as its interval."""
    return Figure(
        name=name,
        measured=statistics.median(ratios),
        interval=Interval(min(ratios), max(ratios)),
        goal=at_most(1.0),
        note=NOTE,
    )


class Flow(NamedTuple):
    """Seconds from request to verdict with one client, and verdicts per second with many."""

    latency_s: float
    rate: float


async def measure_noop(url: str, kernelbot: KernelBot, *, is_smoke: bool) -> list[Figure]:
    """Submit to both with runners that return at once."""
    alone, measured_s = (ALONE_SMOKE, 1.0) if is_smoke else (ALONE, MEASURED_S)

    async def ours(client: int, source: str) -> None:
        async with Client(url) as http:
            who = f"p{client}"
            answer = await http.submit(who, source.encode(), problem=PROBLEM, gpu=GPU)
            assert answer.status == 202, answer
            number = answer.json()["submissions"][0]["number"]
            found: dict[str, Any] = {"is_over": False, "version": -1}
            while not found["is_over"]:
                path = f"/v1/submissions/{number}?after={found['version']}&wait_s=20"
                found = (await http.get(path, who)).json()
            assert found["outcome"] == "passed", found

    async def theirs(client: int, source: str) -> None:
        async with httpx.AsyncClient(base_url=kernelbot.url, timeout=END_S_MAX) as http:
            answer = await http.post(
                f"/{LEADERBOARD}/{NOOP}/leaderboard",
                files={"file": ("kernel.py", source.encode())},
                headers={"X-Popcorn-Cli-Id": f"bench{client % USERS}"},
            )
            answer.raise_for_status()
            read_result(answer.text)

    our, their = [await _flow(one, alone, measured_s) for one in (ours, theirs)]
    return [
        Figure(name="no-op runner: ours", measured=our.rate, unit="/s"),
        Figure(name="no-op runner: KernelBot", measured=their.rate, unit="/s"),
        Figure(
            name="no-op runner: submissions per second over KernelBot's",
            measured=our.rate / their.rate,
            goal=at_least(1.0),
        ),
        Figure(name="no-op runner: latency, ours", measured=1e3 * our.latency_s, unit="ms"),
        Figure(name="no-op runner: latency, KernelBot", measured=1e3 * their.latency_s, unit="ms"),
        Figure(
            name="no-op runner: latency of KernelBot's",
            measured=our.latency_s / their.latency_s,
            goal=at_most(1.0),
        ),
    ]


async def _flow(submit_one: Submit, alone: int, measured_s: float) -> Flow:
    latencies = []
    for number in range(alone):
        began = time.perf_counter()
        await submit_one(0, f"TURN = 'alone {number} {began}'\n{SOURCE}")
        latencies.append(time.perf_counter() - began)
    began, ends = time.perf_counter(), 0

    async def work(client: int) -> None:
        nonlocal ends
        while (now := time.perf_counter()) - began < measured_s:
            await submit_one(client, f"TURN = '{client} {now}'\n{SOURCE}")
            ends += 1

    await asyncio.gather(*(work(client) for client in range(CLIENTS)))
    return Flow(statistics.median(latencies), ends / (time.perf_counter() - began))


def main() -> None:
    """Measure both, or say why not."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="each mode once")
    is_smoke = parser.parse_args().smoke
    installation = find_kernelbot()
    if isinstance(installation, str):
        print(f"skipped: {installation}")
        report([])
        return
    rounds = ROUNDS_SMOKE if is_smoke else ROUNDS
    with running_kernelbot(installation) as kernelbot, running_platform(AGENTS) as platform:
        platform.publish(WORK)
        figures = measure_modes(platform.url, kernelbot, rounds)
        figures += asyncio.run(measure_noop(platform.url, kernelbot, is_smoke=is_smoke))
    report(figures)


if __name__ == "__main__":
    main()
