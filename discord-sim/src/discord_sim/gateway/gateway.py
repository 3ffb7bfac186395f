"""Connections and sessions: who is told what, and the faults that tests ask for."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from discord_sim.gateway.intents import GUILDS, PRIVILEGED, seen
from discord_sim.gateway.wire import COMPRESSORS, Connection, Session
from discord_sim.guild import Guild
from discord_sim.judges import Judges
from discord_sim.judges.gateway import SENT_BY_BOT
from discord_sim.record import Record
from discord_sim.shapes import Json

VERSION = "10"
FRAME_BYTES_MAX = 4096
HEARTBEAT_S = 41.25
# Close codes that Discord documents.
RECONNECT, UNKNOWN_OP, UNDECODABLE, NOT_AUTHENTICATED = 4000, 4001, 4002, 4003
WRONG_TOKEN, IDENTIFIED_TWICE, TOO_FAST, TIMED_OUT = 4004, 4005, 4008, 4009
WRONG_VERSION, WRONG_INTENTS = 4012, 4014
# A bot that closes with one of these ends its session.
ENDING = (1000, 1001)


@dataclass
class Gateway:
    """Where events go; `is_deaf` lets heartbeats pass without an acknowledgement.

    `is_shy` tells who comes nothing of the server, as Discord does while it is away.
    """

    token: str
    guild: Guild
    record: Record
    judges: Judges
    heartbeat_s: float = HEARTBEAT_S
    privileged: int = 0
    is_deaf: bool = False
    is_shy: bool = False
    is_down: bool = False
    url: str = ""
    sessions: dict[str, Session] = field(default_factory=dict)
    log: list[tuple[str, Any]] = field(default_factory=list)
    identified: int = 0
    resumed: int = 0
    replayed: list[str] = field(default_factory=list)

    @property
    def is_connected(self) -> bool:
        """Whether a bot listens now."""
        return any(one.connection for one in self.sessions.values())

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One connection, from HELLO to its end."""
        if self.is_down:
            return web.Response(status=503)
        socket = web.WebSocketResponse(max_msg_size=1 << 20)
        await socket.prepare(request)
        connection = Connection(socket, request.query.get("compress", ""))
        is_json = request.query.get("encoding", "json") == "json"
        is_known = connection.compress in ("", *COMPRESSORS)
        if not (request.query.get("v") == VERSION and is_json and is_known):
            await socket.close(code=WRONG_VERSION)
            return socket
        await connection.operate(10, {"heartbeat_interval": int(self.heartbeat_s * 1000)})
        reaper = asyncio.create_task(self._reap(connection))
        try:
            await self._listen(connection)
        finally:
            reaper.cancel()
            self._part(connection)
        await self.record.tell()
        return socket

    async def _listen(self, connection: Connection) -> None:
        async for message in connection.socket:
            if message.type is not WSMsgType.TEXT:
                continue
            code = await self._frame(connection, message.data)
            if code is not None:
                await connection.socket.close(code=code)
                return
            await self.record.tell()

    def _part(self, connection: Connection) -> None:
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        if connection.socket.close_code in ENDING and not connection.is_cut:
            self.sessions.pop(session.id, None)

    async def _reap(self, connection: Connection) -> None:
        """End a connection whose heart stopped."""
        while True:
            await asyncio.sleep(self.heartbeat_s)
            if time.monotonic() - connection.beat_at > 2 * self.heartbeat_s:
                await connection.close(TIMED_OUT)

    async def _frame(self, connection: Connection, text: str) -> int | None:
        """Take what a bot says; the close code that it gets for it, if any."""
        if connection.is_too_fast():
            return TOO_FAST
        frame = _read(text)
        if frame is None:
            return UNDECODABLE
        if self.judges.gateway:
            found = self.judges.gateway.check(SENT_BY_BOT, frame)
            self.record.violations += [f"gateway op {frame.get('op')}: {one}" for one in found]
        return await self._operation(connection, frame.get("op"), frame.get("d"))

    async def _operation(self, connection: Connection, code: Any, data: Any) -> int | None:
        if code == 1:
            connection.beat_at = time.monotonic()
            if not self.is_deaf:
                await connection.operate(11)
            return None
        if code == 2:
            return await self._identify(connection, data)
        if code == 6:
            return await self._resume(connection, data)
        if code not in (3, 4, 8):
            return UNKNOWN_OP
        return None if connection.session else NOT_AUTHENTICATED

    async def _identify(self, connection: Connection, data: Json) -> int | None:
        if connection.session:
            return IDENTIFIED_TWICE
        if data.get("token") != self.token:
            return WRONG_TOKEN
        if data["intents"] & PRIVILEGED & ~self.privileged:
            return WRONG_INTENTS
        self.identified += 1
        session = Session(data["intents"])
        self.sessions[session.id] = session
        session.connection, connection.session = connection, session
        await self._dispatch(session, "READY", self._ready(session))
        if session.intents & GUILDS and not self.is_shy:
            await self._dispatch(session, "GUILD_CREATE", self.guild.announced())
        return None

    def _ready(self, session: Session) -> Json:
        return {
            "v": int(VERSION),
            "user": {**self.guild.bot, "mfa_enabled": False, "verified": True, "email": None},
            "guilds": [{"id": self.guild.id, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": f"{self.url}/",
            "application": {"id": self.guild.bot_id, "flags": 0, "flags_new": "0"},
            "session_type": "normal",
            "private_channels": [],
            "presences": [],
            "relationships": [],
        }

    async def _resume(self, connection: Connection, data: Json) -> int | None:
        session = self.sessions.get(data.get("session_id", ""))
        is_known = session is not None and data.get("seq", 0) <= session.sequence
        if data.get("token") != self.token or session is None or not is_known:
            await connection.operate(9, data=False)
            return None
        self.resumed += 1
        session.connection, connection.session = connection, session
        for event in [one for one in session.told if one["s"] > data["seq"]]:
            self.replayed.append(event["t"])
            await connection.send(event)
        await self._dispatch(session, "RESUMED", {})
        return None

    async def _dispatch(self, session: Session, event: str, data: Json) -> None:
        payload = session.number(event, data)
        self.log.append((event, data))
        if self.judges.gateway:
            found = self.judges.gateway.check(event, data)
            self.record.own_faults += [f"gateway {event}: {one}" for one in found]
        if session.connection:
            await session.connection.send(payload)

    async def emit(self, event: str, data: Json, intent: int = 0) -> None:
        """Tell every session that asked for it; copied, for what is told does not change."""
        for session in list(self.sessions.values()):
            if not intent or session.intents & intent:
                told = seen(event, data, session.intents, self.guild.bot_id)
                await self._dispatch(session, event, json.loads(json.dumps(told)))

    def _connections(self) -> list[Connection]:
        return [one.connection for one in self.sessions.values() if one.connection]

    async def drop(self, code: int = RECONNECT) -> None:
        """Cut every connection; sessions can be resumed."""
        for one in self._connections():
            await one.close(code)

    async def cut(self) -> None:
        """Let every connection hang as a dead network does: nothing is sent, nothing closed."""
        for one in self._connections():
            one.is_cut = True

    async def ask_to_reconnect(self) -> None:
        """Op 7: the bot is to come back by itself, and to resume."""
        for one in self._connections():
            await one.operate(7)

    async def invalidate(self, *, is_resumable: bool = False) -> None:
        """Op 9: the session is over, or only the connection."""
        for session in list(self.sessions.values()):
            if not is_resumable:
                self.sessions.pop(session.id, None)
            if session.connection:
                await session.connection.operate(9, is_resumable)


def _read(text: str) -> Json | None:
    """A frame, if it is one."""
    if len(text.encode()) > FRAME_BYTES_MAX:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
