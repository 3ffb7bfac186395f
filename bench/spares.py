"""Runs by a harness without spares beside runs with them, in turns.

`bench.turnaround` prints it.
"""

import asyncio
import hashlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from bench.cpu_group import CpuGroup, cpu_group
from bench.figures import Figure, at_most
from harness.entry import Harness, MessageHandler, RunRequest, StageFinished, Started

# By mode. The boxes of all processes of a ranked run are spare ones, made during its check.
RUNS = {"test": 20, "ranked": 9}
RUNS_SMOKE = {"test": 3}
# While it waits, a harness makes its spares; users come less often.
PAUSE_S = 0.3
# The goals: a share of the time without spares, and milliseconds.
SHARE_MAX = 0.6
STEPS_MS_MAX = {"start": 5.0, "build": 15.0}
NOTE = "beside other processes, most of it is the wake-up of three processes"
PROBLEM = Path(__file__).parent.parent / "tests" / "harness" / "problem" / "reference.py"
KERNEL = "def custom_kernel(data):\n    data[1].copy_(data[0])\n    return data[1]\n"


class Turn(NamedTuple):
    """One run, in milliseconds: until it started, its build, all of it, and its processor time.

    The processor time includes the pause after the run, in which the next box is made.
    """

    start: float
    build: float
    whole: float
    processor: float


def write_request(folder: Path, mode: str = "test") -> RunRequest:
    """Write a problem and a kernel to a folder and return the request of a run."""
    problem, kernel, out = folder / "problem", folder / "kernel.py", folder / "out"
    problem.mkdir()
    out.mkdir()
    kernel.write_text(KERNEL)
    text = PROBLEM.read_text()
    (problem / PROBLEM.name).write_text(text)
    manifest = {
        "slug": "identity",
        "lang": "py",
        "files": {PROBLEM.name: hashlib.sha256(text.encode()).hexdigest()},
        "submission": "submission.py",
        "tests": [{"name": "size=64", "args": {"size": 64, "seed": 1}}],
        "benchmarks": [{"name": "size=64", "args": {"size": 64, "seed": 2}}],
        "ranking_by": "last",
    }
    (problem / "manifest.json").write_text(json.dumps(manifest))
    return RunRequest(str(problem), str(kernel), mode, str(out))


async def take_turn(harness: Harness, request: RunRequest, group: CpuGroup) -> Turn:
    """Make one run and wait a little."""
    marks: dict[str, float] = {}
    cpu_s, began = group.cpu_s(), time.monotonic()

    async def note(message: object) -> None:
        if isinstance(message, Started | StageFinished):
            marks.setdefault(getattr(message, "stage", "start"), time.monotonic() - began)

    handler: MessageHandler = note
    report = await harness.evaluate(request, handler)
    whole_s = time.monotonic() - began
    assert report.verdict == "passed", report.reason
    await asyncio.sleep(PAUSE_S)
    seconds = (marks["start"], marks["build"] - marks["start"], whole_s, group.cpu_s() - cpu_s)
    return Turn(*(1000 * one for one in seconds))


async def compare(mode: str, runs: int) -> tuple[list[Turn], list[Turn]]:
    """Return the runs without spares, and those with them, made in turns."""
    with tempfile.TemporaryDirectory() as folder, cpu_group() as group, group.started_here():
        request = write_request(Path(folder), mode)
        async with AsyncExitStack() as stack:
            harnesses = [
                await stack.enter_async_context(Harness(spares=spares)) for spares in (0, 1)
            ]
            for harness in harnesses:
                await take_turn(harness, request, group)
            turns: list[list[Turn]] = [[], []]
            for _ in range(runs):
                for harness, done in zip(harnesses, turns, strict=True):
                    done.append(await take_turn(harness, request, group))
    return turns[0], turns[1]


def print_beside(mode: str, without: Sequence[Turn], with_spares: Sequence[Turn]) -> list[Figure]:
    """Print the medians beside each other and return both; the goals are those of a test."""
    print(f"\na {mode} run in the harness, without and with spares, median of {len(without)}")
    figures = []
    for field in Turn._fields:
        old, new = (
            statistics.median(getattr(turn, field) for turn in turns)
            for turns in (without, with_spares)
        )
        goal_ms = SHARE_MAX * old if field == "whole" else STEPS_MS_MAX.get(field)
        goal_ms = goal_ms if mode == "test" else None
        wanted = f", at most {goal_ms:.1f} ms wanted" if goal_ms else ""
        print(f"  {field:<10} {old:7.1f} ms {new:7.1f} ms  ({new / old:.2f}{wanted})")
        goal = at_most(goal_ms) if goal_ms else None
        figures += [
            Figure(name=f"{mode} without spares: {field}", measured=old, unit="ms"),
            Figure(
                name=f"{mode} with spares: {field}", measured=new, unit="ms", goal=goal, note=NOTE
            ),
        ]
    print(f"  load {os.getloadavg()[0]:.1f}")
    return figures


def measure(*, is_smoke: bool) -> list[Figure]:
    """Compare them, print and return what was found."""
    figures = []
    for mode, runs in (RUNS_SMOKE if is_smoke else RUNS).items():
        figures += print_beside(mode, *asyncio.run(compare(mode, runs)))
    return figures
