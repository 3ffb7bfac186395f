"""What everybody reads on Discord: each thing once, whatever is killed or folded anew."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discord_edge.notifications.postgres import PostgresLedger
from discord_edge.notifications.texts import GREETING
from discord_edge.postgres import SCHEMA
from discord_sim import shapes
from discord_sim.guild import BITS
from discord_sim.simulator import Simulator
from discord_sim.state import NONCE_S
from shared.postgres import create_pool
from tests.discord.announcing import change_leaderboard, find_channel, publish_copy
from tests.discord.platform import (
    EDGE_MARKS,
    END_S,
    KERNEL,
    RANKED,
    EdgePlatform,
    newest_thread,
    wait_for_report,
)
from tests.support.waits import eventually

pytestmark = EDGE_MARKS

CLOSES = "2126-12-01T18:00:00+00:00"


def podiums(said: Callable[[str], list[Any]]) -> list[Any]:
    """The messages about a podium, of those that contain a text."""
    return [*said("A new record on"), *said("The podium changed on")]


@pytest.mark.feature("P20")
async def test_a_ranked_result_is_announced_once_despite_kills(
    announcing: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    await publish_copy(announcing, edge_sim, tmp_path / "raced")
    submissions, lobby = (
        find_channel(edge_sim, "submissions"),
        await edge_sim.add_channel("ranking"),
    )
    hugo = edge_sim.person("hugo")

    def told(sign: str) -> list[str]:
        said = [one["content"] for one in hugo.sees(submissions)]
        return [one for one in said if sign in one and "`raced`" in one]

    for count, name in enumerate(("eva", "finn"), 1):
        person = edge_sim.person(name)
        given = {"script": KERNEL, "gpu": "CPU", "leaderboard_name": "raced"}
        await person.slash(lobby, RANKED, **given)

        def is_told(count: int = count) -> bool:
            return len(told("· #")) == count

        await edge_sim.record.until(is_told, "a line", END_S)
        if name == "eva":
            await announcing.kill()
            assert (await asyncio.to_thread(announcing.running.rebuild))["is_equal"]
            await announcing.start()
    assert [[name in one for one in told("· #")] for name in ("eva", "finn")] == [
        [True, False],
        [False, True],
    ]
    assert "🥇 **eva** has rank 1 of `raced` on CPU" in told("· #")[0]
    [first] = [one for one in hugo.sees(submissions) if one["content"] == told("· #")[0]]
    await edge_sim.record.until(lambda: hugo.sees(first["id"]), "its thread", END_S)
    thread = edge_sim.guild.channels[first["id"]]
    assert thread["type"] == shapes.PUBLIC_THREAD
    assert thread["name"] == "raced · eva · CPU"
    [detail] = hugo.sees(first["id"])
    assert "score" in detail["content"]
    assert "```text\ncase" in detail["content"]

    def open_threads() -> list[Any]:
        threads = [one for one in edge_sim.guild.threads() if one["parent_id"] == lobby]
        return [one for one in threads if one["type"] == shapes.PRIVATE_THREAD]

    # Who is killed just before leaves one to Discord's own clock.
    await eventually(lambda: len(open_threads()) <= 1, END_S)
    # It may have changed twice, and ten minutes are not over. A noisy time sets no record.
    await edge_sim.record.until(lambda: podiums(told), "a podium", END_S)
    assert len(podiums(told)) == 1
    assert not any(one["mentions"] for one in hugo.sees(submissions))


async def test_lost_responses_repeat_nothing_without_nonces(
    announcing: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    await publish_copy(announcing, edge_sim, tmp_path / "forgotten")
    lines, lobby = find_channel(edge_sim, "submissions"), await edge_sim.add_channel("forgetting")
    jan = edge_sim.person("jan")
    edge_sim.nonce_s = 0
    # In the private thread where it is and the report; for everybody line, its thread, a podium.
    edge_sim.faults.lose("create_message", times=5)
    try:
        given = {"script": KERNEL, "gpu": "CPU", "leaderboard_name": "forgotten"}
        await jan.slash(lobby, RANKED, **given)
        room = await newest_thread(edge_sim, jan, lobby)
        await wait_for_report(edge_sim, jan, room)

        def said(sign: str) -> list[Any]:
            told = [one for one in jan.sees(lines) if "`forgotten`" in one["content"]]
            return [one for one in told if sign in one["content"]]

        await edge_sim.record.until(lambda: podiums(said), "a podium", END_S)
        async with create_pool(announcing.dsn, 1, 1, SCHEMA) as connections:
            ledger = PostgresLedger(connections)

            async def is_told() -> bool:
                due = await ledger.due_podium_updates(0, 0)
                return "forgotten" not in [one.problem for one in due]

            await eventually(is_told, END_S)
    finally:
        edge_sim.nonce_s = NONCE_S
    assert len(jan.sees(room)) == 2
    [line] = said("· #")
    assert len(jan.sees(line["id"])) == 1
    assert len(said("")) == 2


@pytest.mark.feature("C6")
async def test_a_problem_has_one_post_with_its_current_state(
    announcing: EdgePlatform, edge_sim: Simulator, tmp_path: Path
) -> None:
    posts = await publish_copy(announcing, edge_sim, tmp_path / "announced")
    owner = edge_sim.owner()

    def said() -> list[Any]:
        return owner.sees(posts[0]["id"])

    assert len(posts) == 1
    assert "version 1" in said()[0]["content"]
    assert len(said()[0]["mention_roles"]) == 1
    await change_leaderboard(announcing, "announced", deadline_at=CLOSES)
    await edge_sim.record.until(lambda: "Open until" in said()[0]["content"], "an edit", END_S)
    assert "The deadline is now" in said()[-1]["content"]
    await announcing.kill()
    await change_leaderboard(announcing, "announced", visibility="closed")
    await announcing.start()
    await edge_sim.record.until(
        lambda: "No longer public" in said()[0]["content"], "an edit", END_S
    )
    assert len(said()) == 3
    central = owner.threads(find_channel(edge_sim, "central"))
    assert len([one for one in central if one["name"] == "announced"]) == 1
    # Where somebody deleted it, it is made anew, and calls nobody a second time.
    await edge_sim.delete_channel(posts[0]["id"])
    await change_leaderboard(announcing, "announced", visibility="public")

    def anew() -> list[Any]:
        found = owner.threads(find_channel(edge_sim, "central"))
        return [one for one in found if one["name"] == "announced"]

    [post] = await edge_sim.record.until(anew, "a post", END_S)
    [first] = owner.sees(post["id"])
    assert "Open until" in first["content"]
    assert not first["mention_roles"]


async def test_channels_are_created_once_and_again_if_deleted(
    announcing: EdgePlatform, edge_sim: Simulator
) -> None:
    names = ("Leaderboards", "central", "general")
    before = {name: find_channel(edge_sim, name) for name in names}
    owner = edge_sim.owner()

    def greetings() -> list[Any]:
        return [one for one in owner.sees(before["general"]) if one["content"] == GREETING]

    [greeting] = await edge_sim.record.until(greetings, "a greeting", END_S)
    roles = [one["name"] for one in edge_sim.guild.roles.values()]
    bot = edge_sim.guild.roles[edge_sim.guild.bot_role]
    allowed = bot["permissions"]
    await edge_sim.delete_channel(before["central"])
    await announcing.stop()
    # As an earlier version of the bot may have sent it.
    greeting["content"] = "Welcome!"
    bot["permissions"] = str(int(allowed) & ~BITS["manage_channels"])
    try:
        await announcing.start()
        await eventually(
            lambda: "allow the bot to manage channels" in announcing.log.read_text(), END_S
        )
        doing = await edge_sim.person("ida").slash(before["general"], "ping")
        assert "Pong" in (await doing.answered())["content"]
    finally:
        edge_sim.faults.lose("create_guild_channel")
        bot["permissions"] = allowed

    async def is_set_up() -> bool:
        async with create_pool(announcing.dsn, 1, 1, SCHEMA) as connections:
            key = f"channel:{edge_sim.guild.id}:central"
            return await PostgresLedger(connections).made(key) != before["central"]

    await eventually(is_set_up, END_S)
    named = [one["id"] for one in edge_sim.guild.channels.values() if one.get("name") == "central"]
    assert len(named) == 1
    assert find_channel(edge_sim, "general") == before["general"]
    # A start updates the greeting and sends no other one, unless it was deleted.
    await edge_sim.record.until(greetings, "the greeting as it is now", END_S)
    assert greetings() == [greeting]
    del edge_sim.messages[before["general"]][greeting["id"]]
    await announcing.stop()
    names_before = sorted(str(one.get("name")) for one in edge_sim.guild.channels.values())
    complaint = "has not sent the server"
    complaints = announcing.log.read_text().count(complaint)
    # A server that Discord does not send yet gets no second channels either.
    edge_sim.gateway.is_shy = True
    try:
        await announcing.start()
        await eventually(lambda: announcing.log.read_text().count(complaint) > complaints, END_S)
    finally:
        edge_sim.gateway.is_shy = False
        await edge_sim.gateway.invalidate()
    [again] = await edge_sim.record.until(greetings, "a greeting", END_S)
    assert again["id"] != greeting["id"]
    names_after = sorted(str(one.get("name")) for one in edge_sim.guild.channels.values())
    assert names_after == names_before
    assert (
        edge_sim.guild.channels[find_channel(edge_sim, "central")]["parent_id"]
        == before["Leaderboards"]
    )
    assert [one["name"] for one in edge_sim.guild.roles.values()] == roles
    assert roles.count("Leaderboard Participant") == 1
