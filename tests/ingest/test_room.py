"""Room for submissions: in order, bounded, and said when there is none."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from prometheus_client import CollectorRegistry

from ingest import ranker_http
from ingest.metrics import RoomMetrics
from ingest.service.room import Bounds, Queues, Room
from shared.errors import Refused
from shared.testing import eventually
from tests.ingest.taking_in import counter
from tests.support.door import Queue


async def test_who_waits_is_let_in_in_order() -> None:
    room, came = Room(Bounds(at_once_max=2, waiting_max=50, of_one_max=52)), list[int]()

    async def one(index: int) -> None:
        async with room.place("ada"):
            came.append(index)
            assert room.under_way <= 2
            await asyncio.sleep(0)

    await asyncio.gather(*(one(index) for index in range(52)))
    assert came == sorted(came)
    assert (room.under_way, room.waiting, room.turned_away) == (0, 0, 0)


async def test_beyond_the_line_there_is_no_room() -> None:
    room = Room(Bounds(at_once_max=1, waiting_max=1))
    async with AsyncExitStack() as held:
        await held.enter_async_context(room.place("ada"))
        second = asyncio.create_task(AsyncExitStack().enter_async_context(room.place("ada")))
        await eventually(lambda: room.waiting == 1)
        with pytest.raises(Refused, match="send yours again") as refused:
            await held.enter_async_context(room.place("ada"))
        assert (refused.value.code, refused.value.retry_after_s) == ("queue_full", 2.0)
    await second
    assert (room.under_way, room.waiting, room.turned_away) == (1, 0, 1)


async def test_nobody_waits_for_ever_and_who_hangs_up_leaves_no_gap() -> None:
    room = Room(Bounds(at_once_max=1, waiting_max=5), wait_s_max=0.01)
    async with room.place("ada"):
        with pytest.raises(Refused):
            await AsyncExitStack().enter_async_context(room.place("ada"))
        gone = asyncio.create_task(AsyncExitStack().enter_async_context(room.place("ada")))
        await eventually(lambda: room.waiting == 1 or gone.done())
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    async with room.place("ada"):
        assert (room.under_way, room.waiting) == (1, 0)


async def test_nobody_fills_the_room_alone() -> None:
    room = Room(Bounds(at_once_max=4, waiting_max=4, of_one_max=2))
    async with AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(room.place("eve"))
        with pytest.raises(Refused, match="2 submissions of yours") as refused:
            await held.enter_async_context(room.place("eve"))
        assert refused.value.code == "queue_full"
        await held.enter_async_context(room.place("ada"))
    async with room.place("eve"):
        assert (room.under_way, room.turned_away) == (1, 1)


async def test_a_burst_is_taken_whole_and_what_is_beyond_leaves_nothing() -> None:
    async with counter(Bounds(at_once_max=4, waiting_max=196, of_one_max=230)) as found:
        sources = [f"x = {index}\ndef custom_kernel(data): ...\n".encode() for index in range(230)]
        ends = await asyncio.gather(
            *(found.submit(source=one) for one in sources), return_exceptions=True
        )
        refused = [one for one in ends if isinstance(one, Refused)]
        assert {one.code for one in refused} == {"queue_full"}
        assert len(refused) == found.commands.intake.room.turned_away == 30
        # An event and three blobs are the problem's own; each is sent to two GPU types.
        assert len(found.log.since(0)) == 1 + 2 * 200
        assert len([one async for one in found.blobs.kept()]) == 3 + 200


async def test_a_queue_that_is_full_takes_repeats_and_operators_alone() -> None:
    async with counter(Bounds(queued_max=7), Queue(waiting=7)) as found:
        first = await found.submit("k", vouched_by="olga")
        assert await found.refusal() == await found.refusal("other") == "queue_full"
        assert await found.submit("k") == first
        registry = CollectorRegistry()
        RoomMetrics(found.commands.intake.room, found.commands.intake.queues, registry)
        name = "warpboard_ingest_submissions_turned_away_total"
        assert registry.get_sample_value(name, {"for_want_of": "queue"}) == 2
        assert registry.get_sample_value(name, {"for_want_of": "room"}) == 0


async def test_a_queue_is_looked_at_once_for_all_who_ask() -> None:
    queue = Queue(waiting=6)
    async with counter(Bounds(queued_max=7), queue) as found:
        looks = (found.commands.intake.queues.fullness(["CPU"]) for _ in range(50))
        assert set(await asyncio.gather(*looks)) == {None}
        assert queue.asked == 1


async def test_a_queue_that_nobody_can_see_keeps_nobody_out() -> None:
    async with ranker_http.client("http://127.0.0.1:1", "k" * 16) as nobody:
        assert await Queues(ranker_http.Ranker(nobody), 1).fullness(["CPU"]) is None
