"""A lease that is over stops what it gave, at once; one at a time; a gang has one that runs."""

import json
from datetime import timedelta

import pytest

from shared.clock import now
from shared.events import (
    Fact,
    JobAssigned,
    JobExpired,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunReleased,
)
from tests.gpu_agent.world import ENDLESS, HONEST, World, serving
from tests.support.waits import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

GANG = ["a0", "a1"]
TEAM = b"""
import os
import torch.distributed as dist
dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=2)

def custom_kernel(data):
    data[1].copy_(data[0])
    return data[1]
"""


async def end(world: World, run: str, fact: Fact) -> None:
    """The scheduler ends a run, whatever its agent says meanwhile."""

    async def say() -> bool:
        version = (await world.history(run))[-1].seq
        await world.say(run, fact, version)
        return True

    await eventually(say)


async def test_a_lease_that_is_over_stops_the_run_and_its_result_is_only_noted(
    world: World,
) -> None:
    async with serving(world.agent()):
        await world.order(ENDLESS, "r1")
        await world.until_built()
        await end(world, "r1", JobExpired(reason="so", code="agent_silent"))
        await world.until("r1", "RunDiscarded")
        # Nobody is given a job before the agent is free again.
        assert await is_said_busy(world, None)
        await world.order(HONEST, "r2")
        await world.until("r2", "RunCompleted")
    assert (await world.types("r1"))[-2:] == ["JobExpired", "RunDiscarded"]


async def test_an_order_that_comes_while_a_cancelled_run_is_being_killed_is_not_turned_down(
    world: World,
) -> None:
    async with serving(world.agent()):
        await world.order(ENDLESS, "r1")
        await world.until_built()
        await end(world, "r1", RunCancelled(reason="so"))
        await world.order(HONEST, "r2")
        await world.until("r2", "RunCompleted")
    assert "RunFailed" not in await world.types("r2")


async def test_what_never_began_leaves_no_note_when_it_is_cancelled(world: World) -> None:
    await world.order(HONEST, "r1")
    await end(world, "r1", RunCancelled(reason="so"))
    async with serving(world.agent()):
        await world.order(HONEST, "r2")
        await eventually(lambda: has_an_answer(world, "r2"), within_s=30)
    assert await world.types("r1") == ["JobAssigned", "RunCancelled"]


async def test_an_order_that_finds_the_agent_busy_is_turned_down_at_once(world: World) -> None:
    async with serving(world.agent()):
        await world.order(ENDLESS, "r1")
        await world.until("r1", "RunStarted")
        await world.order(HONEST, "r2")
        failed = (await world.until("r2", "RunFailed")).fact
        assert isinstance(failed, RunFailed)
        assert (failed.code, failed.reason) == ("busy", "the agent is busy with run r1")
        await end(world, "r1", RunCancelled(reason="enough"))
        await world.until("r1", "RunDiscarded")
    assert (await world.types("r1"))[-2:] == ["RunCancelled", "RunDiscarded"]
    assert await world.types("r2") == ["JobAssigned", "RunFailed"]


async def test_the_next_order_may_come_before_the_machine_was_looked_after(world: World) -> None:
    async with serving(world.agent()):
        for run in ("r1", "r2", "r3"):
            await world.order(HONEST, run)
            await world.until(run, "RunCompleted")


async def has_an_answer(world: World, run: str) -> bool:
    """Whether the agent said that it runs an order, or that it will not."""
    return len(await world.types(run)) > 1


async def is_said_busy(world: World, run: str | None) -> bool:
    """Whether the newest heartbeat names this run, or no run and a free agent."""

    def look() -> bool:
        heartbeat = json.loads(world.heard.get("a1") or b"{}")
        runs = [] if run is None else [run]
        return heartbeat.get("runs") == runs and heartbeat["is_free"] is (run is None)

    return await eventually(look)


@pytest.mark.parametrize(
    "ending",
    [
        RunReleased(reason="so"),
        RunCancelled(reason="so"),
        JobExpired(reason="so", code="agent_silent"),
    ],
)
async def test_a_member_of_a_gang_only_keeps_itself_free_until_it_is_released(
    world: World, ending: Fact
) -> None:
    world.pool = None
    async with serving(world.agent()):
        await world.order(HONEST, "r1", gang=GANG)
        assert await is_said_busy(world, "r1")
        await world.order(HONEST, "r2")
        await world.until("r2", "RunFailed")
        await end(world, "r1", ending)
        assert await is_said_busy(world, None)
    assert await world.types("r1") == ["JobAssigned", type(ending).__name__]
    assert [runs.pool for runs in world.runs] == [None]


async def test_a_member_that_nobody_releases_is_free_after_the_deadline(world: World) -> None:
    async with serving(world.agent()):
        until = now() + timedelta(seconds=0.5)
        await world.order(HONEST, "r1", gang=GANG, deadline_at=until)
        assert await is_said_busy(world, "r1")
        assert await is_said_busy(world, None)
    assert await world.types("r1") == ["JobAssigned"]


async def test_a_member_that_is_stopped_leaves_without_a_word_on_its_run(world: World) -> None:
    agent = world.agent()
    async with serving(agent):
        await world.order(HONEST, "r1", gang=GANG)
        await eventually(lambda: agent.leases)
    assert await world.types("r1") == ["JobAssigned"]


async def test_the_first_of_a_gang_runs_every_rank(world: World) -> None:
    async with serving(world.agent()):
        await world.order(TEAM, "r1", ranks=2, gang=["a1", "a0"])
        ended = (await world.until("r1", "RunCompleted", within_s=60)).fact
        assigned = (await world.history("r1"))[0].fact
    assert isinstance(assigned, JobAssigned)
    assert isinstance(ended, RunCompleted)
    assert ended.verdict == "passed", ended.reason
