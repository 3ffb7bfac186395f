"""What everybody reads on Discord: each thing once, whatever is killed or folded anew."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from discord_edge.service.announcing import CONSUMER
from discord_sim import shapes
from discord_sim.permissions import BITS
from discord_sim.simulator import Simulator
from shared.nats.connection import connect
from shared.testing import eventually
from tests.discord.platform import END_S, KERNEL, RANKED, Whole
from tests.system.people import add_problem
from tests.system.running import ROOT

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="session"),
]

CLOSES = "2126-12-01T18:00:00+00:00"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def telling(whole: Whole) -> AsyncIterator[Whole]:
    """The edge, told to tell everybody; it has begun to listen."""
    await whole.stop()
    url = whole.running.environ("ranker")["WARPBOARD_RANKER_NATS_URL"]
    prefix = "WARPBOARD_DISCORD_EDGE"
    whole.more = {
        f"{prefix}_NATS_URL": url,
        f"{prefix}_PUBLIC": "true",
        f"{prefix}_PODIUMS": "true",
    }
    await whole.start()
    client = await connect(url, "test")

    async def listens() -> bool:
        answer = await client.request("$JS.API.CONSUMER.NAMES.EVENTS", b"", 2)
        return CONSUMER in (json.loads(answer.data)["consumers"] or [])

    try:
        await eventually(listens, END_S)
    finally:
        await client.close()
    yield whole
    await whole.stop()
    whole.more = {}
    await whole.start()


def place(sim: Simulator, name: str) -> str:
    """The newest channel with a name."""
    return str([one for one in sim.guild.channels.values() if one.get("name") == name][-1]["id"])


async def changed(telling: Whole, **said: str) -> None:
    """An author's change of the leaderboard that is announced."""
    token = (telling.running.folder / "operator_token").read_text().strip()
    async with httpx.AsyncClient(base_url=telling.running.url, timeout=30) as http:
        answer = await http.put(
            "/v1/admin/leaderboards/announced",
            json={**said, "reason": "a test"},
            headers={"Authorization": f"Bearer {token}", "Warpboard-Operator": "olga"},
        )
    assert answer.is_success, answer.text


async def published(whole: Whole, sim: Simulator, folder: Path) -> list[Any]:
    """A copy of a problem under the folder's name, published; its posts in the forum, now one."""
    shutil.copytree(ROOT / "problems" / "identity", folder)
    await asyncio.to_thread(add_problem, whole.running.url, folder)
    owner, central = sim.owner(), place(sim, "central")

    def posts() -> list[Any]:
        return [one for one in owner.threads(central) if one["name"] == folder.name]

    await sim.record.until(posts, "a post", END_S)
    return posts()


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
    assert "score" in hugo.sees(first["id"])[0]["content"]

    def open_threads() -> list[Any]:
        threads = [one for one in town.guild.threads() if one["parent_id"] == lobby]
        return [one for one in threads if one["type"] == shapes.PRIVATE_THREAD]

    # Who is killed just before leaves one to Discord's own clock.
    await eventually(lambda: len(open_threads()) <= 1, END_S)
    # It may have changed three times, and ten minutes are not over.
    await town.record.until(lambda: told("A new record on"), "a record", END_S)
    assert len(told("A new record on")) + len(told("The podium changed")) == 1
    assert not any(one["mentions"] for one in hugo.sees(submissions))


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
    await changed(telling, deadline_at=CLOSES)
    await town.record.until(lambda: "Open until" in said()[0]["content"], "an edit", END_S)
    assert "The deadline is now" in said()[-1]["content"]
    await telling.kill()
    await changed(telling, visibility="closed")
    await telling.start()
    await town.record.until(lambda: "Not public" in said()[0]["content"], "an edit", END_S)
    assert len(said()) == 3
    central = owner.threads(place(town, "central"))
    assert len([one for one in central if one["name"] == "announced"]) == 1


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
        bot["permissions"] = allowed

    def is_new() -> bool:
        ids = [one["id"] for one in town.guild.channels.values() if one.get("name") == "central"]
        return bool(ids) and before["central"] not in ids

    await eventually(is_new, END_S)
    assert place(town, "general") == before["general"]
    assert town.guild.channels[place(town, "central")]["parent_id"] == before["Leaderboards"]
    assert [one["name"] for one in town.guild.roles.values()] == roles
    assert roles.count("Leaderboard Participant") == 1
