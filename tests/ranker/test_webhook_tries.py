"""Webhooks receive events at least once with one id, and none from history."""

import json

import pytest

from ranker.postgres import SCHEMA, ReadModels
from ranker.webhooks.postgres import WebhookStore
from ranker.webhooks.sender import WAITS_S
from shared import subjects
from shared.clock import now
from shared.nats.event_log import NatsLog
from shared.postgres import CheckpointConflict, create_pool, migrate
from tests.ranker.webhook_platform import WebhookPlatform
from tests.support.lives import Life, problem, say
from tests.support.ranking import is_folded, ranking
from tests.support.receiver import DRIP, HANG, Receiver
from tests.support.waits import eventually

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]

BOARD = subjects.problem("identity")


@pytest.mark.long
async def test_what_fails_comes_again_under_one_id(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    receiver.planned["/in"] = [500, 404, 302, HANG, DRIP]
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: len(receiver.at("/in")) == 6)
        await eventually(lambda: hooked.states("h1"))
        await eventually(lambda: is_over(hooked, "h1"))
    assert len({item.json["id"] for item in receiver.at("/in")}) == 1
    assert len({item.body for item in receiver.at("/in")}) == 1
    assert not receiver.at("/elsewhere")
    assert (await hooked.deliveries("h1"))[0][:4] == (
        "problem.version_published",
        "delivered",
        6,
        204,
    )


async def is_over(hooked: WebhookPlatform, hook: str) -> bool:
    return "pending" not in await hooked.states(hook)


@pytest.mark.long
async def test_after_eight_tries_a_hook_is_off_until_a_test_is_taken(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    assert len(WAITS_S) == 7
    assert sum(WAITS_S) == 24 * 3600
    assert list(WAITS_S) == sorted(WAITS_S)
    receiver.planned["/in"] = [500] * 9
    async with hooked.telling() as counted:
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: counted.off == 1)
        notice = await eventually(lambda: hooked.notice("h1")) or ""
        assert "8 times" in notice
        assert "it answered 500" in notice
        seq = await say(hooked.log, BOARD, problem(3))
        await eventually(lambda: hooked.is_past(seq))
        await hooked.test("h1", "t1")
        await eventually(lambda: is_over(hooked, "h1"))
        assert await hooked.notice("h1") == notice
        await hooked.test("h1", "t2")
        await eventually(lambda: is_over(hooked, "h1"))
        assert await eventually(lambda: is_on(hooked, "h1"))
        await say(hooked.log, BOARD, problem(4))
        await eventually(lambda: len(receiver.at("/in")) == 11)
        await eventually(lambda: is_over(hooked, "h1"))
    deliveries = [(row[0], row[1], row[2]) for row in await hooked.deliveries("h1")]
    assert deliveries == [
        ("problem.version_published", "failed", 8),
        ("test", "failed", 1),
        ("test", "delivered", 1),
        ("problem.version_published", "delivered", 1),
    ]


async def is_on(hooked: WebhookPlatform, hook: str) -> bool:
    return await hooked.notice(hook) is None


async def test_one_that_hangs_holds_up_no_other(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    hooked.within_s = 60.0
    receiver.planned["/slow"] = [HANG] * 9
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/slow", "problem.version_published")
        await hooked.add("h2", "ada", f"{receiver.url}/fast", "problem.version_published")
        for number in range(2, 6):
            await say(hooked.log, BOARD, problem(number))
        await eventually(lambda: len(receiver.at("/fast")) == 4)
        assert len(receiver.at("/slow")) == 1


async def test_a_restart_in_the_middle_tells_it_all_the_same(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    hooked.within_s = 60.0
    receiver.planned["/in"] = [HANG]
    async with hooked.telling(lease_s=0.5):
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.at("/in"))
    await say(hooked.log, BOARD, problem(3))
    async with hooked.telling(lease_s=0.5):
        await eventually(lambda: len(receiver.at("/in")) == 3)
        await eventually(lambda: is_over(hooked, "h1"))
    first, *others = [item.json["id"] for item in receiver.at("/in")]
    assert first in others
    assert len(set(others)) == 2


async def is_ended(log: NatsLog, models: ReadModels) -> bool:
    history = await log.history(subjects.submission("s0"))
    return len(history) == 2 and await is_folded(log, models)


async def test_nothing_of_history_and_nothing_twice_is_told(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    await hooked.add("h1", "ada", f"{receiver.url}/in")
    async with ranking(hooked.log, hooked.dsn) as models:
        await hooked.finish(Life("s0"))
        await eventually(lambda: is_ended(hooked.log, models))
    async with hooked.telling():
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.requests)
    assert receiver.kinds("/in") == ["problem.version_published"]
    # The read models are folded from event 1 once more; the place of the webhooks stays.
    await hooked.ask(f"drop schema {SCHEMA} cascade")
    migrate(hooked.dsn, "ranker", SCHEMA)
    async with hooked.telling():
        await say(hooked.log, BOARD, problem(3))
        await eventually(lambda: len(receiver.requests) == 2)
    ids = [item.json["id"] for item in receiver.requests]
    assert len(set(ids)) == 2
    assert json.loads(receiver.requests[1].body)["data"]["problem_version"] == 3


async def test_another_instance_is_fenced(hooked: WebhookPlatform, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        async with create_pool(hooked.dsn, 1, 2, SCHEMA) as connections:
            rows, at = WebhookStore(connections), now()
            place = await rows.place(0, at)
            seq = await say(hooked.log, BOARD, problem(2))
            await eventually(lambda: hooked.is_past(seq))
            with pytest.raises(CheckpointConflict):
                await rows.store_deliveries(place.seq, place, [])
        await eventually(lambda: receiver.requests)
    assert len(receiver.requests) == 1
