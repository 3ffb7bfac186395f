"""What everybody reads on Discord: each thing once, whatever is killed or folded anew."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from discord_edge.postgres import SCHEMA, PostgresLedger
from discord_sim import shapes
from discord_sim.parts import NONCE_S
from discord_sim.permissions import BITS
from discord_sim.simulator import Simulator
from shared.postgres import pool
from shared.testing import eventually
from tests.discord.news_desk import changed, place, published
from tests.discord.platform import END_S, KERNEL, RANKED, Whole, reported, thread_of

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]

CLOSES = "2126-12-01T18:00:00+00:00"


async def test_a_ranked_result_is_told_once_whatever_is_killed(
    telling: Whole, town: Simulator, tmp_path: Path
) -> None:
    await published(telling, town, tmp_path / "raced")
    submissions, lobby = place(town, "submissions"), await town.add_channel("ranking")
    hugo = town.person("hugo")

    def told(sign: str) -> list[str]:
        said = [one["content"] for one in hugo.sees(submissions)]
        return [one for one in said if sign in one and "`raced`" in one]

    for count, name in enumerate(("eva", "finn", "gil"), 1):
        person = town.person(name)
        given = {"script": KERNEL, "gpu": "CPU", "leaderboard_name": "raced"}
        await person.slash(lobby, RANKED, **given)

        def is_told(count: int = count) -> bool:
            return len(told("· #")) == count

        await town.record.until(is_told, "a line", END_S)
        if name == "eva":
            await telling.kill()
            await telling.start()
        if name == "finn":
            assert (await asyncio.to_thread(telling.running.rebuild))["is_equal"]
    assert [[name in one for one in told("· #")] for name in ("eva", "finn", "gil")] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
    assert "🥇 **eva** is on place 1 of `raced` on CPU" in told("· #")[0]
    [first] = [one for one in hugo.sees(submissions) if one["content"] == told("· #")[0]]
    await town.record.until(lambda: hugo.sees(first["id"]), "its thread", END_S)
    thread = town.guild.channels[first["id"]]
    assert thread["type"] == shapes.PUBLIC_THREAD
    assert thread["name"] == "raced · eva · CPU"
    [detail] = hugo.sees(first["id"])
    assert "score" in detail["content"]
    assert "```text\ncase" in detail["content"]

    def open_threads() -> list[Any]:
        threads = [one for one in town.guild.threads() if one["parent_id"] == lobby]
        return [one for one in threads if one["type"] == shapes.PRIVATE_THREAD]

    # Who is killed just before leaves one to Discord's own clock.
    await eventually(lambda: len(open_threads()) <= 1, END_S)
    # It may have changed three times, and ten minutes are not over.
    await town.record.until(lambda: told("A new record on"), "a record", END_S)
    assert len(told("A new record on")) + len(told("The podium changed")) == 1
    assert not any(one["mentions"] for one in hugo.sees(submissions))


async def test_answers_that_are_lost_repeat_nothing_though_no_nonce_is_remembered(
    telling: Whole, town: Simulator, tmp_path: Path
) -> None:
    await published(telling, town, tmp_path / "forgotten")
    lines, lobby = place(town, "submissions"), await town.add_channel("forgetting")
    jan = town.person("jan")
    town.nonce_s = 0
    # In the private thread where it is and the report; for everybody line, its thread, a podium.
    town.faults.lose("create_message", times=5)
    try:
        given = {"script": KERNEL, "gpu": "CPU", "leaderboard_name": "forgotten"}
        await jan.slash(lobby, RANKED, **given)
        room = await thread_of(town, jan, lobby)
        await reported(town, jan, room)

        def said(sign: str) -> list[Any]:
            told = [one for one in jan.sees(lines) if "`forgotten`" in one["content"]]
            return [one for one in told if sign in one["content"]]

        await town.record.until(lambda: said("A new record on"), "a podium", END_S)
        async with pool(telling.dsn, 1, 1, SCHEMA) as connections:
            ledger = PostgresLedger(connections)

            async def is_told() -> bool:
                due = await ledger.due(0, 0)
                return "forgotten" not in [one.problem for one in due]

            await eventually(is_told, END_S)
    finally:
        town.nonce_s = NONCE_S
    assert len(jan.sees(room)) == 2
    [line] = said("· #")
    assert len(jan.sees(line["id"])) == 1
    assert len(said("")) == 2


async def test_a_problem_has_one_post_that_says_how_it_is(
    telling: Whole, town: Simulator, tmp_path: Path
) -> None:
    posts = await published(telling, town, tmp_path / "announced")
    owner = town.owner()

    def said() -> list[Any]:
        return owner.sees(posts[0]["id"])

    assert len(posts) == 1
    assert "version 1" in said()[0]["content"]
    assert len(said()[0]["mention_roles"]) == 1
    await changed(telling, "announced", deadline_at=CLOSES)
    await town.record.until(lambda: "Open until" in said()[0]["content"], "an edit", END_S)
    assert "The deadline is now" in said()[-1]["content"]
    await telling.kill()
    await changed(telling, "announced", visibility="closed")
    await telling.start()
    await town.record.until(lambda: "Not public" in said()[0]["content"], "an edit", END_S)
    assert len(said()) == 3
    central = owner.threads(place(town, "central"))
    assert len([one for one in central if one["name"] == "announced"]) == 1
    # Where somebody deleted it, it is made anew, and calls nobody a second time.
    await town.delete_channel(posts[0]["id"])
    await changed(telling, "announced", visibility="public")

    def anew() -> list[Any]:
        found = owner.threads(place(town, "central"))
        return [one for one in found if one["name"] == "announced"]

    [post] = await town.record.until(anew, "a post", END_S)
    [first] = owner.sees(post["id"])
    assert "Open until" in first["content"]
    assert not first["mention_roles"]


async def test_places_are_made_once_and_again_where_they_are_gone(
    telling: Whole, town: Simulator
) -> None:
    names = ("Leaderboards", "central", "general")
    before = {name: place(town, name) for name in names}
    roles = [one["name"] for one in town.guild.roles.values()]
    bot = town.guild.roles[town.guild.bot_role]
    allowed = bot["permissions"]
    await town.delete_channel(before["central"])
    await telling.stop()
    bot["permissions"] = str(int(allowed) & ~BITS["manage_channels"])
    try:
        await telling.start()
        await eventually(lambda: "Manage Channels" in telling.log.read_text(), END_S)
        doing = await town.person("ida").slash(before["general"], "ping")
        assert "There" in (await doing.answered())["content"]
    finally:
        town.faults.lose("create_guild_channel")
        bot["permissions"] = allowed

    async def is_set_up() -> bool:
        async with pool(telling.dsn, 1, 1, SCHEMA) as connections:
            key = f"channel:{town.guild.id}:central"
            return await PostgresLedger(connections).made(key) != before["central"]

    await eventually(is_set_up, END_S)
    named = [one["id"] for one in town.guild.channels.values() if one.get("name") == "central"]
    assert len(named) == 1
    assert place(town, "general") == before["general"]
    assert town.guild.channels[place(town, "central")]["parent_id"] == before["Leaderboards"]
    assert [one["name"] for one in town.guild.roles.values()] == roles
    assert roles.count("Leaderboard Participant") == 1


async def test_a_server_that_discord_does_not_tell_of_yet_gets_no_second_places(
    telling: Whole, town: Simulator
) -> None:
    before = [one.get("name") for one in town.guild.channels.values()]
    await telling.stop()
    said = telling.log.read_text().count("has not told of the server")
    town.gateway.is_shy = True
    try:
        await telling.start()
        await eventually(
            lambda: telling.log.read_text().count("has not told of the server") > said, END_S
        )
    finally:
        town.gateway.is_shy = False
        await town.gateway.invalidate()
    assert [one.get("name") for one in town.guild.channels.values()] == before
