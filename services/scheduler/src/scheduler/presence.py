"""Who is alive, from the heartbeats in the bucket LEASES."""

import asyncio
import logging
import time
from dataclasses import dataclass, field

import msgspec

from scheduler.domain.moves import Offer
from shared import subjects
from shared.bus import Beat, Bus
from shared.events import AgentRegistered

log = logging.getLogger(__name__)

BEAT_BYTES_MAX = 64 * 1024
# As the read models keep them.
NUMBER_MAX = 2**31 - 1


class Heartbeat(msgspec.Struct, frozen=True):
    """What an agent writes every few seconds."""

    session: str
    is_free: bool
    registration: AgentRegistered


def _readable(agent: str, value: bytes) -> Heartbeat:
    """A heartbeat that can be recorded as it is. Errors: ValueError, msgspec's among them."""
    if len(value) > BEAT_BYTES_MAX:
        raise ValueError(f"its heartbeat has {len(value)} bytes, over {BEAT_BYTES_MAX}")
    said = msgspec.json.decode(value, type=Heartbeat)
    subjects.agent(agent)
    subjects.pool(said.registration.gpu)
    own = said.registration
    for number in (own.count, own.memory_mib, own.sandbox_memory_mib):
        if not 0 <= number <= NUMBER_MAX:
            raise ValueError(f"{number} is no count of GPUs and no memory of one in MiB")
    return said


def _offer(beat: Beat) -> Offer | None:
    """What an agent says; nothing if it is gone, or says what nobody can understand."""
    if beat.value is None:
        return None
    try:
        said = _readable(beat.agent, beat.value)
    except ValueError as error:
        log.warning("agent %s says what cannot be read: %s", beat.agent, error)
        return None
    return Offer(beat.agent, said.session, said.is_free, said.registration)


@dataclass
class Presence:
    """The agents that live; at the start a missing one is unknown before it is gone.

    The bus says who is gone, counting only while it is connected: an outage of the bus is no
    agent's silence.
    """

    silent_s_max: float
    began: float = field(default_factory=time.monotonic)
    heard: dict[str, Offer] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, bus: Bus) -> None:
        """Hear heartbeats for ever."""
        async for beat in bus.beats():
            offer = _offer(beat)
            if self.heard.get(beat.agent) == offer:
                continue
            self.changed.set()
            if offer is None:
                del self.heard[beat.agent]
            else:
                self.heard[beat.agent] = offer

    def offers(self) -> dict[str, Offer]:
        """The agents that are alive."""
        return dict(self.heard)

    def is_settled(self) -> bool:
        """Whether an agent that is missing is gone, not merely unheard."""
        return time.monotonic() - self.began > self.silent_s_max

    async def news(self) -> None:
        """Return as soon as an agent came, went or said something else than before."""
        await self.changed.wait()
        self.changed.clear()
