"""The run of a chunk: its items in boxes of their own, several at once, with a verdict for each."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import pytest

from gpu_agent.chunks import ChunkRun
from shared.api.evaluations import EvaluationItem
from shared.evaluations import ItemResult
from shared.events import ChunkVerdicts, RunCancelled, RunCompleted, RunFailed, RunStarted
from tests.gpu_agent.world import ENDLESS, World, serving
from tests.gpu_agent.world import HONEST as HONEST_SOURCE
from tests.support.waits import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

HONEST = HONEST_SOURCE.decode()
WRONG = "def custom_kernel(data):\n    data[1].zero_()\n    return data[1]\n"
CRASHES = "import os\n\ndef custom_kernel(data):\n    os.abort()\n"
BROKEN = "def custom_kernel(data:\n"
GREEDY = "def custom_kernel(data):\n    hoard = bytearray(1 << 40)\n    return data[1]\n"
LINGERS = ENDLESS.decode()


async def completed(world: World, run: str) -> RunCompleted:
    fact = (await world.until(run, "RunCompleted")).fact
    assert isinstance(fact, RunCompleted)
    return fact


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2])
async def test_what_one_item_does_costs_no_other(world: World, slots: int) -> None:
    world.budget_s = 2
    sources = [HONEST, WRONG, CRASHES, HONEST, BROKEN, GREEDY, LINGERS, HONEST]
    async with serving(world.agent(slots=slots)):
        await world.order_chunk("r1", sources)
        ended = await completed(world, "r1")
    results = await world.results(ended)
    assert [result.item for result in results] == list(range(len(sources)))
    assert [result.id for result in results] == [f"item {place}" for place in range(8)]
    verdicts = [result.verdict for result in results]
    assert ended.chunk == ChunkVerdicts(first=0, verdicts=verdicts)
    assert [verdicts[place] for place in (0, 3, 7)] == ["passed"] * 3
    assert "passed" not in [verdicts[place] for place in (1, 2, 4, 5, 6)]
    assert verdicts[1] == "wrong_answer"
    assert verdicts[6] == "timed_out"
    for result in results:
        assert hashlib.sha256(bytes.fromhex(result.key)).hexdigest() == result.key_commit
    assert len({result.key for result in results}) == len(sources)


async def test_a_chunk_has_the_items_that_its_order_names(world: World) -> None:
    async with serving(world.agent()):
        await world.order_chunk("r1", [WRONG, HONEST, WRONG], first=1)
        ended = await completed(world, "r1")
    results = await world.results(ended)
    assert [(result.item, result.id) for result in results] == [(1, "item 1"), (2, "item 2")]
    assert ended.chunk == ChunkVerdicts(first=1, verdicts=["passed", "wrong_answer"])
    started = (await world.history("r1"))[1].fact
    assert isinstance(started, RunStarted)
    # Each item has a key of its own.
    assert started.key_commit == ended.key == ""


async def test_a_chunk_tells_how_many_of_its_items_ended(world: World) -> None:
    async with serving(world.agent()):
        await world.order_chunk("r1", [HONEST, HONEST])
        await completed(world, "r1")
        await eventually(lambda: [item["done"] for item in world.progress] == [1, 2])
    assert {(item["stage"], item["case"], item["total"]) for item in world.progress} == {
        ("items", "", 2)
    }


async def test_a_chunk_that_is_to_stop_ends_with_the_items_that_ended(world: World) -> None:
    async with serving(world.agent()):
        await world.order_chunk("r1", [HONEST] * 100)
        await eventually(lambda: world.progress)
        await world.stop_chunk("another")
        await world.stop_chunk("r1")
        ended = await completed(world, "r1")
    assert ended.chunk is not None
    assert 0 < len(ended.chunk.verdicts) < 100
    assert len(await world.results(ended)) == len(ended.chunk.verdicts)


async def test_a_chunk_that_is_cancelled_leaves_nothing(world: World) -> None:
    async with serving(world.agent(slots=2)):
        await world.order_chunk("r1", [LINGERS, LINGERS, HONEST])
        await world.until("r1", "RunStarted")
        version = (await world.history("r1"))[-1].seq
        await world.say("r1", RunCancelled(reason="never mind"), version)
        await world.until("r1", "RunDiscarded")
        await world.order(HONEST_SOURCE, "r2")
        await world.until("r2", "RunCompleted")
    assert world.pool is not None
    assert world.pool.free_slots == 2


@pytest.mark.long
async def test_a_submission_beside_a_chunk_does_not_wait_for_its_end(world: World) -> None:
    async with serving(world.agent(slots=2)):
        await world.order_chunk("r1", [HONEST] * 60)
        await eventually(lambda: world.progress)
        await world.order(HONEST_SOURCE, "r2")
        done = [item["done"] for item in world.progress if item["stage"] == "items"][-1]
        await world.until("r2", "RunCompleted")
        assert (await world.types("r1"))[-1] == "RunStarted"
        await world.stop_chunk("r1")
        ended = await completed(world, "r1")
    assert ended.chunk is not None
    assert len(ended.chunk.verdicts) > done


async def test_a_chunk_whose_items_are_not_there_fails(world: World) -> None:
    async with serving(world.agent()):
        await world.order(HONEST_SOURCE, "r1", chunk=None)
        await world.until("r1", "RunCompleted")
        await world.order_chunk("r2", [], first=-1)
        failed = (await world.until("r2", "RunFailed")).fact
    assert isinstance(failed, RunFailed)
    assert failed.code == "platform"


Runs = Callable[[int, EvaluationItem], Awaitable[ItemResult | RunFailed]]
FAILED = RunFailed(stage="", code="device", reason="the GPU is gone")


def chunk_of(run_item: Runs, slots: int, progress: list[int], count: int = 6) -> ChunkRun:
    items = [EvaluationItem(id=str(place), source="") for place in range(count)]

    async def report(done: int) -> None:
        progress.append(done)

    return ChunkRun(items, 10, run_item, lambda: slots, lambda: False, report)


async def test_a_failure_of_the_platform_ends_a_chunk_before_its_item() -> None:
    is_cancelled, progress = asyncio.Event(), list[int]()

    async def run_item(number: int, item: EvaluationItem) -> ItemResult | RunFailed:
        if number == 13:
            try:
                await asyncio.Event().wait()
            finally:
                is_cancelled.set()
        await asyncio.sleep(0)
        return FAILED if number == 12 else ItemResult(item=number, id=item.id, verdict="passed")

    results, failure = await chunk_of(run_item, 2, progress).run()
    assert [result.item for result in results] == [10, 11]
    assert failure is FAILED
    # What ran after it has no place in the results.
    assert is_cancelled.is_set()
    assert progress[-1] == 2


async def test_no_more_items_run_at_once_than_there_are_slots() -> None:
    running, most = 0, 0

    async def run_item(number: int, item: EvaluationItem) -> ItemResult | RunFailed:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ItemResult(item=number, id=item.id, verdict="passed")

    results, failure = await chunk_of(run_item, 3, []).run()
    assert (len(results), failure, most) == (6, None, 3)
