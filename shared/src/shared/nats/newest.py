"""The newest message of every subject of a stream, read once."""

import asyncio
from datetime import UTC, datetime
from typing import NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import Failed
from shared.nats.pull import Pace, Pull, held_back, sent_at, stream_sequence
from shared.nats.requests import PATIENCE_S_MAX, find, patiently
from shared.nats.streams import SECOND_NS, Settings

PACE = Pace(batch=500, waiting_max=1000, heartbeat_s=5.0)
FORGOTTEN_S = 60


class Newest(NamedTuple):
    """A message, with the server's time of it; of `headers_only` there are no data."""

    subject: str
    seq: int
    at: datetime
    size: int
    data: bytes


async def newest(nc: Client, stream: str, subject: str, *, headers_only: bool) -> list[Newest]:
    """The last message on each subject, in the stream's order.

    Errors: Failed if the server could not be read for 30 s.
    """
    # Of nothing at all no message would say that it is the last.
    if await patiently(nc, lambda: find(nc, stream, {"last_by_subj": subject})) is None:
        return []
    reading = _Reading(nc, stream, subject, headers_only=headers_only)
    try:
        return await reading.all()
    finally:
        await reading.close()


class _Reading:
    def __init__(self, nc: Client, stream: str, subject: str, *, headers_only: bool) -> None:
        self._config: Settings = {
            "ack_policy": "none",
            "deliver_policy": "last_per_subject",
            "filter_subject": subject,
            "headers_only": headers_only,
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_S * SECOND_NS,
        }
        self._found: dict[str, Newest] = {}
        self._is_whole = False
        self._moved_at = 0.0
        self._pull = Pull(nc, stream, self._settings, self._on, PACE)

    async def all(self) -> list[Newest]:
        self._moved_at = asyncio.get_running_loop().time()
        while not self._is_whole:
            await self._pull.turn(0)
            if asyncio.get_running_loop().time() - self._moved_at > PATIENCE_S_MAX:
                raise Failed(f"the newest messages were not read in {PATIENCE_S_MAX:g} s")
        return sorted(self._found.values(), key=lambda one: one.seq)

    async def close(self) -> None:
        await self._pull.close()

    async def _settings(self) -> Settings:
        # A new consumer begins anew; what came before is read again.
        self._found.clear()
        return self._config

    def _on(self, message: Msg) -> None:
        self._moved_at = asyncio.get_running_loop().time()
        reply, headers = message.reply, message.headers or {}
        size = int(headers.get("Nats-Msg-Size") or len(message.data))
        at = datetime.fromtimestamp(sent_at(reply), UTC)
        seq = stream_sequence(reply)
        self._found[message.subject] = Newest(message.subject, seq, at, size, message.data)
        self._is_whole = held_back(reply) == 0
