"""Operations as Discord's document has them, and what the simulator answers held against it."""

import base64
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from discord_sim import shapes
from discord_sim.cdn import FileUpload
from discord_sim.documents import Validators
from discord_sim.operations import every_operation
from discord_sim.simulator import Simulator
from tests.discord.raw import Raw, raw

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTENT = {"content": "hello"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asking(validators: Validators) -> AsyncIterator[Raw]:
    """A client of a simulator; whatever was answered was answered by the document."""
    async with Simulator(validators) as sim, raw(sim) as client:
        yield client
        assert not sim.record.own_faults, "\n".join(sim.record.own_faults)
        assert not sim.record.violations, "\n".join(sim.record.violations)


async def test_each_operation_is_where_the_document_has_it(documents: Validators) -> None:
    assert documents.document is not None
    for one in every_operation():
        said = documents.document.operations[one.id]
        assert (said.method, said.template) == (one.method, one.template)
        security = said.definition.get("security", [])
        assert one.is_open == (not security or {} in security), one.id


async def test_a_forum_is_created_and_posted_in(asking: Raw) -> None:
    guild = asking.sim.guild
    tags = [{"name": "open"}]
    body = {"name": "central", "type": shapes.FORUM, "available_tags": tags}
    made = await asking("POST", f"/guilds/{guild.id}/channels", body)
    assert made.status == 201
    tag, forum = made.body["available_tags"][0]["id"], made.body["id"]
    post = {"name": "sort_v2", "message": CONTENT, "applied_tags": [tag]}
    begun = await asking("POST", f"/channels/{forum}/threads", post)
    assert begun.status == 201
    assert begun.body["message"]["id"] == begun.body["id"]
    assert begun.body["applied_tags"] == [tag]
    plain = await asking("POST", f"/channels/{forum}/messages", CONTENT)
    assert plain.body["code"] == 50008
    asking.sim.record.take_violations()
    changed = {"archived": True, "locked": True}
    assert (await asking("PATCH", f"/channels/{begun.body['id']}", changed)).status == 200
    again = await asking("POST", f"/channels/{begun.body['id']}/messages", CONTENT)
    assert again.body["code"] == 50083
    listed = await asking("GET", f"/channels/{forum}/threads/archived/public")
    assert [one["id"] for one in listed.body["threads"]] == [begun.body["id"]]


async def test_a_private_thread_is_for_those_in_it(asking: Raw) -> None:
    sim = asking.sim
    ada, bob = sim.person("ada"), sim.person("bob")
    channel = await sim.add_channel("submissions")
    body = {"name": "1 sort", "type": shapes.PRIVATE_THREAD, "invitable": False}
    thread = (await asking("POST", f"/channels/{channel}/threads", body)).body["id"]
    path = f"/channels/{thread}/thread-members"
    assert (await asking("PUT", f"{path}/{ada.id}")).status == 204
    await asking("POST", f"/channels/{thread}/messages", CONTENT)
    assert [one["content"] for one in ada.sees(thread)] == ["hello"]
    assert ada.threads(channel)
    assert not bob.sees(thread)
    assert not bob.threads(channel)
    assert len((await asking("GET", path)).body) == 2
    assert (await asking("DELETE", f"{path}/{ada.id}")).status == 204
    assert not ada.sees(thread)
    active = await asking("GET", f"/guilds/{sim.guild.id}/threads/active")
    assert thread in [one["id"] for one in active.body["threads"]]


async def test_messages_are_sent_changed_and_deleted(asking: Raw) -> None:
    channel = await asking.sim.add_channel("general")
    path = f"/channels/{channel}/messages"
    first = (await asking("POST", path, CONTENT)).body
    reply = CONTENT | {"message_reference": {"message_id": first["id"]}}
    second = (await asking("POST", path, reply)).body
    assert second["referenced_message"]["id"] == first["id"]
    changed = await asking("PATCH", f"{path}/{first['id']}", {"content": "other"})
    assert changed.body["content"] == "other"
    assert changed.body["edited_timestamp"]
    assert (await asking("PUT", f"{path}/pins/{first['id']}")).status == 403
    listed = (await asking("GET", f"{path}?limit=1")).body
    assert [one["id"] for one in listed] == [second["id"]]
    after = (await asking("GET", f"{path}?after={first['id']}")).body
    assert [one["id"] for one in after] == [second["id"]]
    thread = await asking("POST", f"{path}/{first['id']}/threads", {"name": "about it"})
    assert thread.body["id"] == first["id"]
    assert (await asking("GET", f"{path}/{first['id']}")).body["thread"]["name"] == "about it"
    assert (await asking("POST", f"/channels/{channel}/typing")).status == 204
    assert (await asking("DELETE", f"{path}/{second['id']}")).status == 204
    assert (await asking("GET", f"{path}/{second['id']}")).body["code"] == 10008


async def test_only_allowed_mentions_are_made(asking: Raw) -> None:
    ada, bob = asking.sim.person("ada"), asking.sim.person("bob")
    channel = await asking.sim.add_channel("general")
    text = f"{ada.mention} {bob.mention} @everyone"
    path = f"/channels/{channel}/messages"
    cases: list[tuple[dict[str, list[str]], list[str]]] = [
        ({"parse": []}, []),
        ({"parse": [], "users": [ada.id]}, [ada.id]),
        ({"parse": ["users", "everyone"]}, [ada.id, bob.id]),
    ]
    for allowed, told in cases:
        body = {"content": text, "allowed_mentions": allowed}
        message = (await asking("POST", path, body)).body
        assert [one["id"] for one in message["mentions"]] == told
        assert not message["mention_everyone"]


async def test_roles_members_and_direct_messages(asking: Raw) -> None:
    sim = asking.sim
    ada = sim.person("ada")
    roles = f"/guilds/{sim.guild.id}/roles"
    role = (await asking("POST", roles, {"name": "Leaderboard Admin", "color": 0x9B59B6})).body
    member = f"/guilds/{sim.guild.id}/members/{ada.id}"
    assert (await asking("PUT", f"{member}/roles/{role['id']}")).status == 204
    assert (await asking("GET", member)).body["roles"] == [role["id"]]
    assert (await asking("DELETE", f"{member}/roles/{role['id']}")).status == 204
    assert role in (await asking("GET", roles)).body
    assert (await asking("DELETE", f"{roles}/{role['id']}")).status == 204
    letters = (await asking("POST", "/users/@me/channels", {"recipient_id": ada.id})).body
    await asking("POST", f"/channels/{letters['id']}/messages", CONTENT)
    assert [one["content"] for one in ada.letters()] == ["hello"]
    sim.closed_doors.add(ada.id)
    refused = await asking("POST", f"/channels/{letters['id']}/messages", CONTENT)
    assert refused.body["code"] == 50007


async def test_the_bot_learns_about_itself(asking: Raw) -> None:
    sim = asking.sim
    image = base64.b64encode(b"png").decode()
    emojis = f"/applications/{sim.application_id}/emojis"
    made = await asking("POST", emojis, {"name": "h100", "image": image})
    assert made.status == 201
    assert (await asking("GET", emojis)).body["items"] == [made.body]
    for path in (
        "/users/@me",
        f"/users/{sim.guild.owner_id}",
        "/applications/@me",
        "/oauth2/applications/@me",
        "/gateway",
        "/gateway/bot",
        f"/guilds/{sim.guild.id}",
        f"/guilds/{sim.guild.id}/channels",
        f"/applications/{sim.application_id}/commands",
    ):
        assert (await asking("GET", path)).status == 200, path


async def test_an_attachment_can_be_read_for_a_day(asking: Raw) -> None:
    sim = asking.sim
    stored = sim.cdn.store(
        FileUpload("kernel.py", "text/x-python", b"x = 1"), "1", is_ephemeral=True
    )
    async with asking.http.get(stored["url"]) as answer:
        assert await answer.read() == b"x = 1"
    async with asking.http.get(stored["url"].partition("?")[0]) as answer:
        assert answer.status == 404
    sim.clock.turn(25 * 3600)
    async with asking.http.get(stored["url"]) as answer:
        assert answer.status == 404


async def test_requests_without_a_token_are_refused(asking: Raw) -> None:
    assert (await asking("GET", "/users/@me", Authorization="Bot wrong")).status == 401
    named = {"User-Agent": "curl"}
    assert (await asking("GET", "/users/@me", **named)).status == 403


async def test_a_nonce_finds_the_message_of_a_lost_response(asking: Raw) -> None:
    channel = await asking.sim.add_channel("general")
    path, body = f"/channels/{channel}/messages", CONTENT | {"nonce": "7", "enforce_nonce": True}
    asking.sim.faults.lose("create_message")
    with pytest.raises(aiohttp.ClientError):
        await asking("POST", path, body)
    again = await asking("POST", path, body)
    assert [one["id"] for one in asking.sim.owner().sees(channel)] == [again.body["id"]]
    asking.sim.clock.turn(600)
    assert (await asking("POST", path, body)).body["id"] != again.body["id"]


async def test_requests_are_rate_limited() -> None:
    async with Simulator() as sim, raw(sim) as asking:
        sim.limits.limits["create_message"] = (2, 60.0)
        channel = await sim.add_channel("general")
        path = f"/channels/{channel}/messages"
        headers = [(await asking("POST", path, CONTENT)).headers for _ in range(2)]
        assert [one["X-RateLimit-Remaining"] for one in headers] == ["1", "0"]
        refused = await asking("POST", path, CONTENT)
        assert refused.status == 429
        assert refused.headers["Via"]
        assert 0 < refused.body["retry_after"] <= 60
        sim.limits.global_max = 0
        everywhere = await asking("GET", "/users/@me")
        assert everywhere.body["global"]
        assert everywhere.headers["X-RateLimit-Scope"] == "global"
        assert sim.record.invalid() == 2


async def test_history_needs_a_permission(asking: Raw) -> None:
    sim = asking.sim
    deny = {sim.guild.bot_role: ("read_message_history",)}
    for name, denied, found in (("open", {}, 1), ("forgetful", deny, 0)):
        channel = await sim.add_channel(name, deny=denied)
        assert (await asking("POST", f"/channels/{channel}/messages", CONTENT)).status == 200
        listed = await asking("GET", f"/channels/{channel}/messages?after=0&limit=5")
        assert (listed.status, len(listed.body)) == (200, found)
