"""A simulated policy, a fifth of whose kernels cheat, while services are killed at random.

Beside it a person submits, one kernel after the other, and the memory of every service is watched.
WARPBOARD_ENDURANCE_ITEMS sets how many kernels it writes, WARPBOARD_ENDURANCE_SEED which ones.
"""

import asyncio
import os
import random
import signal
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shared.api.evaluations import EvaluationItemRequest, EvaluationRequest, EvaluationResult
from tests.cheats.corpus import SUBMISSIONS
from tests.support.people import HONEST, Person
from tests.support.platform import Running
from warpboard.api import Caller, open_api
from warpboard.service.evaluations import batch_key, evaluate_batch

ITEMS = int(os.environ.get("WARPBOARD_ENDURANCE_ITEMS", "96"))
SEED = int(os.environ.get("WARPBOARD_ENDURANCE_SEED", "1"))
BATCH = 64
KILLED = ("ingest", "scheduler", "ranker", "gpu-agent")
KILL_EVERY_S = 20.0
SAMPLE_EVERY_S = 1.0
# A service of the second half may need this much more than in the first one.
GROWTH_MAX, GROWTH_KIB = 1.25, 65_536
RIGHT = "def custom_kernel(data):\n    return data[1].copy_(data[0])\n"
# Cheats that attack the harness, whatever the problem is, and end at once.
CHEATS = (
    *("allclose_patched", "bad_messages", "clock_patched", "done_early", "dones_ahead"),
    *("empty_message", "exit_zero", "exit_zero_at_import", "noop", "segfault", "stats_patched"),
)


def write_kernels() -> list[EvaluationItemRequest]:
    """Write what the policy emits; the id of a cheat is its name."""
    dice = random.Random(SEED)
    kernels = []
    for number in range(ITEMS):
        is_cheat = dice.random() < 0.2
        name = dice.choice(CHEATS) if is_cheat else "right"
        source = (SUBMISSIONS / f"{name}.py").read_text() if is_cheat else RIGHT
        text = f"{source}\nNUMBER = {number}\n"
        kernels.append(EvaluationItemRequest(id=f"{name}-{number}", source=text))
    return kernels


async def kill_services(platform: Running) -> None:
    """Kill a random service again and again; the platform starts each again."""
    dice = random.Random(SEED)
    while True:
        await asyncio.sleep(KILL_EVERY_S)
        pid = platform.pid(dice.choice(KILLED))
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def resident_kib(pid: int) -> int:
    """Return the resident memory of a process. Raises OSError or StopIteration if it has ended."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def sample_memory(platform: Running) -> dict[str, list[int]]:
    """Return the resident memory of each service in KiB, once a second, until it is cancelled."""
    samples = defaultdict[str, list[int]](list)
    with suppress(asyncio.CancelledError):
        while True:
            for row in platform.state["processes"]:
                with suppress(OSError, StopIteration):
                    samples[row["name"]].append(resident_kib(row["pid"]))
            await asyncio.sleep(SAMPLE_EVERY_S)
    return samples


def submit_until(platform: Running, is_over: threading.Event) -> list[dict[str, Any]]:
    """Return how each ranked submission of a person ended, who submits until the event is set."""
    ended: list[dict[str, Any]] = []
    with Person(platform.url, "grace") as grace:
        while not is_over.is_set():
            number = grace.submit(f"{HONEST}# {len(ended)}\n", "ranked")
            ended.append(grace.end(number, within_s=240))
    return ended


async def evaluate(platform: Running) -> list[EvaluationResult]:
    """Evaluate all kernels as a trainer would."""
    kernels, results = write_kernels(), list[EvaluationResult]()
    async with open_api(platform.url, Caller("policy")) as api:
        for start in range(0, ITEMS, BATCH):
            request = EvaluationRequest(
                problem="identity", gpu="CPU", items=kernels[start : start + BATCH]
            )
            answers = evaluate_batch(api, request, batch_key(request))
            results += [result async for result in answers]
    return results


@pytest.mark.platform
@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_no_kernel_is_lost_or_judged_twice_and_no_cheat_passes(
    platform_to_kill: Running,
) -> None:
    is_over = threading.Event()
    killing = asyncio.create_task(kill_services(platform_to_kill))
    sampling = asyncio.create_task(sample_memory(platform_to_kill))
    submitting = asyncio.create_task(asyncio.to_thread(submit_until, platform_to_kill, is_over))
    try:
        results = await evaluate(platform_to_kill)
    finally:
        is_over.set()
        killing.cancel()
        ended = await submitting
        sampling.cancel()
        samples = await sampling
        await asyncio.gather(killing, return_exceptions=True)
    assert sorted(result.id for result in results) == sorted(it.id for it in write_kernels())
    assert not [result.id for result in results if result.verdict is None]
    passed = {result.id for result in results if result.verdict == "passed"}
    assert passed == {it.id for it in write_kernels() if it.id.startswith("right-")}
    assert ended
    assert {submission["outcome"] for submission in ended} == {"passed"}
    for name, sizes in samples.items():
        first, second = sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]
        assert max(second) <= GROWTH_MAX * max(first) + GROWTH_KIB, f"{name} grows"
