"""Posts of the forum and the problems they belong to, when the edge has forgotten which."""

import asyncio
from pathlib import Path

import psycopg

from discord_sim.simulator import Simulator
from tests.discord.announcing import publish_copy
from tests.discord.channel_users import ChannelUser
from tests.discord.platform import EDGE_MARKS, END_S, EdgePlatform
from tests.support.waits import eventually

pytestmark = EDGE_MARKS


def delete_post_record(dsn: str, slug: str) -> bool:
    """Delete the record of a problem's post, and return whether there was one."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        done = connection.execute("delete from discord_edge.board where problem = %s", (slug,))
        return done.rowcount == 1


async def test_a_forgotten_post_is_paired_by_its_name(
    announcing: EdgePlatform, edge_sim: Simulator, tmp_path: Path, olga: ChannelUser
) -> None:
    path, there = "admin set-forum-ids", "paired: its post exists"

    async def is_there() -> bool:
        return there in await olga.use_command(path)

    [post] = await publish_copy(announcing, edge_sim, tmp_path / "paired")
    await eventually(lambda: asyncio.to_thread(delete_post_record, announcing.dsn, "paired"), END_S)
    found = "paired: the post with its name"
    for given, last in (({}, "Nothing was saved"), ({"dry_run": False}, "The pairs were saved")):
        said = await olga.use_command(path, **given)
        assert found in said
        assert last in said
    assert await is_there()
    # A closed post is a post all the same.
    await edge_sim.archive(post["id"])
    assert await is_there()
