"""An agent with two slots has two runs at once; what happens to one of them is not the other's."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from gpu_agent.domain import has_room
from gpu_agent.runs import inspect_machine
from gpu_agent.service import Agent
from harness.pool import count_fitting_slots
from shared.errors import Refused
from shared.events import JobAssigned, RunCancelled, RunCompleted, RunFailed
from tests.gpu_agent.world import ENDLESS, HONEST, World, serving
from tests.support.examples import example_event
from tests.support.waits import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def until_all_began(world: World, *runs: str) -> None:
    for run in runs:
        await world.until(run, "RunStarted")


async def cancel(world: World, *runs: str) -> None:
    """End these runs, whatever their agent reports meanwhile."""
    for run in runs:

        async def end(run: str = run) -> bool:
            version = (await world.history(run))[-1].seq
            await world.say(run, RunCancelled(reason="enough"), version)
            return True

        await eventually(end)
        await world.until(run, "RunDiscarded")


async def hears(world: World, *runs: str, is_free: bool) -> None:
    """Wait until the newest heartbeat names these runs."""

    def look() -> bool:
        heartbeat = msgspec.json.decode(world.heard.get("a1") or b"{}")
        return heartbeat.get("runs") == list(runs) and heartbeat["is_free"] is is_free

    await eventually(look)


async def test_two_runs_go_on_at_once_and_a_third_is_turned_down(world: World) -> None:
    agent = world.agent(slots=2)
    async with serving(agent):
        await world.order(ENDLESS, "r1")
        await world.order(ENDLESS, "r2")
        await until_all_began(world, "r1", "r2")
        await hears(world, "r1", "r2", is_free=False)
        await world.order(HONEST, "r3")
        refused = (await world.until("r3", "RunFailed")).fact
        assert isinstance(refused, RunFailed)
        assert (refused.code, refused.reason) == ("busy", "the agent is busy with run r1, r2")
        await cancel(world, "r1")
        # The other run does not notice.
        await hears(world, "r2", is_free=True)
        await world.order(HONEST, "r4")
        completed = (await world.until("r4", "RunCompleted")).fact
        assert isinstance(completed, RunCompleted)
        assert completed.verdict == "passed"
        assert await world.types("r2") == ["JobAssigned", "RunStarted"]
        await cancel(world, "r2")


async def test_short_runs_beside_a_long_one_cost_no_heartbeats(world: World) -> None:
    agent = world.agent(slots=2)
    agent.heartbeat_s = 60
    async with serving(agent):
        await world.order(ENDLESS, "r1")
        await hears(world, "r1", is_free=True)
        # On a busy machine an order may take a second by itself.
        agent.busy_s = 60
        beats = world.bus.beats()
        await anext(beats)
        following = asyncio.ensure_future(anext(beats))
        for run in ("r2", "r3"):
            await world.order(HONEST, run)
            await world.until(run, "RunCompleted")
        assert not following.done()
        following.cancel()
        await cancel(world, "r1")


async def test_what_is_wrong_with_the_machine_stops_orders_and_no_run(world: World) -> None:
    agent = world.agent(slots=2)
    async with serving(agent):
        await world.order(ENDLESS, "r1")
        await until_all_began(world, "r1")
        world.fault = "it computes falsely"
        await world.order(HONEST, "r2")
        await world.until("r2", "RunCompleted")
        await eventually(lambda: is_quarantined(world))
        await world.order(HONEST, "r3")
        refused = (await world.until("r3", "RunFailed")).fact
        assert isinstance(refused, RunFailed)
        assert refused.code == "quarantine"
        assert await world.types("r1") == ["JobAssigned", "RunStarted"]
        await cancel(world, "r1")


def is_quarantined(world: World) -> bool:
    heartbeat = msgspec.json.decode(world.heard.get("a1") or b"{}")
    return bool(heartbeat["registration"]["quarantine"]) and not heartbeat["is_free"]


async def test_an_agent_that_is_stopped_hands_every_run_back(world: World) -> None:
    agent = world.agent(slots=2)
    async with serving(agent):
        for run in ("r1", "r2"):
            await world.order(ENDLESS, run)
        await until_all_began(world, "r1", "r2")
    for run in ("r1", "r2"):
        failed = (await world.history(run))[-1].fact
        assert isinstance(failed, RunFailed)
        assert failed.code == "drained"


async def test_two_runs_of_a_problem_that_is_not_fetched_yet_begin_at_once(world: World) -> None:
    agent = world.agent(slots=2)
    async with serving(agent):
        await world.order(HONEST, "r1", mode="benchmark")
        await world.order(HONEST, "r2")
        ended = [(await world.until(run, "RunCompleted")).fact for run in ("r1", "r2")]
    assert [run.verdict for run in ended if isinstance(run, RunCompleted)] == ["passed", "passed"]


async def test_an_agent_that_is_killed_leaves_none_of_its_runs(world: World) -> None:
    agent = world.agent(slots=2)
    serving_task = asyncio.create_task(agent.serve(asyncio.Event()))
    for run in ("r1", "r2"):
        await world.order(ENDLESS, run)
    await until_all_began(world, "r1", "r2")
    serving_task.cancel()
    with suppress(asyncio.CancelledError):
        await serving_task
    await end_tasks(agent)
    assert world.pool is not None
    assert world.pool.free_slots == 2


async def end_tasks(agent: Agent) -> None:
    """Cancel the runs of an agent whose loops are gone."""
    tasks = [lease.task for lease in agent.leases if lease.task is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def order(*gang: str) -> JobAssigned:
    assigned = example_event(JobAssigned)
    assert isinstance(assigned, JobAssigned)
    return msgspec.structs.replace(assigned, gang=list(gang))


async def test_a_gang_has_the_agent_whole() -> None:
    single, gang = order(), order("a1", "a2")
    assert has_room([single], 2, for_gang=False)
    assert not has_room([single, single], 2, for_gang=False)
    assert has_room([], 2, for_gang=True)
    assert not has_room([single], 2, for_gang=True)
    assert not has_room([gang], 2, for_gang=False)


@pytest.mark.long
async def test_an_agent_has_no_more_slots_than_its_memory_has_room_for() -> None:
    fitting_slots = count_fitting_slots("cpu")
    with pytest.raises(Refused, match=f"expected {fitting_slots - 1} at most"):
        inspect_machine("cpu", build_slots=fitting_slots)
