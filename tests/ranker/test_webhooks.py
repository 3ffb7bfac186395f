"""Webhooks are told what their owners may know: signed, at least once, and nothing of history."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial

import pytest

from ranker.hooks.postgres import HookRows
from ranker.hooks.sending import WAITS_S
from ranker.postgres import ReadModels
from shared import events, subjects
from shared.clock import now
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.postgres import Fenced, pool
from shared.servers.nats import NatsServer
from shared.testing import eventually
from tests.ranker.hooked import SECRET, Hooked
from tests.ranker.lives import Life, begin, problem, say
from tests.ranker.receiver import DRIP, HANG, Receiver, receiving
from tests.ranker.running import SCHEMA, is_folded, migrated, ranking

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]

BOARD = subjects.problem("identity")
CLOSED = events.LeaderboardChanged(visibility="closed", reason="r")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
async def hooked(own_nats: NatsServer, postgres_dsn: str) -> AsyncIterator[Hooked]:
    nc = await connect(own_nats.url, "test")
    await ensure(nc)
    log = NatsLog(nc)
    await begin(log)
    async with pool(migrated(postgres_dsn), 1, 3) as tables:
        yield Hooked(log, postgres_dsn, tables)
    await nc.close()


async def test_an_end_is_told_signed_with_no_source(hooked: Hooked, receiver: Receiver) -> None:
    async with hooked.telling() as counted:
        await hooked.add("h1", "ada", f"{receiver.url}/in?x=1")
        await hooked.finish(Life("s1"))
        await eventually(lambda: len(receiver.got) == 2)
        await eventually(lambda: counted.outcomes["delivered"] == 2)
    ended = next(one for one in receiver.got if one.said["type"] == "submission.ended")
    assert ended.path == "/in?x=1"
    assert all(one.is_signed(SECRET) for one in receiver.got)
    assert not ended.is_signed("another-secret")
    assert ended.said.keys() == {"id", "type", "at", "data"}
    assert ended.said["id"] == ended.headers["warpboard-event-id"]
    assert ended.headers["content-type"] == "application/json"
    data = ended.said["data"]
    assert (data["submission"], data["outcome"], data["mode"]) == (4, "passed", "ranked")
    assert not data.keys() & {"source", "name", "file", "log", "reason", "cases"}
    ranked = next(one for one in receiver.got if one.said["type"] == "submission.ranked")
    assert ranked.said["data"]["rank"] == 1
    assert await hooked.states("h1") == ["delivered", "delivered"]


async def test_nobody_is_told_of_others_submissions(hooked: Hooked, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "eve", f"{receiver.url}/eve")
        await hooked.add("h2", "ada", f"{receiver.url}/ada", "submission.ended")
        await hooked.finish(Life("s1", mode="test"))
        await eventually(lambda: receiver.at("/ada"))
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.at("/eve"))
    assert receiver.kinds("/eve") == ["problem.version_published"]
    assert receiver.kinds("/ada") == ["submission.ended"]


async def test_who_is_overtaken_is_told_once(hooked: Hooked, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/ada", "entry.overtaken")
        await hooked.add("h2", "bob", f"{receiver.url}/bob", "submission.ended")
        await hooked.finish(Life("s1", time_us=100.0))
        await hooked.finish(Life("s2", "bob", time_us=200.0))
        await hooked.finish(Life("s3", "bob", time_us=50.0))
        await hooked.finish(Life("s4", "bob", time_us=10.0))
        await eventually(lambda: len(receiver.at("/bob")) == 3, within_s=20)
        await eventually(lambda: receiver.at("/ada"))
    told = [one.said["data"] for one in receiver.at("/ada")]
    assert len(told) == 1
    assert (told[0]["score_us"], told[0]["by_score_us"]) == (100.0, 50.0)


async def test_boards_and_holds_are_told(hooked: Hooked, receiver: Receiver) -> None:
    soon = now() + timedelta(seconds=1.5)
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in")
        await hooked.finish(Life("s1"))
        await eventually(lambda: len(receiver.got) == 2)
        held = events.SubmissionHeld(rule="r", reason="secret matter")
        await say(hooked.log, subjects.moderation("s1"), held)
        await say(hooked.log, subjects.moderation("s1"), events.SubmissionReleased(reason="r"))
        new = problem(1)
        await say(hooked.log, subjects.problem("softmax"), new)
        moved = events.LeaderboardChanged(
            visibility=None, reason="r", has_deadline=True, deadline_at=soon
        )
        await say(hooked.log, BOARD, moved)
        await say(hooked.log, subjects.problem("softmax"), events.LeaderboardArchived(reason="r"))
        await eventually(lambda: len(receiver.got) >= 8, within_s=20)
    kinds = sorted(receiver.kinds("/in"))
    assert kinds == [
        "problem.closed",
        "problem.closed",
        "problem.deadline_moved",
        "problem.opened",
        "submission.ended",
        "submission.held",
        "submission.ranked",
        "submission.ranked",
    ]
    assert "secret matter" not in str(receiver.got)


async def test_a_closed_board_is_told_to_members_alone(hooked: Hooked, receiver: Receiver) -> None:
    async with hooked.telling():
        for who in ("ada", "bob", "cyd"):
            await hooked.add(f"h-{who}", who, f"{receiver.url}/{who}")
        invite = events.InviteIssued(code_hash="c", problems=["identity"], expires_at=None)
        for one, who in (("i1", "ada"), ("i2", "cyd")):
            await say(hooked.log, subjects.invite(one), invite)
            await say(hooked.log, subjects.invite(one), events.InviteRedeemed(account=who))
        await say(hooked.log, BOARD, CLOSED)
        await say(hooked.log, subjects.invite("i2"), events.InviteRevoked(reason="r"))
        await say(hooked.log, BOARD, problem(2))
        await say(hooked.log, subjects.problem("softmax"), problem(1))
        for who in ("ada", "bob", "cyd"):
            await eventually(partial(is_told, receiver, f"/{who}", "problem.opened"))
    assert sorted(receiver.kinds("/ada")) == ["problem.opened", "problem.version_published"]
    assert receiver.kinds("/bob") == receiver.kinds("/cyd") == ["problem.opened"]


def is_told(receiver: Receiver, path: str, kind: str) -> bool:
    return kind in receiver.kinds(path)


async def test_a_banned_owner_and_a_removed_hook_are_told_nothing(
    hooked: Hooked, receiver: Receiver
) -> None:
    # What is sent in vain is put off, so that the ban and the removal come in between.
    async with hooked.telling() as counted:
        receiver.meets["/ban"] = [503] * 3
        await hooked.add("h1", "ada", f"{receiver.url}/ban", "problem.version_published")
        await hooked.add("h2", "bob", f"{receiver.url}/gone", "problem.version_published")
        await hooked.add("h3", "cyd", f"{receiver.url}/cyd", "problem.version_published")
        await say(hooked.log, subjects.account("ada"), events.AccountBanned(reason="r"))
        await say(hooked.log, subjects.webhook("h2"), events.WebhookRemoved(reason="r"))
        await hooked.test("h1", "t1")
        await hooked.test("h2", "t2")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.at("/cyd"))
        await eventually(lambda: counted.outcomes["dropped"] == 2)
    assert not receiver.at("/ban")
    assert not receiver.at("/gone")
    assert (await hooked.deliveries("h1"))[0][4] == "its owner is banned"


async def test_what_fails_comes_again_under_one_id(hooked: Hooked, receiver: Receiver) -> None:
    hooked.within_s = 0.3
    receiver.meets["/in"] = [500, 404, 302, HANG, DRIP]
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: len(receiver.at("/in")) == 6, within_s=20)
        await eventually(lambda: hooked.states("h1"))
        await eventually(lambda: is_over(hooked, "h1"))
    assert len({one.said["id"] for one in receiver.at("/in")}) == 1
    assert len({one.body for one in receiver.at("/in")}) == 1
    assert not receiver.at("/elsewhere")
    assert (await hooked.deliveries("h1"))[0][:4] == (
        "problem.version_published",
        "delivered",
        6,
        204,
    )


async def is_over(hooked: Hooked, hook: str) -> bool:
    return "pending" not in await hooked.states(hook)


async def test_after_eight_tries_a_hook_is_off_until_a_test_is_taken(
    hooked: Hooked, receiver: Receiver
) -> None:
    assert len(WAITS_S) == 7
    assert sum(WAITS_S) == 24 * 3600
    assert list(WAITS_S) == sorted(WAITS_S)
    receiver.meets["/in"] = [500] * 9
    async with hooked.telling() as counted:
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: counted.off == 1, within_s=20)
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
    told = [(row[0], row[1], row[2]) for row in await hooked.deliveries("h1")]
    assert told == [
        ("problem.version_published", "failed", 8),
        ("test", "failed", 1),
        ("test", "delivered", 1),
        ("problem.version_published", "delivered", 1),
    ]


async def is_on(hooked: Hooked, hook: str) -> bool:
    return await hooked.notice(hook) is None


async def test_one_that_hangs_holds_up_no_other(hooked: Hooked, receiver: Receiver) -> None:
    hooked.within_s = 15.0
    receiver.meets["/slow"] = [HANG] * 9
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/slow", "problem.version_published")
        await hooked.add("h2", "ada", f"{receiver.url}/fast", "problem.version_published")
        for number in range(2, 6):
            await say(hooked.log, BOARD, problem(number))
        await eventually(lambda: len(receiver.at("/fast")) == 4, within_s=5)
        assert len(receiver.at("/slow")) == 1


async def test_a_restart_in_the_middle_tells_it_all_the_same(
    hooked: Hooked, receiver: Receiver
) -> None:
    hooked.within_s = 15.0
    receiver.meets["/in"] = [HANG]
    async with hooked.telling(lease_s=0.5):
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.at("/in"))
    await say(hooked.log, BOARD, problem(3))
    async with hooked.telling(lease_s=0.5):
        await eventually(lambda: len(receiver.at("/in")) == 3)
        await eventually(lambda: is_over(hooked, "h1"))
    first, *others = [one.said["id"] for one in receiver.at("/in")]
    assert first in others
    assert len(set(others)) == 2


async def is_ended(log: NatsLog, models: ReadModels) -> bool:
    history = await log.history(subjects.submission("s0"))
    return len(history) == 2 and await is_folded(log, models)


async def test_nothing_of_history_and_nothing_twice_is_told(
    hooked: Hooked, receiver: Receiver
) -> None:
    await hooked.add("h1", "ada", f"{receiver.url}/in")
    async with ranking(hooked.log, hooked.dsn) as models:
        await hooked.finish(Life("s0"))
        await eventually(lambda: is_ended(hooked.log, models))
    async with hooked.telling():
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.got)
    assert receiver.kinds("/in") == ["problem.version_published"]
    # The read models are folded from event 1 once more; the place of the webhooks stays.
    await hooked.ask("drop schema rm_ranker_v3 cascade")
    migrated(hooked.dsn)
    async with hooked.telling():
        await say(hooked.log, BOARD, problem(3))
        await eventually(lambda: len(receiver.got) == 2)
    ids = [one.said["id"] for one in receiver.got]
    assert len(set(ids)) == 2
    assert json.loads(receiver.got[1].body)["data"]["problem_version"] == 3


async def test_a_hook_is_told_of_its_own_problems_alone(hooked: Hooked, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/one", problems=["softmax"])
        await hooked.add("h2", "ada", f"{receiver.url}/all")
        await say(hooked.log, BOARD, problem(2))
        await say(hooked.log, subjects.problem("softmax"), problem(1))
        await eventually(lambda: len(receiver.got) == 3)
    assert receiver.kinds("/one") == ["problem.opened"]


async def test_another_instance_is_fenced(hooked: Hooked, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in", "problem.version_published")
        await eventually(lambda: hooked.has_place())
        async with pool(hooked.dsn, 1, 2, SCHEMA) as connections:
            rows, at = HookRows(connections), now()
            place = await rows.place(0, at)
            seq = await say(hooked.log, BOARD, problem(2))
            await eventually(lambda: hooked.is_past(seq))
            with pytest.raises(Fenced):
                await rows.tell(place.seq, place, [])
        await eventually(lambda: receiver.got)
    assert len(receiver.got) == 1
