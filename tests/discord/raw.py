"""Requests without a client: what no library would send."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

from discord_sim.gateway import Session
from discord_sim.simulator import Simulator
from discord_sim.state import Interaction


class RawAnswer(NamedTuple):
    """An answer."""

    status: int
    body: Any
    headers: dict[str, str]


class Raw:
    """Somebody with the bot's token and an HTTP library."""

    def __init__(self, sim: Simulator, http: aiohttp.ClientSession) -> None:
        self.sim, self.http = sim, http

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> RawAnswer:
        """Ask, with `json` or without a body."""
        told = {"Authorization": f"Bot {self.sim.token}", "User-Agent": "DiscordBot (raw, 1)"}
        data = None if body is None else json.dumps(body)
        if data is not None:
            told["Content-Type"] = "application/json"
        url = self.sim.api_url + path
        async with self.http.request(method, url, data=data, headers=told | headers) as answer:
            text = await answer.text()
            said = json.loads(text) if text else None
            return RawAnswer(answer.status, said, dict(answer.headers))

    def listen(self) -> None:
        """Have a session that nobody is connected to: people's acts are told to it."""
        session = Session(intents=1)
        self.sim.gateway.sessions[session.id] = session

    def begun(self, kind: int = 2, message_id: str | None = None) -> Interaction:
        """An interaction of somebody new in a new channel."""
        person = self.sim.guild.add_user("ada")
        channel = self.sim.guild.add_channel("raw")["id"]
        found = self.sim.interactions.begin(kind, person, channel, {"name": "x", "custom_id": "x"})
        found.message_id = message_id
        return found

    async def answer(self, interaction: Interaction, body: Any) -> RawAnswer:
        """Acknowledge an interaction."""
        path = f"/interactions/{interaction.id}/{interaction.token}/callback?with_response=1"
        return await self("POST", path, body)


@asynccontextmanager
async def raw(sim: Simulator) -> AsyncIterator[Raw]:
    """A client that asks as fast as it likes."""
    sim.limits.limits.clear()
    sim.limits.global_max = 10**6
    async with aiohttp.ClientSession() as http:
        yield Raw(sim, http)
