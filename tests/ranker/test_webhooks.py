"""Webhooks receive what their owners may know, signed, and nothing else."""

from datetime import timedelta
from functools import partial

import pytest
from msgspec import structs

from shared import events, subjects
from shared.clock import now
from shared.contests.definition import Phase
from tests.ranker.test_contest_standings import definition
from tests.ranker.webhook_platform import SECRET, WebhookPlatform
from tests.support.lives import BLOB, Life, problem, say
from tests.support.receiver import Receiver
from tests.support.waits import eventually

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]

BOARD = subjects.problem("identity")
CLOSED = events.LeaderboardChanged(visibility="closed", reason="r")


@pytest.mark.feature("N22")
async def test_an_end_is_told_signed_with_no_source(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    async with hooked.telling() as counted:
        await hooked.add("h1", "ada", f"{receiver.url}/in?x=1")
        await hooked.finish(Life("s1"))
        await eventually(lambda: len(receiver.requests) == 2)
        await eventually(lambda: counted.outcomes["delivered"] == 2)
    ended = next(item for item in receiver.requests if item.json["type"] == "submission.ended")
    assert ended.path == "/in?x=1"
    assert all(item.is_signed(SECRET) for item in receiver.requests)
    assert not ended.is_signed("another-secret")
    assert ended.json.keys() == {"id", "type", "at", "data"}
    assert ended.json["id"] == ended.headers["warpboard-event-id"]
    assert ended.headers["content-type"] == "application/json"
    data = ended.json["data"]
    assert (data["number"], data["outcome"], data["mode"]) == (4, "passed", "ranked")
    assert not data.keys() & {"source", "name", "file", "log", "reason", "cases"}
    ranked = next(item for item in receiver.requests if item.json["type"] == "submission.ranked")
    assert ranked.json["data"]["rank"] == 1
    assert await hooked.states("h1") == ["delivered", "delivered"]


async def test_nobody_is_told_of_others_submissions(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    async with hooked.telling():
        await hooked.add("h1", "eve", f"{receiver.url}/eve")
        await hooked.add("h2", "ada", f"{receiver.url}/ada", "submission.ended")
        await hooked.finish(Life("s1", mode="test"))
        await eventually(lambda: receiver.at("/ada"))
        await say(hooked.log, BOARD, problem(2))
        await eventually(lambda: receiver.at("/eve"))
    assert receiver.kinds("/eve") == ["problem.version_published"]
    assert receiver.kinds("/ada") == ["submission.ended"]


def has_got(receiver: Receiver, path: str, count: int) -> bool:
    return len(receiver.at(path)) == count


async def test_who_is_overtaken_is_told_once(hooked: WebhookPlatform, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/ada", "entry.overtaken")
        await hooked.add("h2", "bob", f"{receiver.url}/bob", "submission.ended")
        await hooked.finish(Life("s1", time_us=100.0))
        for count, time_us in enumerate((200.0, 50.0, 10.0), 1):
            await hooked.finish(Life(f"b{count}", "bob", time_us=time_us))
            await eventually(partial(has_got, receiver, "/bob", count))
        await eventually(lambda: receiver.at("/ada"))
    payloads = [item.json["data"] for item in receiver.at("/ada")]
    assert len(payloads) == 1
    assert (payloads[0]["score_us"], payloads[0]["by_score_us"]) == (100.0, 50.0)


async def test_nobody_is_told_of_ranks_that_a_contest_hides(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    first, *_ = definition().problems
    phase = Phase(kind="main", starts_at=now() - timedelta(hours=1), ranks="hidden")
    hiding = definition(phases=[phase], problems=[first])
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/ada", "entry.overtaken", "submission.ranked")
        await hooked.add("h2", "bob", f"{receiver.url}/bob", "submission.ranked")
        await hooked.finish(Life("s1", time_us=100.0))
        await eventually(partial(has_got, receiver, "/ada", 1))
        changed = events.LeaderboardChanged(visibility=None, reason="r", contest=hiding.slug)
        await say(hooked.log, BOARD, changed)
        published = events.ContestPublished(number=1, contest=hiding)
        await say(hooked.log, subjects.contest(hiding.slug), published)
        await hooked.finish(Life("b1", "bob", time_us=10.0))
        await eventually(partial(has_got, receiver, "/bob", 1))
    assert receiver.kinds("/ada") == ["submission.ranked"]
    assert receiver.at("/ada")[0].json["data"]["rank"] == 1
    assert receiver.at("/bob")[0].json["data"]["rank"] is None


async def test_boards_and_holds_are_told(hooked: WebhookPlatform, receiver: Receiver) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in")
        await hooked.finish(Life("s1"))
        await eventually(lambda: len(receiver.requests) == 2)
        held = events.SubmissionHeld(rule="r", reason="secret matter")
        await say(hooked.log, subjects.moderation("s1"), held)
        await say(hooked.log, subjects.moderation("s1"), events.SubmissionReleased(reason="r"))
        new = problem(1)
        await say(hooked.log, subjects.problem("softmax"), new)
        soon = now() + timedelta(seconds=3)
        moved = events.LeaderboardChanged(
            visibility=None, reason="r", has_deadline=True, deadline_at=soon
        )
        await say(hooked.log, BOARD, moved)
        await say(hooked.log, subjects.problem("softmax"), events.LeaderboardArchived(reason="r"))
        await eventually(lambda: len(receiver.requests) >= 8)
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
    assert "secret matter" not in str(receiver.requests)


async def test_a_closed_board_is_told_to_members_alone(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    async with hooked.telling():
        for account in ("ada", "bob", "cyd"):
            await hooked.add(f"h-{account}", account, f"{receiver.url}/{account}")
        invite = events.InviteIssued(code_hash="c", problems=["identity"], expires_at=None)
        for invite_id, account in (("i1", "ada"), ("i2", "cyd")):
            await say(hooked.log, subjects.invite(invite_id), invite)
            await say(
                hooked.log, subjects.invite(invite_id), events.InviteRedeemed(account=account)
            )
        await say(hooked.log, BOARD, CLOSED)
        await say(hooked.log, subjects.invite("i2"), events.InviteRevoked(reason="r"))
        await say(hooked.log, BOARD, problem(2))
        await say(hooked.log, subjects.problem("softmax"), problem(1))
        for account in ("ada", "bob", "cyd"):
            await eventually(partial(is_told, receiver, f"/{account}", "problem.opened"))
    assert sorted(receiver.kinds("/ada")) == ["problem.opened", "problem.version_published"]
    assert receiver.kinds("/bob") == receiver.kinds("/cyd") == ["problem.opened"]


def is_told(receiver: Receiver, path: str, kind: str) -> bool:
    return kind in receiver.kinds(path)


async def test_a_banned_owner_and_a_removed_hook_are_told_nothing(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    # What is sent in vain is put off, so that the ban and the removal come in between.
    async with hooked.telling() as counted:
        receiver.planned["/ban"] = [503] * 3
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


async def test_a_hook_is_told_of_its_own_problems_alone(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/one", problems=["softmax"])
        await hooked.add("h2", "ada", f"{receiver.url}/all")
        await say(hooked.log, BOARD, problem(2))
        await say(hooked.log, subjects.problem("softmax"), problem(1))
        await eventually(lambda: len(receiver.requests) == 3)
    assert receiver.kinds("/one") == ["problem.opened"]


async def test_a_rejudge_that_counts_is_told_and_a_retime_is_not(
    hooked: WebhookPlatform, receiver: Receiver
) -> None:
    item = events.RejudgeItem(submission="s1", account="ada", gpu="CPU", source=BLOB, name="k.py")
    request = events.RejudgeRequested(
        problem="identity",
        from_number=1,
        to_number=2,
        to_digest="d",
        select="all",
        reason="r",
        items=[item],
    )
    async with hooked.telling():
        await hooked.add("h1", "ada", f"{receiver.url}/in", "rejudge.applied")
        retime = structs.replace(request, to_number=1)
        await say(hooked.log, subjects.rejudge("again"), retime)
        await say(hooked.log, subjects.rejudge("again"), events.RejudgeApplied(reason="r"))
        await say(hooked.log, subjects.rejudge("r1"), request)
        await say(hooked.log, subjects.rejudge("r1"), events.RejudgeApplied(reason="r"))
        await eventually(lambda: receiver.requests)
    data = receiver.requests[0].json["data"]
    assert (data["rejudge"], data["problem"], data["to_version"]) == ("r1", "identity", 2)
    assert "k.py" not in str(receiver.requests)
