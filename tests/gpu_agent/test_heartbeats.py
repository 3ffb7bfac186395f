"""What the log says anyway costs no heartbeats."""

import asyncio
import random

import msgspec
import pytest
from bench.noop_agent import NoopRuns

from shared.testing import eventually
from tests.gpu_agent.world import HONEST, World, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNS = 20


async def test_runs_that_are_over_at_once_cost_no_heartbeats_and_turn_no_order_down(
    world: World,
) -> None:
    agent = world.agent()
    agent.runs = NoopRuns(random.Random(0))
    agent.heartbeat_s = 60
    beats = world.bus.beats()
    beginning = asyncio.ensure_future(anext(beats))
    async with serving(agent):
        assert msgspec.json.decode((await beginning).value or b"{}")["is_free"]
        following = asyncio.ensure_future(anext(beats))
        for number in range(RUNS):
            await world.order(HONEST, f"r{number}")
            await world.until(f"r{number}", "RunCompleted")
        assert not following.done()
    following.cancel()


async def test_a_run_that_lasts_is_told_and_so_is_its_end(world: World) -> None:
    agent = world.agent()
    agent.runs = NoopRuns(random.Random(0), 2.0, 2.0)
    agent.heartbeat_s = 60

    async def is_said(run: str | None) -> bool:
        said = msgspec.json.decode(world.heard.get("a1") or b"{}")
        return bool(said.get("run", "") == run and said["is_free"] == (run is None))

    async with serving(agent):
        await world.order(HONEST, "r1")
        await eventually(lambda: is_said("r1"))
        await eventually(lambda: is_said(None))
