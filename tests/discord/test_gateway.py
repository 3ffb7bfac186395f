"""The gateway without a library: what is said, in which order, and what closes it."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from discord_sim.documents import Validators
from discord_sim.gateway import CONTENT, GUILDS, MEMBERS
from discord_sim.simulator import Simulator

pytestmark = pytest.mark.asyncio(loop_scope="module")
HELLO, ACK, DISPATCH, INVALID = 10, 11, 0, 9
WAIT_S = 20.0


class Listener:
    """A connection as a library has it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._inflate = zlib.decompressobj()

    async def heard(self) -> dict[str, Any]:
        """What is said next."""
        message = await self.socket.receive(WAIT_S)
        data = message.data
        if message.type is aiohttp.WSMsgType.BINARY:
            data = self._inflate.decompress(data)
        assert isinstance(data, str | bytes), message
        found: dict[str, Any] = json.loads(data)
        return found

    async def say(self, code: int, data: object) -> None:
        await self.socket.send_json({"op": code, "d": data})

    async def identify(self, token: str, intents: int = GUILDS) -> None:
        properties = {"os": "linux", "browser": "none", "device": "none"}
        told = {"token": token, "intents": intents, "properties": properties}
        await self.say(2, told)

    async def closed(self) -> int | None:
        """Wait for the end; its code."""
        async with asyncio.timeout(WAIT_S):
            while not self.socket.closed:
                await self.socket.receive()
        return self.socket.close_code


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sim(validators: Validators) -> AsyncIterator[Simulator]:
    """A simulator that was right in all it said."""
    async with Simulator(validators) as sim:
        yield sim
        assert not sim.record.own_faults, "\n".join(sim.record.own_faults)


@pytest_asyncio.fixture(loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as http:
        yield http


async def connected(http: aiohttp.ClientSession, sim: Simulator, query: str = "") -> Listener:
    """A connection that was greeted."""
    listener = Listener(await http.ws_connect(f"{sim.gateway.url}/?v=10&encoding=json{query}"))
    assert (await listener.heard())["op"] == HELLO
    return listener


async def test_a_bot_receives_hello_ready_and_its_server(
    http: aiohttp.ClientSession, sim: Simulator
) -> None:
    listener = await connected(http, sim)
    await listener.identify(sim.token)
    ready, server = await listener.heard(), await listener.heard()
    assert (ready["op"], ready["t"], ready["s"]) == (DISPATCH, "READY", 1)
    assert ready["d"]["resume_gateway_url"] == f"{sim.gateway.url}/"
    assert server["t"] == "GUILD_CREATE"
    await listener.say(1, 2)
    assert (await listener.heard())["op"] == ACK
    assert not sim.record.take_violations()


@pytest.mark.parametrize("kind", ["zlib-stream", "zstd-stream"])
async def test_the_stream_is_compressed_as_requested(
    http: aiohttp.ClientSession, sim: Simulator, kind: str
) -> None:
    if kind == "zlib-stream":
        listener = await connected(http, sim, f"&compress={kind}")
        await listener.identify(sim.token)
        assert (await listener.heard())["t"] == "READY"
        return
    zstandard = pytest.importorskip("zstandard")
    socket = await http.ws_connect(f"{sim.gateway.url}/?v=10&encoding=json&compress={kind}")
    said = zstandard.ZstdDecompressor().decompressobj().decompress((await socket.receive()).data)
    assert json.loads(said)["op"] == HELLO


@pytest.mark.parametrize(
    ("intents", "is_named"), [(GUILDS | MEMBERS, True), (GUILDS | CONTENT, True), (GUILDS, False)]
)
async def test_a_refused_connection_gets_its_close_code(
    http: aiohttp.ClientSession, sim: Simulator, intents: int, is_named: bool
) -> None:
    listener = await connected(http, sim)
    await listener.identify(sim.token if is_named else "wrong", intents)
    assert await listener.closed() == (4014 if is_named else 4004)


@pytest.mark.parametrize(
    ("said", "code"),
    [("x" * 4097, 4002), ("no json", 4002), ("[]", 4002), ('{"op":77,"d":null}', 4001)],
    ids=["too long", "no json", "no object", "unknown op"],
)
async def test_an_invalid_frame_closes_the_connection(
    http: aiohttp.ClientSession, sim: Simulator, said: str, code: int
) -> None:
    listener = await connected(http, sim)
    await listener.socket.send_str(said)
    assert await listener.closed() == code
    sim.record.take_violations()


async def test_frames_too_early_twice_or_too_often_close_the_connection(
    http: aiohttp.ClientSession, sim: Simulator
) -> None:
    listener = await connected(http, sim)
    await listener.say(3, {"since": None, "activities": [], "status": "online", "afk": False})
    assert await listener.closed() == 4003
    listener = await connected(http, sim)
    for _ in range(2):
        await listener.identify(sim.token)
    assert await listener.closed() == 4005
    listener = await connected(http, sim)
    for n in range(121):
        await listener.say(1, n)
    assert await listener.closed() == 4008
    socket = await http.ws_connect(f"{sim.gateway.url}/?v=9")
    assert (await socket.receive(WAIT_S)).type is aiohttp.WSMsgType.CLOSE
    assert socket.close_code == 4012


async def test_a_session_resumes_at_its_last_event(
    http: aiohttp.ClientSession, sim: Simulator
) -> None:
    listener = await connected(http, sim)
    await listener.identify(sim.token)
    ready, server = await listener.heard(), await listener.heard()
    session_id = ready["d"]["session_id"]
    await listener.socket.close(code=4000)
    await sim.record.until(lambda: not sim.gateway.sessions[session_id].connection, "its end")
    await sim.add_channel("news")
    again = await connected(http, sim)
    told = {"token": sim.token, "session_id": session_id, "seq": server["s"]}
    await again.say(6, told)
    missed, resumed = await again.heard(), await again.heard()
    assert (missed["t"], missed["d"]["name"]) == ("CHANNEL_CREATE", "news")
    assert resumed["t"] == "RESUMED"
    # With 1000 a bot says that it will not come back.
    await again.socket.close(code=1000)
    await sim.record.until(lambda: session_id not in sim.gateway.sessions, "the session's end")
    last = await connected(http, sim)
    await last.say(6, told)
    refused = await last.heard()
    assert (refused["op"], refused["d"]) == (INVALID, False)
    await last.socket.close()


async def test_a_frame_against_the_schema_is_a_violation(
    http: aiohttp.ClientSession, sim: Simulator, documents: Validators
) -> None:
    assert documents.gateway is not None
    listener = await connected(http, sim)
    await listener.say(2, {"token": sim.token, "intents": GUILDS, "properties": "none"})
    assert (await listener.heard())["t"] == "READY"
    assert "properties" in "".join(sim.record.take_violations())
    await listener.socket.close()
