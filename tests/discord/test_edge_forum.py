"""Posts of the forum and the problems they belong to, when the edge has forgotten which."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from discord_sim.simulator import Simulator
from shared.testing import eventually
from tests.discord.desks import Desk
from tests.discord.news_desk import published
from tests.discord.platform import END_S, Whole

pytestmark = [
    pytest.mark.server,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="session"),
]


def forgotten(dsn: str, slug: str) -> bool:
    """The edge's table said which post is a problem's, and says it no more."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        done = connection.execute("delete from discord_edge.board where problem = %s", (slug,))
        return done.rowcount == 1


async def test_a_forgotten_post_is_paired_by_its_name(
    telling: Whole, town: Simulator, tmp_path: Path, olga: Desk
) -> None:
    path, there = "admin set-forum-ids", "paired: its post is there"

    async def is_there() -> bool:
        return there in await olga.ask(path)

    [post] = await published(telling, town, tmp_path / "paired")
    await eventually(lambda: asyncio.to_thread(forgotten, telling.dsn, "paired"), END_S)
    found = "paired: the post that bears its name"
    for given, last in (({}, "Nothing was kept"), ({"dry_run": False}, "is kept")):
        said = await olga.ask(path, **given)
        assert found in said
        assert last in said
    assert await is_there()
    # A closed post is a post all the same.
    await town.archive(post["id"])
    assert await is_there()
