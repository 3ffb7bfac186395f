"""When an agent says that it is free; what the log says anyway costs no heartbeats."""

import asyncio
import os
import random
import signal

import msgspec
import pytest
from bench.noop_agent import NoopRuns

from gpu_agent.runs import HarnessRuns
from tests.gpu_agent.world import ENDLESS, HONEST, World, serving
from tests.support.waits import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

RUNS = 20


async def test_runs_that_are_over_at_once_cost_no_heartbeats_and_turn_no_order_down(
    world: World,
) -> None:
    agent = world.agent()
    agent.runs = NoopRuns(random.Random(0))
    # On a busy machine an order may take a second by itself.
    agent.heartbeat_s = agent.busy_s = 60
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

    async def is_said(*runs: str) -> bool:
        heartbeat = msgspec.json.decode(world.heard.get("a1") or b"{}")
        return bool(heartbeat.get("runs") == list(runs) and heartbeat["is_free"] == (not runs))

    async with serving(agent):
        await world.order(HONEST, "r1")
        await eventually(lambda: is_said("r1"))
        await eventually(is_said)


@pytest.mark.long
async def test_an_agent_is_free_again_once_what_died_is_replaced(world: World) -> None:
    # A pool of its own: that of all tests must not end with this agent.
    world.pool = None
    agent = world.agent()

    def is_free() -> bool:
        return bool(msgspec.json.decode(world.heard.get("a1") or b"{}").get("is_free"))

    def find_supervisor() -> int | None:
        assert isinstance(agent.runs, HarnessRuns)
        return agent.runs.pool.harnesses[0].pid if agent.runs.pool is not None else None

    async with serving(agent):
        await eventually(is_free)
        await world.order(ENDLESS, "r1")
        await world.until("r1", "RunStarted")
        killed = find_supervisor()
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        # The self-test starts it, before the failure is told.
        await eventually(lambda: find_supervisor() not in (None, killed))
        fresh = find_supervisor()
        assert fresh is not None
        os.kill(fresh, signal.SIGSTOP)
        await asyncio.sleep(10 * agent.heartbeat_s)
        was_free = is_free()
        os.kill(fresh, signal.SIGCONT)
        await world.until("r1", "RunFailed")
        await eventually(is_free)
    assert not was_free
