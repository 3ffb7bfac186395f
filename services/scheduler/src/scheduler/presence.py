"""Who is alive, from the heartbeats in the bucket LEASES."""

import time
from dataclasses import dataclass, field

import msgspec

from scheduler.domain.rules import Offer
from shared.bus import Bus
from shared.events import AgentRegistered


class Heartbeat(msgspec.Struct, frozen=True):
    """What an agent writes every few seconds."""

    session: str
    is_free: bool
    registration: AgentRegistered


@dataclass
class Presence:
    """The agents heard of lately; silence is only believed after a whole interval of listening.

    The bucket is in memory: after a restart of the server it is empty and no marker comes, so an
    agent's own age counts, and at the start a missing one is unknown before it is gone.
    """

    silent_s_max: float
    began: float = field(default_factory=time.monotonic)
    heard: dict[str, tuple[float, Offer]] = field(default_factory=dict)

    async def watch(self, bus: Bus) -> None:
        """Hear heartbeats for ever."""
        async for beat in bus.beats():
            if beat.value is None:
                self.heard.pop(beat.agent, None)
            else:
                said = msgspec.json.decode(beat.value, type=Heartbeat)
                offer = Offer(beat.agent, said.session, said.is_free, said.registration)
                self.heard[beat.agent] = time.monotonic(), offer

    def offers(self) -> dict[str, Offer]:
        """The agents that are alive."""
        since = time.monotonic() - self.silent_s_max
        return {name: offer for name, (at, offer) in self.heard.items() if at > since}

    def is_settled(self) -> bool:
        """Whether an agent that is missing is gone, not merely unheard."""
        return time.monotonic() - self.began > self.silent_s_max
