"""An agent with the real harness, between a log, blobs and a bus in memory."""

import asyncio
import gzip
import hashlib
import json
import time
from math import inf
from types import SimpleNamespace

import pytest

from gpu_agent import runs
from gpu_agent.runs import run_canary
from gpu_agent.service import Agent
from harness.entry import code, environment
from shared.errors import Failed
from shared.events import HARNESS_CODE, RunCancelled, RunCompleted, RunFailed
from shared.tracing import Span, assignment_key, run_key
from tests.gpu_agent.world import ENDLESS, HONEST, World, serving
from tests.support.waits import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_test_does_not_wait_for_an_agent_whose_loops_ended(world: World) -> None:
    agent = world.agent()
    agent.heartbeat_s = None  # type: ignore[assignment]
    with pytest.raises(TypeError, match="unsupported operand"):
        async with serving(agent):
            await world.until("r1", "RunCompleted")


async def test_an_order_is_run_to_its_verdict(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r1")
        ended = (await world.until("r1", "RunCompleted")).fact
    assert isinstance(ended, RunCompleted)
    assert ended.verdict == "passed"
    assert await world.types("r1") == ["JobAssigned", "RunStarted", "RunCompleted"]
    assert [(stage.stage, stage.verdict) for stage in ended.stages] == [
        ("build", "passed"),
        ("check", "passed"),
    ]


class Recorder:
    """Takes the spans of an agent, and notes how many runs it had when it exported them."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.spans: list[Span] = []
        self.runs_at_export: list[int] = []

    def record(self, span: Span) -> None:
        self.spans.append(span)

    def export_soon(self) -> None:
        self.runs_at_export.append(len(self.agent.leases))


async def test_a_run_is_recorded_once_it_is_over_and_exported_when_no_other_goes_on(
    world: World,
) -> None:
    agent = world.agent(slots=2)
    agent.spans = recorder = Recorder(agent)
    async with serving(agent):
        await world.order(ENDLESS, "r1")
        await world.until("r1", "RunStarted")
        await world.order(HONEST, "r2")
        await world.until("r2", "RunCompleted")
        await eventually(lambda: {span.key for span in recorder.spans} >= {run_key("r2")})
        await eventually(lambda: [lease.run for lease in agent.leases] == ["r1"])
        assert recorder.runs_at_export == []
        await world.say("r1", RunCancelled(reason="enough"), (await world.history("r1"))[-1].seq)
        await eventually(lambda: bool(recorder.runs_at_export))
    assert set(recorder.runs_at_export) == {0}
    by_key = {span.key: span for span in recorder.spans}
    run, lost = by_key[run_key("r2")], by_key[run_key("r1")]
    assert (run.parent, run.attributes["warpboard.end"], run.error) == (
        assignment_key("r2"),
        "passed",
        "",
    )
    assert lost.error == "enough"
    children = [span for span in recorder.spans if span.parent == run.key]
    assert [span.name for span in children] == ["stage build", "stage check", "store and report"]
    for span in children:
        assert run.began_ns <= span.began_ns <= span.ended_ns <= run.ended_ns


async def test_the_key_of_a_run_opens_its_commitment(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r1")
        ended = (await world.until("r1", "RunCompleted")).fact
        started = (await world.until("r1", "RunStarted")).fact
    assert isinstance(ended, RunCompleted)
    commit = hashlib.sha256(bytes.fromhex(ended.key)).hexdigest()
    assert getattr(started, "key_commit", None) == commit


async def test_an_order_for_an_earlier_process_is_void(world: World) -> None:
    async with serving(world.agent(session="s2")):
        await world.order(HONEST, "r1", session="s1")
        await world.order(HONEST, "r2", session="s2")
        await world.until("r2", "RunCompleted")
    assert await world.types("r1") == ["JobAssigned"]


async def test_an_agent_that_is_stopped_hands_its_run_back(world: World) -> None:
    async with serving(world.agent()):
        await world.order(ENDLESS, "r1")
        await world.until_built()
    failed = (await world.until("r1", "RunFailed")).fact
    assert isinstance(failed, RunFailed)
    assert failed.code == "drained"
    assert [(stage.stage, stage.verdict) for stage in failed.stages] == [("build", "passed")]


async def test_a_missing_source_is_the_platforms_failure(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST, "r1", problem_digest="0" * 64)
        failed = (await world.until("r1", "RunFailed")).fact
    assert isinstance(failed, RunFailed)
    assert failed.code == "platform"


async def test_an_agent_says_when_it_is_free_and_when_it_goes(world: World) -> None:

    def is_free(value: bool) -> bool:
        heartbeat = world.heard.get("a1")
        return heartbeat is not None and json.loads(heartbeat)["is_free"] is value

    async with serving(world.agent()):
        await eventually(lambda: is_free(True), within_s=30)
        await world.order(ENDLESS, "r1")
        await eventually(lambda: is_free(False), within_s=30)
        await world.until("r1", "RunStarted")
    await eventually(lambda: "a1" in world.heard and world.heard["a1"] is None)


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
    world.pool = None  # It is to be the agent's own.
    async with serving(world.agent()):
        for run in ("r1", "r2"):
            await world.order(HONEST, run)
            await world.until(run, "RunCompleted")
    (runs,) = world.runs
    assert runs.pool is not None


async def test_a_machine_that_is_not_well_takes_no_more_orders(world: World) -> None:

    def is_quarantined() -> bool:
        heartbeat = json.loads(world.heard.get("a1") or b"{}")
        reason = heartbeat.get("registration", {}).get("quarantine")
        return reason == "a process is left" and heartbeat["is_free"] is False

    async with serving(world.agent()):
        world.fault = "a process is left"
        await world.order(HONEST, "r1")
        await world.until("r1", "RunCompleted")
        await eventually(is_quarantined)
        await world.order(HONEST, "r2")
        failed = (await world.until("r2", "RunFailed")).fact
    assert isinstance(failed, RunFailed)
    assert (failed.code, failed.reason) == (
        "quarantine",
        "the agent is in quarantine: a process is left",
    )
    assert await world.types("r2") == ["JobAssigned", "RunFailed"]


async def test_a_verdict_names_the_harness_code_that_everybody_can_fetch(world: World) -> None:
    agent, named = world.agent(), environment()[HARNESS_CODE]
    await world.runs[0].keep_code(named)
    async with serving(agent):
        await world.order(HONEST, "r1")
        ended = (await world.until("r1", "RunCompleted")).fact
    assert isinstance(ended, RunCompleted)
    assert ended.environment[HARNESS_CODE] == named
    assert await world.blobs.get(named) == code()


async def test_no_run_is_by_another_harness_code_than_the_registered_one(world: World) -> None:
    agent = world.agent()
    with pytest.raises(Failed, match="start it again"):
        await world.runs[0].keep_code("0" * 64)
    world.runs[0].code = "0" * 64
    async with serving(agent):
        await world.order(HONEST, "r1")
        failed = (await world.until("r1", "RunFailed")).fact
        await eventually(lambda: bool(agent.registration.quarantine))
    assert isinstance(failed, RunFailed)
    assert failed.code == "platform"
    assert "harness code was changed" in failed.reason
    assert "start it again" in agent.registration.quarantine
    assert await world.types("r1") == ["JobAssigned", "RunFailed"]


class CountingCanary:
    """A canary that is well, and counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return ""


async def test_a_canary_is_asked_again_after_a_while(world: World) -> None:
    world.agent()
    (runs,), canary = world.runs, CountingCanary()
    runs.canary = canary
    for _ in range(3):
        assert await runs.health() == ""
    assert canary.count == 1
    runs.canary_every_s, runs.well_until = 0.0, -inf
    for _ in range(3):
        await runs.health()
    assert canary.count == 4


async def test_a_canary_is_asked_after_each_run_that_failed(world: World) -> None:
    world.reference = "raise OSError"
    canary = CountingCanary()
    async with serving(world.agent()):
        world.runs[0].canary = canary
        for run in ("r1", "r2"):
            await world.order(HONEST, run)
            await world.until(run, "RunFailed")
        await eventually(lambda: canary.count == 2)


async def test_a_canary_on_a_healthy_machine_is_well() -> None:
    assert run_canary() == ""


@pytest.mark.long
async def test_a_machine_that_is_merely_busy_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept:
        """A digest whose processor is with others most of the time."""

        def __init__(self) -> None:
            self._digest = hashlib.sha256()
            self.hexdigest = self._digest.hexdigest

        def update(self, block: bytes) -> None:
            time.sleep(0.05)
            self._digest.update(block)

    monkeypatch.setattr(runs, "CANARY_S_MAX", 2.0)
    monkeypatch.setattr(runs, "hashlib", SimpleNamespace(sha256=Kept))
    began = time.monotonic()
    assert run_canary() == ""
    assert time.monotonic() - began > runs.CANARY_S_MAX


async def test_a_machine_that_computes_slowly_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CANARY_S_MAX", 0.0)
    assert run_canary().startswith("the canary took")
    assert run_canary().endswith("s of processor, over 0 s")


async def test_an_agent_for_one_job_runs_it_and_leaves(world: World) -> None:
    agent = world.agent()
    await world.order(HONEST, "r1")
    await world.order(HONEST, "r2")
    async with asyncio.timeout(60):
        await agent.serve_once(asyncio.Event(), wait_s=30)
    assert agent.has_verdict
    assert await world.types("r1") == ["JobAssigned", "RunStarted", "RunCompleted"]
    assert "RunCompleted" not in await world.types("r2")
    await eventually(lambda: "a1" in world.heard and world.heard["a1"] is None)


async def test_an_agent_for_one_job_leaves_if_none_comes(world: World) -> None:
    agent = world.agent()
    async with asyncio.timeout(30):
        await agent.serve_once(asyncio.Event(), wait_s=0.1)
    assert not agent.has_order.is_set()
    await eventually(lambda: "a1" in world.heard and world.heard["a1"] is None)


async def test_an_agent_for_one_job_reports_no_verdict_of_a_lost_lease(world: World) -> None:
    agent = world.agent()
    await world.order(ENDLESS, "r1")
    serving_once = asyncio.create_task(agent.serve_once(asyncio.Event(), wait_s=30))
    await world.until_built()
    await world.say("r1", RunCancelled(reason="a test"), None)
    async with asyncio.timeout(30):
        await serving_once
    assert agent.has_order.is_set()
    assert not agent.has_verdict
