"""An agent with the real harness, between a log, blobs and a bus in memory."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from gpu_agent.domain import Demand, Machine, registration
from gpu_agent.gpu import canary
from gpu_agent.runs import HarnessRuns
from gpu_agent.service import Agent
from shared import subjects
from shared.clock import new_id, now
from shared.event_log import New, Recorded
from shared.events import Fact, JobAssigned, JobExpired, RunCompleted, RunFailed
from shared.memory import MemoryBlobs, MemoryBus, MemoryLog
from shared.testing import eventually
from shared.wire import Stamp, seal

REFERENCE = """
import torch

def generate_input(size, seed):
    values = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    return values, torch.empty(size)

def ref_kernel(data):
    values, output = data
    output.copy_(values)
    return output

def check_implementation(data, output):
    return bool(torch.equal(data[0], output)), "it differs"
"""
HONEST = b"def custom_kernel(data):\n    data[1].copy_(data[0])\n    return data[1]\n"
ENDLESS = b"def custom_kernel(data):\n    while True:\n        pass\n"


class NoMetrics:
    """Nobody watches."""

    def ended(self, fact: Fact) -> None:
        """Nothing to count."""


class World:
    """What an agent lives in."""

    def __init__(self, folder: Path) -> None:
        self.log = MemoryLog()
        self.blobs = MemoryBlobs()
        self.bus = MemoryBus(self.log)
        self.folder = folder
        self.heard: dict[str, bytes | None] = {}
        self.runs: list[HarnessRuns] = []
        self.ailment = ""

    async def close(self) -> None:
        for runs in self.runs:
            await runs.close()

    def agent(self, session: str = "s1") -> Agent:
        runs = HarnessRuns(self.blobs, self.folder, canary=lambda: self.ailment)
        self.runs.append(runs)
        here = Machine("2", "none", "C2", [], {}, {})
        return Agent(
            name="a1",
            session=session,
            log=self.log,
            blobs=self.blobs,
            bus=self.bus,
            runs=runs,
            metrics=NoMetrics(),
            registration=registration("CPU", here, Demand("none", ("C2",)), {}),
            heartbeat_s=0.2,
            drain_s=1.0,
        )

    async def order(self, source: bytes, run: str, session: str = "s1", mode: str = "test") -> None:
        reference = await self.blobs.put(REFERENCE.encode())
        manifest = {
            "slug": "identity",
            "title": "Identity",
            "description": "",
            "lang": "py",
            "files": {"reference.py": reference.digest},
            "submission": "submission.py",
            "tests": [{"name": "size=8 seed=1", "args": {"size": 8, "seed": 1}}],
            "benchmarks": [{"name": "size=8 seed=2", "args": {"size": 8, "seed": 2}}],
            "ranking_by": "last",
            "budgets_s": {"build": 30, "test": 30, "benchmark": 30, "ranked": 30},
            "gpus": ["CPU"],
            "templates": {},
            "source_bytes_max": 1000,
        }
        blob = await self.blobs.put(json.dumps(manifest).encode())
        assigned = JobAssigned(
            job="j1",
            submission="sub1",
            attempt=1,
            problem="identity",
            problem_digest=blob.digest,
            source=await self.blobs.put(source),
            name="kernel.py",
            gpu="CPU",
            mode=mode,
            session=session,
            lease_until_at=now() + timedelta(seconds=30),
            deadline_at=now() + timedelta(seconds=60),
        )
        await self.say(run, assigned, 0)

    async def say(self, run: str, fact: Fact, expected: int | None) -> int:
        stamp = Stamp(new_id(), now(), "service:test", "sub1", "test")
        return await self.log.append(New(seal(fact, subjects.run("a1", run), stamp), expected))

    async def history(self, run: str) -> list[Recorded]:
        return await self.log.history(subjects.run("a1", run))

    async def types(self, run: str) -> list[str]:
        return [event.envelope.type for event in await self.history(run)]

    async def until(self, run: str, type_: str, within_s: float = 30) -> Recorded:
        async def find() -> Recorded | None:
            found = [event for event in await self.history(run) if event.envelope.type == type_]
            return found[0] if found else None

        found = await eventually(find, within_s=within_s)
        assert found is not None
        return found

    async def listen(self) -> None:
        async for beat in self.bus.beats():
            self.heard[beat.agent] = beat.value


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path / "agent")
    yield found
    await found.close()


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[asyncio.Event]:
    """The agent at work; on leaving it drains."""
    stopping = asyncio.Event()
    task = asyncio.create_task(agent.serve(stopping))
    try:
        yield stopping
    finally:
        stopping.set()
        await asyncio.wait_for(task, 20)


async def test_an_order_is_run_to_its_verdict(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r1")
        ended = (await world.until("r1", "RunCompleted")).fact
    assert isinstance(ended, RunCompleted)
    assert ended.verdict == "passed"
    types = await world.types("r1")
    assert types[:2] == ["JobAssigned", "RunStarted"]
    assert types[-1] == "RunCompleted"


async def test_the_key_of_a_run_opens_its_commitment(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r1")
        ended = (await world.until("r1", "RunCompleted")).fact
        started = (await world.until("r1", "RunStarted")).fact
    assert isinstance(ended, RunCompleted)
    commit = hashlib.sha256(bytes.fromhex(ended.key)).hexdigest()
    assert getattr(started, "key_commit", None) == commit


async def test_a_lease_that_is_over_stops_the_run_and_its_result_is_only_noted(
    world: World,
) -> None:
    async with serving(world.agent()):
        await world.order(ENDLESS, "r1")
        await world.until("r1", "RunStageFinished")
        version = (await world.history("r1"))[-1].seq
        await world.say("r1", JobExpired(reason="the test says so"), version)
        await world.until("r1", "RunDiscarded", within_s=4)
        await world.order(HONEST, "r2")
        await world.until("r2", "RunCompleted")
    assert "RunCompleted" not in await world.types("r1")


async def test_an_order_for_an_earlier_process_is_void(world: World) -> None:
    async with serving(world.agent(session="s2")):
        await world.order(HONEST, "r1", session="s1")
        await world.order(HONEST, "r2", session="s2")
        await world.until("r2", "RunCompleted")
    assert await world.types("r1") == ["JobAssigned"]


async def test_an_agent_that_is_stopped_hands_its_run_back(world: World) -> None:
    async with serving(world.agent()):
        await world.order(ENDLESS, "r1")
        await world.until("r1", "RunStageFinished")
    failed = (await world.until("r1", "RunFailed")).fact
    assert isinstance(failed, RunFailed)
    assert failed.code == "drained"


async def test_a_missing_source_is_the_platforms_failure(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r0")
        await world.until("r0", "RunCompleted")
        first = (await world.history("r0"))[0].fact
        assert isinstance(first, JobAssigned)
        gone = JobAssigned(
            **{name: getattr(first, name) for name in first.__struct_fields__}
            | {"problem_digest": "0" * 64}
        )
        await world.say("r1", gone, 0)
        failed = (await world.until("r1", "RunFailed")).fact
    assert isinstance(failed, RunFailed)
    assert failed.code == "platform"


async def test_an_agent_says_when_it_is_free_and_when_it_goes(world: World) -> None:
    listening = asyncio.create_task(world.listen())

    def is_free(value: bool) -> bool:
        said = world.heard.get("a1")
        return said is not None and json.loads(said)["is_free"] is value

    async with serving(world.agent()):
        await eventually(lambda: is_free(True))
        await world.order(ENDLESS, "r1")
        await eventually(lambda: is_free(False))
        await world.until("r1", "RunStarted")
    await eventually(lambda: "a1" in world.heard and world.heard["a1"] is None)
    listening.cancel()


async def test_what_a_run_left_is_kept_as_blobs(world: World) -> None:
    source = HONEST + b"\nprint('hello from the submission')\n"
    async with serving(world.agent()):
        await world.order(source, "r1", mode="benchmark")
        ended = (await world.until("r1", "RunCompleted")).fact
    assert isinstance(ended, RunCompleted)
    assert ended.log is not None
    assert b"hello from the submission" in await world.blobs.get(ended.log.digest)
    assert ended.samples is not None
    assert ended.samples.media == "application/gzip"
    assert json.loads(gzip.decompress(await world.blobs.get(ended.samples.digest)))
    assert ended.environment["torch"]


async def test_one_harness_serves_run_after_run(world: World) -> None:
    async with serving(world.agent()):
        for run in ("r1", "r2"):
            await world.order(HONEST, run)
            await world.until(run, "RunCompleted")
    (runs,) = world.runs
    assert runs.harness is not None


async def test_a_machine_that_is_not_well_takes_no_more_orders(world: World) -> None:
    listening = asyncio.create_task(world.listen())

    def is_quarantined() -> bool:
        said = json.loads(world.heard.get("a1") or b"{}")
        reason = said.get("registration", {}).get("quarantine")
        return reason == "a process is left" and said["is_free"] is False

    async with serving(world.agent()):
        world.ailment = "a process is left"
        await world.order(HONEST, "r1")
        await world.until("r1", "RunCompleted")
        await eventually(is_quarantined)
        await world.order(HONEST, "r2")
        failed = (await world.until("r2", "RunFailed")).fact
    listening.cancel()
    assert isinstance(failed, RunFailed)
    assert (failed.code, failed.reason) == (
        "quarantine",
        "the agent is in quarantine: a process is left",
    )
    assert await world.types("r2") == ["JobAssigned", "RunFailed"]


async def test_a_canary_on_a_healthy_machine_is_well() -> None:
    assert canary() == ""
