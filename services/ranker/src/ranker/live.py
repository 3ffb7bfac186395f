"""What is announced but not stored: live agents, progress of runs, forecasts of queues."""

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from shared.bus import Bus
from shared.events import AgentRegistered

log = logging.getLogger(__name__)

PROGRESS_MAX = 1000
QUEUES_MAX = 256
_Kind = TypeVar("_Kind")


class _Offer(msgspec.Struct):
    session: str
    is_free: bool
    registration: AgentRegistered


@dataclass
class Live:
    """The newest heartbeat of each agent, progress of each run and forecast of each queue."""

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    progress: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)
    queues: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)

    async def watch_agents(self, bus: Bus) -> None:
        """Follow heartbeats for ever."""
        async for beat in bus.beats():
            offer = beat.value and _decode(beat.value, _Offer)
            if offer:
                self.agents[beat.agent] = offer
            else:
                self.agents.pop(beat.agent, None)

    async def watch_progress(self, bus: Bus) -> None:
        """Follow progress messages for ever; only the newest 1000 topics are remembered."""
        async for topic, data in bus.hear("progress.>"):
            _remember(self.progress, topic, data, PROGRESS_MAX)

    async def watch_queues(self, bus: Bus) -> None:
        """Follow the scheduler's forecasts for ever."""
        async for topic, data in bus.hear("queue.>"):
            _remember(self.queues, topic, data, QUEUES_MAX)


def _decode(data: bytes, kind: type[_Kind]) -> dict[str, Any] | None:
    """Decode a message as plain data; None if it is not of this kind."""
    try:
        msgspec.json.decode(data, type=kind)
        message: dict[str, Any] = msgspec.json.decode(data)
    except ValueError as error:
        log.warning("ignored a message that cannot be decoded: %s", error)
        return None
    return message


def _remember(
    messages: OrderedDict[str, dict[str, Any]], topic: str, data: bytes, messages_max: int
) -> None:
    """Remember the newest message of a topic; drop the oldest topic if there are too many."""
    name, message = topic.partition(".")[2], _decode(data, dict)
    if message is None:
        return
    messages[name] = message
    messages.move_to_end(name)
    if len(messages) > messages_max:
        messages.popitem(last=False)
