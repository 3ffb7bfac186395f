"""What is told on Discord beside commands: how it begins, and where one looks for it."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from discord_edge.service.announcing import CONSUMER
from discord_sim.simulator import Simulator
from shared.nats.connection import connect
from shared.testing import eventually
from tests.discord.platform import END_S, Whole
from tests.support.people import add_problem
from tests.support.platform import ROOT


@asynccontextmanager
async def told(whole: Whole) -> AsyncIterator[Whole]:
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


async def operated(telling: Whole, method: str, path: str, **said: object) -> Any:
    """What an operator does, with a reason, and what that is answered."""
    async with httpx.AsyncClient(base_url=telling.running.url, timeout=30) as http:
        answer = await http.request(
            method,
            f"/v1/admin/{path}",
            json={"reason": "a test", **said},
            headers={**telling.running.operator, "Warpboard-Operator": "olga"},
        )
    assert answer.is_success, answer.text
    return answer.json()


async def changed(telling: Whole, slug: str, **said: str) -> None:
    """An author's change of a leaderboard."""
    await operated(telling, "PUT", f"leaderboards/{slug}", **said)


async def published(whole: Whole, sim: Simulator, folder: Path) -> list[Any]:
    """A copy of a problem under the folder's name, published; its posts in the forum, now one."""
    shutil.copytree(ROOT / "problems" / "identity", folder)
    await asyncio.to_thread(add_problem, whole.running.url, folder, whole.running.operator)
    owner, central = sim.owner(), place(sim, "central")

    def posts() -> list[Any]:
        return [one for one in owner.threads(central) if one["name"] == folder.name]

    await sim.record.until(posts, "a post", END_S)
    return posts()
