"""Heartbeats as they come: who lives, who is gone, and all of them again after an outage."""

import time
from collections import deque
from collections.abc import AsyncIterator

from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.bus import Beat
from shared.nats.pull import Pace, Pull
from shared.nats.streams import LEASES_STREAM, SECOND_NS, Settings, ensure_leases

PACE = Pace(batch=256, waiting_max=1024, heartbeat_s=5.0)
FORGOTTEN_S = 60
# The server's own note of an expiry came up to a quarter of a second late (2.15.1).
LATE_S = 2.0
TTL_S_DEFAULT = 15.0
_PREFIX = f"$KV.{subjects.LEASES}.agent."


def lease_subject(agent: str) -> str:
    """Where an agent's heartbeat lies. Errors: ValueError if the id cannot be in a subject."""
    return f"$KV.{subjects.LEASES}.{subjects.agent(agent)}"


async def watch(nc: Client) -> AsyncIterator[Beat]:
    """First every agent alive, then each change; after a reconnect all of them again.

    Errors: Failed if the connection is closed, or the bucket cannot be read for 30 s.
    """
    reading = _Reading(nc)
    try:
        while True:
            for beat in await reading.news():
                yield beat
    finally:
        await reading.close()


class _Reading:
    """One watcher's knowledge: what came, and until when each agent is taken to live.

    A server that restarted has forgotten the bucket and says of nobody that they are gone.
    So a silent agent is gone after its own time to live too, counted while we are connected:
    from its last heartbeat, or from the last beginning.
    """

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._came: deque[Beat] = deque()
        self._ttl_s: dict[str, float] = {}
        self._until: dict[str, float] = {}
        self._pull = Pull(nc, LEASES_STREAM, self._settings, self._on, PACE)

    async def news(self) -> list[Beat]:
        """What came within a moment, perhaps nothing."""
        if not self._came:
            await self._pull.turn(0)
        if self._pull.is_whole:
            self._expire(time.monotonic())
        news = list(self._came)
        self._came.clear()
        return news

    async def close(self) -> None:
        """Stop watching."""
        await self._pull.close()

    async def _settings(self) -> Settings:
        await ensure_leases(self._nc)
        now = time.monotonic()
        self._until = {agent: now + ttl_s + LATE_S for agent, ttl_s in self._ttl_s.items()}
        return {
            "ack_policy": "none",
            "deliver_policy": "last_per_subject",
            "filter_subject": f"{_PREFIX}>",
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_S * SECOND_NS,
        }

    def _on(self, message: Msg) -> None:
        agent = message.subject.removeprefix(_PREFIX)
        headers = message.headers or {}
        if "KV-Operation" in headers or "Nats-Marker-Reason" in headers:
            self._gone(agent)
            return
        self._ttl_s[agent] = ttl_s = _seconds(headers.get("Nats-TTL", ""))
        self._until[agent] = time.monotonic() + ttl_s + LATE_S
        self._came.append(Beat(agent, message.data))

    def _gone(self, agent: str) -> None:
        self._ttl_s.pop(agent, None)
        if self._until.pop(agent, None) is not None:
            self._came.append(Beat(agent, None))

    def _expire(self, now: float) -> None:
        for agent in [agent for agent, until in self._until.items() if until < now]:
            self._gone(agent)


def _seconds(ttl: str) -> float:
    """The time to live that we write in a heartbeat's header.

    >>> _seconds("15s")
    15.0
    """
    number = ttl.removesuffix("s")
    return float(number) if number.isdecimal() else TTL_S_DEFAULT
