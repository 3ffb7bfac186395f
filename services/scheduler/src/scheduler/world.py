"""The world as the rules see it: which agents are alive, and what time it is.

Agents are known from the heartbeats in the bucket LEASES. The local clock is compared with the log
server's: a wrong clock must not decide what is late.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from scheduler.domain.state import Offer
from shared import subjects
from shared.bus import Bus
from shared.clock import now
from shared.errors import Failed
from shared.events import AgentRegistered
from shared.health import HealthReporter, warn_rarely

# With a larger skew, nothing that depends on the time is decided.
CLOCK_SKEW_S_MAX = 5.0
READ_EVERY_S = 5.0
# A slower answer does not tell precisely enough when it was given.
ANSWER_S_MAX = 2.0
# How long the server's time is extrapolated by the monotonic clock; then it is unknown.
READING_S_MAX = 60.0
CLOCK_PART = "clock"

log = logging.getLogger(__name__)


class ServerClock:
    """The current time, and whether this machine and the server agree on it.

    The server's time is read every few seconds and extrapolated by the monotonic clock, so that a
    step of the local clock shows at once. `clock` is the local one.
    """

    def __init__(
        self, clock: Callable[[], datetime] = now, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._read: tuple[datetime, float] | None = None

    def take(self, server_at: datetime, asked_at: float, answered_at: float) -> None:
        """Record a time that the server sent between two readings of the monotonic clock."""
        if answered_at - asked_at <= ANSWER_S_MAX:
            self._read = server_at, (asked_at + answered_at) / 2

    def skew_s(self) -> float | None:
        """Return how far the local clock is ahead of the server's; None if unknown."""
        if self._read is None:
            return None
        server_at, read_at = self._read
        elapsed_s = self._monotonic() - read_at
        if elapsed_s > READING_S_MAX:
            return None
        return (self._clock() - server_at).total_seconds() - elapsed_s

    def is_trusted(self) -> bool:
        """Return whether the two clocks agree."""
        skew_s = self.skew_s()
        return skew_s is not None and abs(skew_s) <= CLOCK_SKEW_S_MAX

    def now(self) -> datetime:
        """Return the local time, or the server's while the clocks are known to differ."""
        skew_s, at = self.skew_s(), self._clock()
        if skew_s is None or abs(skew_s) <= CLOCK_SKEW_S_MAX:
            return at
        return at - timedelta(seconds=skew_s)

    def trouble(self) -> str:
        """Explain why the clock is not trusted; "" if it is."""
        skew_s = self.skew_s()
        if skew_s is None:
            return "the log server's time is not known"
        if abs(skew_s) <= CLOCK_SKEW_S_MAX:
            return ""
        direction = "ahead of" if skew_s > 0 else "behind"
        limit = f"the limit is {CLOCK_SKEW_S_MAX:.0f} s"
        return f"this machine's clock is {abs(skew_s):.0f} s {direction} the log server's: {limit}"

    async def watch(
        self,
        read: Callable[[], Awaitable[datetime]],
        ail: HealthReporter,
        measured: Callable[[float], None],
    ) -> None:
        """Read the server's time without end; report to /healthz, and the skew to `measured`."""
        while True:
            asked_at = self._monotonic()
            try:
                self.take(await read(), asked_at, self._monotonic())
            except Failed as failed:
                warn_rarely(log, CLOCK_PART, "the log server's time cannot be read: %s", failed)
            if trouble := self.trouble():
                key = f"{CLOCK_PART} trouble"
                warn_rarely(log, key, "%s; nothing is ended as overdue", trouble)
            ail(CLOCK_PART, trouble or None)
            if (skew_s := self.skew_s()) is not None:
                measured(skew_s)
            await asyncio.sleep(READ_EVERY_S)


BEAT_BYTES_MAX = 64 * 1024
# The largest integer that the read models can hold.
NUMBER_MAX = 2**31 - 1


class Heartbeat(msgspec.Struct, frozen=True):
    """What an agent writes every few seconds."""

    session: str
    is_free: bool
    registration: AgentRegistered


def _parse_offer(agent: str, value: bytes) -> Offer:
    """Decode a heartbeat and check its bounds. Raises ValueError, also for invalid JSON."""
    if len(value) > BEAT_BYTES_MAX:
        raise ValueError(f"its heartbeat has {len(value)} bytes, over {BEAT_BYTES_MAX}")
    heartbeat = msgspec.json.decode(value, type=Heartbeat)
    registration = heartbeat.registration
    subjects.agent(agent)
    subjects.pool(registration.gpu)
    for number in (registration.count, registration.memory_mib, registration.sandbox_memory_mib):
        if not 0 <= number <= NUMBER_MAX:
            raise ValueError(f"{number} is neither a number of GPUs nor a memory size in MiB")
    return Offer(agent, heartbeat.session, heartbeat.is_free, registration)


@dataclass
class Presence:
    """The agents that are alive; just after the start a missing agent is unknown, not gone.

    The bus reports who is gone and counts only while it is connected, so an outage of the bus does
    not look like silent agents.
    """

    silent_s_max: float
    began: float = field(default_factory=time.monotonic)
    heard: dict[str, Offer] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, bus: Bus) -> None:
        """Read heartbeats until cancelled."""
        async for beat in bus.beats():
            offer = None
            try:
                offer = None if beat.value is None else _parse_offer(beat.agent, beat.value)
            except ValueError as error:
                log.warning("agent %s sent an invalid heartbeat: %s", beat.agent, error)
            if self.heard.get(beat.agent) == offer:
                continue
            self.changed.set()
            if offer is None:
                del self.heard[beat.agent]
            else:
                self.heard[beat.agent] = offer

    def offers(self) -> dict[str, Offer]:
        """Return the agents that are alive."""
        return dict(self.heard)

    def is_settled(self) -> bool:
        """Return whether a missing agent is gone, not merely unheard."""
        return time.monotonic() - self.began > self.silent_s_max

    async def news(self) -> None:
        """Return as soon as an agent appeared, left or changed its heartbeat."""
        await self.changed.wait()
        self.changed.clear()
