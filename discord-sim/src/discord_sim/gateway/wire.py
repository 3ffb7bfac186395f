"""One connection, compressed as it was asked for; and the session that outlives it."""

import asyncio
import json
import secrets
import time
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from discord_sim.shapes import Json

EVENTS_KEPT = 500
FRAMES_MAX, FRAMES_S = 120, 60.0


class _Compressor(Protocol):
    """What squeezes one message after the other into one stream."""

    def squeeze(self, data: bytes) -> bytes:
        """A message, whole."""


class _Zlib:
    def __init__(self) -> None:
        self._stream = zlib.compressobj()

    def squeeze(self, data: bytes) -> bytes:
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class _Zstd:
    def __init__(self) -> None:
        import zstandard

        self._stream = zstandard.ZstdCompressor().compressobj()
        self._block = zstandard.COMPRESSOBJ_FLUSH_BLOCK

    def squeeze(self, data: bytes) -> bytes:
        return self._stream.compress(data) + self._stream.flush(self._block)


COMPRESSORS: dict[str, type[_Zlib | _Zstd]] = {"zlib-stream": _Zlib, "zstd-stream": _Zstd}


@dataclass
class Session:
    """What a bot is told, numbered; RESUME repeats what it missed."""

    intents: int
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    sequence: int = 0
    told: deque[Json] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    connection: "Connection | None" = None

    def number(self, event: str, data: Json) -> Json:
        """An event as the next of this session."""
        self.sequence += 1
        payload = {"op": 0, "t": event, "s": self.sequence, "d": data}
        self.told.append(payload)
        return payload


class Connection:
    """A socket to a bot."""

    def __init__(self, socket: web.WebSocketResponse, compress: str) -> None:
        """A socket that nothing was said on yet."""
        self.socket, self.compress = socket, compress
        self.session: Session | None = None
        self.beat_at = time.monotonic()
        # Cut by the simulator: whatever code the bot closes with, its session stays.
        self.is_cut = False
        self._frames: deque[float] = deque()
        self._lock = asyncio.Lock()
        kind = COMPRESSORS.get(compress)
        self._compressor: _Compressor | None = kind() if kind else None

    async def send(self, payload: Json) -> None:
        """Say something, unless nobody listens any more."""
        data = json.dumps(payload)
        async with self._lock:
            if self.socket.closed or self.is_cut:
                return
            try:
                if self._compressor:
                    await self.socket.send_bytes(self._compressor.squeeze(data.encode()))
                else:
                    await self.socket.send_str(data)
            except ConnectionError:
                # It went while we spoke; what was said is kept in its session.
                return

    async def operate(self, code: int, data: object = None) -> None:
        """Say something that is no event."""
        await self.send({"op": code, "d": data, "s": None, "t": None})

    async def close(self, code: int) -> None:
        """End it from this side."""
        self.is_cut = True
        await self.socket.close(code=code)

    def is_too_fast(self) -> bool:
        """Count a frame; whether there were more than 120 in a minute."""
        now = time.monotonic()
        self._frames.append(now)
        while now - self._frames[0] > FRAMES_S:
            self._frames.popleft()
        return len(self._frames) > FRAMES_MAX
