"""A simulated policy, a fifth of whose kernels cheat, while processes are killed at random.

Beside it a person submits, one kernel after the other, and the memory of every service is watched.
WARPBOARD_ENDURANCE_ITEMS sets how many kernels it writes, WARPBOARD_ENDURANCE_SEED which ones.
"""

import asyncio
import logging
import os
import random
import threading
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.entry import isolation
from harness.vocabulary import PASSED
from shared.api.evaluations import EvaluationItem, EvaluationRequest, EvaluationResult
from shared.endings import AGENTS_LOST
from shared.events import EvaluationFinished, JobFinished, JobRequeued
from tests.cheats.corpus import HERE, SUBMISSIONS, Cheat, cheat
from tests.support.people import HONEST, Person, add_problem
from tests.support.platform import Running
from tests.system.test_kills import PROCESSES, kill, witness
from warpboard.api import Caller, open_api
from warpboard.service.evaluations import batch_key, evaluate_batch

log = logging.getLogger(__name__)
ITEMS = int(os.environ.get("WARPBOARD_ENDURANCE_ITEMS", "96"))
SEED = int(os.environ.get("WARPBOARD_ENDURANCE_SEED", "1"))
BATCH = 64
KILL_EVERY_S = 20.0
SAMPLE_EVERY_S = 1.0
FOLLOW_S_MAX = 120
# A service of the second half may need this much more than in the first one.
GROWTH_MAX, GROWTH_KIB = 1.25, 65_536
PROBLEM = "triangles"
RIGHT = """import torch


def custom_kernel(data):
    left, right, out = data
    return torch.matmul(left, right, out=out)
"""
TASK = """
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "task.py", source: "task.py"}
  - {name: "reference.py", source: "reference.py"}
lang: "py"
config: {main: "eval.py"}
description: "The product of two triangular matrices."
tests: [{size: 32, seed: 7}, {size: 64, seed: 7}]
benchmarks: [{size: 256, seed: 7}]
test_timeout: 10
ranking_by: "geom"
gpus: ["CPU"]
"""
# Cheats that run until a limit are drawn this often for each other one: they take up to 10 s.
SLOW_WEIGHT = 0.05
SLOW_VERDICTS = {"timed_out", "out_of_memory"}
# Words of a header that ask for what an evaluation of this problem does not have.
UNAVAILABLE = {
    "forbid": "it needs a problem with forbidden shortcuts",
    "problem": "it attacks another problem",
    "key_reversed": "it needs a known key of its run",
}


def reason_not_drawn(one: Cheat) -> str:
    """Return why the policy does not write a cheat; "" if it does."""
    if one.name.startswith("gpu_"):
        return "it needs a GPU"
    if one.id == "control" and PASSED in one.verdicts:
        return "it does not cheat"
    if one.mode != "test":
        return f"it cheats in mode {one.mode} only"
    return next((reason for word, reason in UNAVAILABLE.items() if word in one.header), "")


CHEATS = [one for one in map(cheat, sorted(SUBMISSIONS.glob("*.py"))) if not reason_not_drawn(one)]


def test_each_cheat_is_drawn_or_has_a_reason_not_to_be() -> None:
    names = {path.stem for path in SUBMISSIONS.glob("*.py")}
    reasons = Counter(reason_not_drawn(cheat(path)) for path in SUBMISSIONS.glob("*.py"))
    assert reasons.pop("") == len(CHEATS) > 60
    assert {one.name for one in CHEATS} < names
    assert set(UNAVAILABLE.values()) < set(reasons), "a reason holds for no cheat"


def is_slow(one: Cheat) -> bool:
    """Whether a cheat may run until a limit."""
    return one.is_long or "alone" in one.header or not SLOW_VERDICTS.isdisjoint(one.verdicts)


def write_kernels() -> list[EvaluationItem]:
    """Write what the policy emits; the id begins with the name of a cheat, or with `right`."""
    dice = random.Random(SEED)
    level = isolation().level
    cheats = [one for one in CHEATS if one.holds_at(level, "zygote")]
    weights = [SLOW_WEIGHT if is_slow(one) else 1.0 for one in cheats]
    kernels = []
    for number in range(ITEMS):
        name, source = "right", RIGHT
        if dice.random() < 0.2:
            (one,) = dice.choices(cheats, weights)
            name, source = one.name, one.path.read_text()
        text = f"{source}\nNUMBER = {number}\n"
        kernels.append(EvaluationItem(id=f"{name}-{number}", source=text))
    return kernels


def publish(platform: Running, folder: Path) -> None:
    """Publish the problem that cheats are written for."""
    problem = folder / PROBLEM
    problem.mkdir()
    for path in (HERE / "problem" / PROBLEM).glob("*.py"):
        (problem / path.name).write_bytes(path.read_bytes())
    (problem / "task.yml").write_text(TASK)
    (problem / "warpboard.yml").write_text("budget_s: {build: 10}\n")
    add_problem(platform.url, problem)


async def kill_processes(platform: Running, killed: Counter[str]) -> None:
    """Kill a random process again and again; the platform starts each again."""
    dice = random.Random(SEED)
    while True:
        await asyncio.sleep(KILL_EVERY_S)
        name = dice.choice(PROCESSES)
        killed[name] += 1
        kill(platform, name)


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


async def evaluate(platform: Running) -> AsyncIterator[EvaluationResult]:
    """Evaluate all kernels as a trainer would, and yield their results."""
    kernels = write_kernels()
    async with open_api(platform.url, Caller("policy")) as api:
        for start in range(0, ITEMS, BATCH):
            request = EvaluationRequest(
                problem=PROBLEM, gpu="CPU", items=kernels[start : start + BATCH]
            )
            async for result in evaluate_batch(api, request, batch_key(request)):
                yield result


async def count_in_log(platform: Running) -> tuple[int, Counter[str]]:
    """Return how many verdicts the log has, and how often each evaluation ended in it."""
    verdicts, ends, batches = 0, Counter[str](), -(-ITEMS // BATCH)
    async with witness(platform) as observer, asyncio.timeout(FOLLOW_S_MAX):
        while len(ends) < batches:
            for event in await observer.feed.take():
                fact = event.fact
                if isinstance(fact, EvaluationFinished):
                    ends[event.envelope.corr] += 1
                elif isinstance(fact, JobFinished | JobRequeued) and fact.result is not None:
                    verdicts += len(fact.result.verdicts)
    return verdicts, ends


def unlike_promised(results: list[EvaluationResult]) -> list[str]:
    """Return the results that are not as the cheat's header promises, or not passed if right.

    A kernel that was alone on an agent when it died, twice, is not run a third time.
    """
    promised = {one.name: one.verdicts for one in CHEATS} | {"right": [PASSED]}
    return [
        f"{result.id}: {result.outcome} {result.verdict} {result.reason}"
        for result in results
        if result.verdict not in promised[result.id.rpartition("-")[0]]
        and result.failure_code != AGENTS_LOST
    ]


@pytest.mark.platform
@pytest.mark.long
@pytest.mark.timeout(7200)
# nats-py drops a half-open socket unclosed when its server is killed.
@pytest.mark.filterwarnings("ignore:.*StreamWriter:pytest.PytestUnraisableExceptionWarning")
async def test_no_kernel_is_lost_or_judged_twice_and_no_cheat_passes(
    platform_to_kill: Running, tmp_path: Path
) -> None:
    publish(platform_to_kill, tmp_path)
    is_over = threading.Event()
    killed = Counter[str]()
    killing = asyncio.create_task(kill_processes(platform_to_kill, killed))
    sampling = asyncio.create_task(sample_memory(platform_to_kill))
    submitting = asyncio.create_task(asyncio.to_thread(submit_until, platform_to_kill, is_over))
    results = list[EvaluationResult]()
    try:
        async for result in evaluate(platform_to_kill):
            results.append(result)
            if unlike := unlike_promised([result]):
                log.warning("unlike its header: %s", unlike)
            if not len(results) % BATCH:
                log.info("%s of %s evaluated", len(results), ITEMS)
    finally:
        is_over.set()
        killing.cancel()
        ended = await submitting
        sampling.cancel()
        samples = await sampling
        await asyncio.gather(killing, return_exceptions=True)
        log.info("%s of %s evaluated: %s", len(results), ITEMS, Counter(r.verdict for r in results))
        log.info("ranked: %s", Counter(one["outcome"] for one in ended))
        log.info("KiB by half: %s", {name: halves(sizes) for name, sizes in samples.items()})
    assert sorted(result.id for result in results) == sorted(it.id for it in write_kernels())
    assert not unlike_promised(results)
    verdicts, ends = await count_in_log(platform_to_kill)
    assert verdicts == ITEMS
    assert set(ends.values()) == {1}
    assert ended
    lost = [result.id for result in results if result.failure_code == AGENTS_LOST]
    lost += [str(one["number"]) for one in ended if one["code"] == AGENTS_LOST]
    # Each death ends the runs of both slots.
    assert len(lost) <= killed["gpu-agent"], (lost, killed)
    assert {one["outcome"] for one in ended if one["code"] != AGENTS_LOST} == {"passed"}
    for name, sizes in samples.items():
        first, second = halves(sizes)
        assert second <= GROWTH_MAX * first + GROWTH_KIB, f"{name} grows"


def halves(sizes: list[int]) -> tuple[int, int]:
    """Return the largest value of each half."""
    middle = len(sizes) // 2
    return max(sizes[:middle], default=0), max(sizes[middle:], default=0)
