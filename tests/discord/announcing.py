"""A bot that makes announcements, and helpers to cause and find them."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import httpx

from discord_sim.simulator import Simulator
from shared.bus_keys.permissions import EDGE_CONSUMER
from shared.nats.connection import connect
from tests.discord.platform import END_S, EdgePlatform
from tests.support.people import add_problem
from tests.support.platform import ROOT
from tests.support.waits import eventually


async def start_announcing(edge_platform: EdgePlatform) -> None:
    """Restart the bot with announcements, and wait until it listens."""
    await edge_platform.stop()
    login = edge_platform.running.bus_login("discord-edge")
    prefix = "WARPBOARD_DISCORD_EDGE"
    edge_platform.more = {
        f"{prefix}_NATS_URL": login.url,
        f"{prefix}_NATS_CREDENTIALS": login.credentials,
        f"{prefix}_PUBLIC": "true",
        f"{prefix}_PODIUMS": "true",
    }
    await edge_platform.start()
    client = await connect(edge_platform.running.bus_login(), "test")

    async def listens() -> bool:
        answer = await client.request("$JS.API.CONSUMER.NAMES.EVENTS", b"", 2)
        return EDGE_CONSUMER in (json.loads(answer.data)["consumers"] or [])

    try:
        await eventually(listens, END_S)
    finally:
        await client.close()


def find_channel(sim: Simulator, name: str) -> str:
    """Return the newest channel with a name."""
    return str([one for one in sim.guild.channels.values() if one.get("name") == name][-1]["id"])


async def send_operator_request(
    announcing: EdgePlatform, method: str, path: str, **said: object
) -> Any:
    """Send an operator's request with a reason, and return the response."""
    async with httpx.AsyncClient(base_url=announcing.running.url, timeout=30) as http:
        answer = await http.request(
            method,
            f"/v1/admin/{path}",
            json={"reason": "a test", **said},
            headers={**announcing.running.operator, "Warpboard-Operator": "olga"},
        )
    assert answer.is_success, answer.text
    return answer.json()


async def change_leaderboard(announcing: EdgePlatform, slug: str, **said: str) -> None:
    """Change the settings of a leaderboard."""
    await send_operator_request(announcing, "PUT", f"leaderboards/{slug}", **said)


async def publish_copy(edge_platform: EdgePlatform, sim: Simulator, folder: Path) -> list[Any]:
    """Publish a copy of a problem under the folder's name, and return its forum posts."""
    shutil.copytree(ROOT / "problems" / "identity", folder)
    await asyncio.to_thread(
        add_problem, edge_platform.running.url, folder, edge_platform.running.operator
    )
    return await wait_for_posts(sim, folder.name)


async def wait_for_posts(sim: Simulator, slug: str) -> list[Any]:
    """Wait until a problem has a forum post, and return its posts."""
    owner, central = sim.owner(), find_channel(sim, "central")

    def posts() -> list[Any]:
        return [one for one in owner.threads(central) if one["name"] == slug]

    await sim.record.until(posts, "a post", END_S)
    return posts()
