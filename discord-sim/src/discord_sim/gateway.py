"""The gateway that sends events to bots: intents, connections, sessions and injected faults."""

import asyncio
import json
import secrets
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from discord_sim.documents import SENT_BY_BOT, Validators
from discord_sim.guild import Guild
from discord_sim.record import Record
from discord_sim.shapes import Json

GUILDS, MEMBERS, PRESENCES = 1 << 0, 1 << 1, 1 << 8
MESSAGES, DIRECT_MESSAGES, CONTENT = 1 << 9, 1 << 12, 1 << 15
PRIVILEGED = MEMBERS | PRESENCES | CONTENT
EVENTS_KEPT = 500
FRAMES_MAX, FRAMES_S = 120, 60.0
VERSION = "10"
FRAME_BYTES_MAX = 4096
HEARTBEAT_S = 41.25
# Close codes that Discord documents.
RECONNECT, UNKNOWN_OP, UNDECODABLE, NOT_AUTHENTICATED = 4000, 4001, 4002, 4003
WRONG_TOKEN, IDENTIFIED_TWICE, TOO_FAST, TIMED_OUT = 4004, 4005, 4008, 4009
WRONG_VERSION, WRONG_INTENTS = 4012, 4014
# A bot that closes the connection with one of these codes ends its session.
ENDING = (1000, 1001)


def apply_intents(event: str, data: Json, intents: int, bot_id: str) -> Json:
    """Return an event as these intents show it: without CONTENT, others' messages are empty."""
    if not event.startswith("MESSAGE_") or "author" not in data or intents & CONTENT:
        return data
    is_own = data["author"]["id"] == bot_id or any(
        user["id"] == bot_id for user in data["mentions"]
    )
    if is_own or "guild_id" not in data:
        return data
    return {**data, "content": "", "embeds": [], "attachments": [], "components": []}


def _zlib_stream() -> Callable[[bytes], bytes]:
    """Return a function that compresses messages one after the other into one stream."""
    stream = zlib.compressobj()
    return lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


def _zstd_stream() -> Callable[[bytes], bytes]:
    import zstandard

    stream = zstandard.ZstdCompressor().compressobj()
    return lambda data: stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


COMPRESSORS = {"zlib-stream": _zlib_stream, "zstd-stream": _zstd_stream}


@dataclass
class Session:
    """A session with its numbered events; RESUME repeats those that the bot missed."""

    intents: int
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    sequence: int = 0
    events: deque[Json] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    connection: "Connection | None" = None

    def add_event(self, event: str, data: Json) -> Json:
        """Return the payload of the session's next event."""
        self.sequence += 1
        payload = {"op": 0, "t": event, "s": self.sequence, "d": data}
        self.events.append(payload)
        return payload


class Connection:
    """A WebSocket to a bot."""

    def __init__(self, socket: web.WebSocketResponse, compress: str) -> None:
        self.socket, self.compress = socket, compress
        self.session: Session | None = None
        self.beat_at = time.monotonic()
        # Cut by the simulator: the session stays, whatever code the bot closes with.
        self.is_cut = False
        self._frames: deque[float] = deque()
        self._lock = asyncio.Lock()
        self._compress = COMPRESSORS[compress]() if compress in COMPRESSORS else None

    async def send(self, payload: Json) -> None:
        """Send a payload, unless the connection is closed or cut."""
        data = json.dumps(payload)
        async with self._lock:
            if self.socket.closed or self.is_cut:
                return
            try:
                if self._compress:
                    await self.socket.send_bytes(self._compress(data.encode()))
                else:
                    await self.socket.send_str(data)
            except ConnectionError:
                # The bot left meanwhile; its session keeps the event.
                return

    async def send_operation(self, code: int, data: object = None) -> None:
        """Send a payload that is not an event."""
        await self.send({"op": code, "d": data, "s": None, "t": None})

    async def close(self, code: int) -> None:
        """Close the connection from the simulator's side."""
        self.is_cut = True
        await self.socket.close(code=code)

    def is_too_fast(self) -> bool:
        """Count a frame, and return whether there were more than 120 in a minute."""
        now = time.monotonic()
        self._frames.append(now)
        while now - self._frames[0] > FRAMES_S:
            self._frames.popleft()
        return len(self._frames) > FRAMES_MAX


@dataclass
class Gateway:
    """Sends events to bots.

    `is_deaf` leaves heartbeats unacknowledged. `is_shy` sends no server to a new session, as
    Discord does during outages.
    """

    token: str
    guild: Guild
    record: Record
    validators: Validators
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
        """Whether a bot is connected."""
        return any(session.connection for session in self.sessions.values())

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection, from HELLO to its end."""
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
        await connection.send_operation(10, {"heartbeat_interval": int(self.heartbeat_s * 1000)})
        watching = asyncio.create_task(self._watch_heartbeats(connection))
        try:
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    continue
                code = await self._handle_frame(connection, message.data)
                if code is not None:
                    await socket.close(code=code)
                    break
                await self.record.tell()
        finally:
            watching.cancel()
            self._detach(connection)
        await self.record.tell()
        return socket

    def _detach(self, connection: Connection) -> None:
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        if connection.socket.close_code in ENDING and not connection.is_cut:
            self.sessions.pop(session.id, None)

    async def _watch_heartbeats(self, connection: Connection) -> None:
        while True:
            await asyncio.sleep(self.heartbeat_s)
            if time.monotonic() - connection.beat_at > 2 * self.heartbeat_s:
                await connection.close(TIMED_OUT)

    async def _handle_frame(self, connection: Connection, text: str) -> int | None:
        """Handle a frame, and return the close code if it is wrong."""
        if connection.is_too_fast():
            return TOO_FAST
        frame = _parse_frame(text)
        if frame is None:
            return UNDECODABLE
        if self.validators.gateway:
            problems = self.validators.gateway.check(SENT_BY_BOT, frame)
            self.record.violations += [f"gateway op {frame.get('op')}: {it}" for it in problems]
        return await self._handle_operation(connection, frame.get("op"), frame.get("d"))

    async def _handle_operation(self, connection: Connection, code: Any, data: Any) -> int | None:
        if code == 1:
            connection.beat_at = time.monotonic()
            if not self.is_deaf:
                await connection.send_operation(11)
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
        ready = {
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
        await self._dispatch(session, "READY", ready)
        if session.intents & GUILDS and not self.is_shy:
            await self._dispatch(session, "GUILD_CREATE", self.guild.gateway_object())
        return None

    async def _resume(self, connection: Connection, data: Json) -> int | None:
        session = self.sessions.get(data.get("session_id", ""))
        is_known = session is not None and data.get("seq", 0) <= session.sequence
        if data.get("token") != self.token or session is None or not is_known:
            await connection.send_operation(9, data=False)
            return None
        self.resumed += 1
        session.connection, connection.session = connection, session
        for event in [event for event in session.events if event["s"] > data["seq"]]:
            self.replayed.append(event["t"])
            await connection.send(event)
        await self._dispatch(session, "RESUMED", {})
        return None

    async def _dispatch(self, session: Session, event: str, data: Json) -> None:
        payload = session.add_event(event, data)
        self.log.append((event, data))
        if self.validators.gateway:
            problems = self.validators.gateway.check(event, data)
            self.record.own_faults += [f"gateway {event}: {problem}" for problem in problems]
        if session.connection:
            await session.connection.send(payload)

    async def emit(self, event: str, data: Json, intent: int = 0) -> None:
        """Send a copy of an event to every session with the intent."""
        for session in list(self.sessions.values()):
            if not intent or session.intents & intent:
                visible = apply_intents(event, data, session.intents, self.guild.bot_id)
                await self._dispatch(session, event, json.loads(json.dumps(visible)))

    def _connections(self) -> list[Connection]:
        return [session.connection for session in self.sessions.values() if session.connection]

    async def drop(self, code: int = RECONNECT) -> None:
        """Close every connection; sessions can be resumed."""
        for connection in self._connections():
            await connection.close(code)

    async def cut(self) -> None:
        """Make every connection hang like a dead network: nothing is sent or closed."""
        for connection in self._connections():
            connection.is_cut = True

    async def ask_to_reconnect(self) -> None:
        """Send op 7: the bot must reconnect and resume."""
        for connection in self._connections():
            await connection.send_operation(7)

    async def invalidate(self, *, is_resumable: bool = False) -> None:
        """Send op 9: the session is invalid, or only the connection."""
        for session in list(self.sessions.values()):
            if not is_resumable:
                self.sessions.pop(session.id, None)
            if session.connection:
                await session.connection.send_operation(9, is_resumable)


def _parse_frame(text: str) -> Json | None:
    """Parse a frame; None if it is not a JSON object or too long."""
    if len(text.encode()) > FRAME_BYTES_MAX:
        return None
    try:
        frame = json.loads(text)
    except ValueError:
        return None
    return frame if isinstance(frame, dict) else None
