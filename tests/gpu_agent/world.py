"""What an agent lives in: the real harness, between a log, blobs and a bus in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from gpu_agent.domain import Demand, Machine, build_registration
from gpu_agent.runs import HarnessRuns
from gpu_agent.service import Agent, Reporter
from harness.pool import HarnessPool
from shared import subjects
from shared.api.evaluations import EvaluationItem
from shared.clock import new_id, now
from shared.evaluations import (
    RESULTS_NAME,
    SOURCES_NAME,
    ItemResult,
    encode_lines,
    read_results,
)
from shared.event_log import NewEvent, RecordedEvent
from shared.events import Chunk, ChunkStopRequested, Fact, JobAssigned, RunCompleted
from shared.signing import load_key
from shared.wire import EventMetadata, make_envelope
from tests.support.memory import MemoryBlobStore, MemoryBus, MemoryLog
from tests.support.waits import eventually
from tests.support.writers import written

REFERENCE = """
import torch

def generate_input(size, seed, world_size=1, rank=0):
    values = torch.rand(size, generator=torch.Generator().manual_seed(seed + rank))
    return values, torch.empty(size)

def ref_kernel(data):
    values, output = data
    output.copy_(values)
    return output

def check_implementation(data, output):
    return bool(torch.equal(data[0], output)), "it differs"
"""
HONEST = b"def custom_kernel(data):\n    data[1].copy_(data[0])\n    return data[1]\n"
ENDLESS = b"import time\ndef custom_kernel(data):\n    time.sleep(600)\n"


class NoMetrics:
    """Nobody watches."""

    def said(self, fact: Fact) -> None:
        """Nothing to count."""

    def lost(self) -> None:
        """Nothing to count."""

    def looked(self, *, runs: int, slots: int, is_well: bool) -> None:
        """Nothing to show."""


class World:
    """What an agent lives in."""

    def __init__(self, folder: Path, pool: HarnessPool | None) -> None:
        self.pool = pool
        self.log = MemoryLog()
        self.blobs = MemoryBlobStore()
        self.bus = MemoryBus(self.log)
        self.folder = folder
        self.heard: dict[str, bytes | None] = {}
        self.progress: list[dict[str, Any]] = []
        self.runs: list[HarnessRuns] = []
        self.fault = ""
        self.reference = REFERENCE
        self.budget_s = 30

    async def close(self) -> None:
        for runs in self.runs:
            if runs.pool is not self.pool:
                await runs.close()

    def agent(self, session: str = "s1", slots: int = 1) -> Agent:
        runs = HarnessRuns(
            self.blobs, self.folder, canary=lambda: self.fault, slots=slots, pool=self.pool
        )
        self.runs.append(runs)
        here = Machine("2", "none", "C2", [], {}, {}, slots=slots)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return Agent(
            session=session,
            reporter=Reporter("a1", self.log, load_key(self.folder / "sign_key")),
            blobs=self.blobs,
            bus=self.bus,
            runs=runs,
            metrics=NoMetrics(),
            registration=build_registration("CPU", here, Demand("none", ("C2",)), {}),
            heartbeat_s=0.2,
            drain_s=1.0,
        )

    async def problem(self, ranks: int) -> str:
        """The digest of the problem identity, on as many GPUs."""
        args = {"world_size": ranks} if ranks > 1 else {}
        reference = await self.blobs.put(self.reference.encode())
        manifest = {
            "slug": "identity",
            "title": "Identity",
            "description": "",
            "lang": "py",
            "files": {"reference.py": reference.digest},
            "submission": "submission.py",
            "tests": [{"name": "size=8 seed=1", "args": {"size": 8, "seed": 1} | args}],
            "benchmarks": [{"name": "size=8 seed=2", "args": {"size": 8, "seed": 2} | args}],
            "ranking_by": "last",
            "budgets_s": dict.fromkeys(("build", "test", "benchmark", "ranked"), self.budget_s),
            "gpus": ["CPU"],
            "templates": {},
            "source_bytes_max": 1000,
        }
        return (await self.blobs.put(json.dumps(manifest).encode())).digest

    async def order(self, source: bytes, run: str, ranks: int = 1, **other: Any) -> None:
        """Give the agent a job; `other` are fields of the order."""
        assigned = JobAssigned(
            job="j1",
            submission="sub1",
            attempt=1,
            problem="identity",
            problem_digest=await self.problem(ranks),
            source=await self.blobs.put(source),
            name="kernel.py",
            gpu="CPU",
            mode="test",
            session="s1",
            lease_until_at=now() + timedelta(seconds=30),
            deadline_at=now() + timedelta(seconds=60),
        )
        await self.say(run, msgspec.structs.replace(assigned, **other), 0)

    async def order_chunk(self, run: str, sources: Sequence[str], first: int = 0) -> None:
        """Order the sources from one on as a chunk of an evaluation that has them all."""
        items = [
            EvaluationItem(id=f"item {place}", source=source)
            for place, source in enumerate(sources)
        ]
        chunk = Chunk(evaluation="e1", first=first, count=len(items) - first)
        await self.order(encode_lines(items), run, chunk=chunk, submission="e1", name=SOURCES_NAME)

    async def results(self, completed: RunCompleted) -> Sequence[ItemResult]:
        """The results that the run of a chunk stored."""
        (artefact,) = completed.artefacts
        assert artefact.name == RESULTS_NAME
        return read_results(await self.blobs.get(artefact.blob.digest))

    async def stop_chunk(self, run: str) -> None:
        """Ask the agent to end the run of a chunk after its current items."""
        fact = ChunkStopRequested(run=run, reason="a participant waits")
        stamp = EventMetadata(new_id(), now(), "service:test", "e1", "test")
        await self.log.append(NewEvent(make_envelope(fact, subjects.stop("a1"), stamp), None))

    async def say(self, run: str, fact: Fact, expected: int | None) -> int:
        aggregate, actor = written(subjects.run("a1", run), fact)
        stamp = EventMetadata(new_id(), now(), actor, "sub1", "test")
        return await self.log.append(NewEvent(make_envelope(fact, aggregate, stamp), expected))

    async def history(self, run: str) -> list[RecordedEvent]:
        return await self.log.history(subjects.run("a1", run))

    async def types(self, run: str) -> list[str]:
        return [event.envelope.type for event in await self.history(run)]

    async def until(self, run: str, type_: str, within_s: float = 60) -> RecordedEvent:
        async def find() -> RecordedEvent | None:
            events = [event for event in await self.history(run) if event.envelope.type == type_]
            return events[0] if events else None

        events = await eventually(find, within_s=within_s)
        assert events is not None
        return events

    async def until_built(self) -> None:
        """Until an agent told that the first stage of a run is over."""
        await eventually(lambda: any(item["stages"] for item in self.progress))

    async def listen(self) -> None:
        async for beat in self.bus.beats():
            self.heard[beat.agent] = beat.value

    async def listen_to_progress(self) -> None:
        async for _, data in self.bus.hear("progress.>"):
            self.progress.append(json.loads(data))


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[asyncio.Event]:
    """The agent at work; on leaving it drains.

    If its loops end with an error, so does the block at once, whatever it waits for.
    """
    stopping, block = asyncio.Event(), asyncio.current_task()
    assert block is not None
    task = asyncio.create_task(agent.serve(stopping))

    def end_block(_: asyncio.Task[None]) -> None:
        if not stopping.is_set():
            block.cancel()

    task.add_done_callback(end_block)
    try:
        yield stopping
    except asyncio.CancelledError:
        if not task.done():
            raise
        block.uncancel()
        await task
        raise AssertionError("the agent ended by itself") from None
    finally:
        stopping.set()
        await asyncio.wait_for(task, 20)
