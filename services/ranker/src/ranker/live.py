"""What is said and not kept: who is alive, how far each run is, how long each queue takes."""

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
    """The newest heartbeat of each agent, word on each running submission, forecast of a queue."""

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    progress: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)
    queues: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)

    async def watch_agents(self, bus: Bus) -> None:
        """Hear heartbeats for ever."""
        async for beat in bus.beats():
            said = beat.value and _read(beat.value, _Offer)
            if said:
                self.agents[beat.agent] = said
            else:
                self.agents.pop(beat.agent, None)

    async def watch_progress(self, bus: Bus) -> None:
        """Hear progress for ever; the oldest word is forgotten past 1000."""
        async for topic, data in bus.hear("progress.>"):
            _keep(self.progress, topic, data, PROGRESS_MAX)

    async def watch_queues(self, bus: Bus) -> None:
        """Hear scheduler's forecasts for ever."""
        async for topic, data in bus.hear("queue.>"):
            _keep(self.queues, topic, data, QUEUES_MAX)

    def alive(self) -> dict[str, dict[str, Any]]:
        """The agents that live, with what they offer."""
        return dict(self.agents)


def _read(data: bytes, kind: type[_Kind]) -> dict[str, Any] | None:
    """What was said, as plain data; None if it is not of this kind: who says so is not heard."""
    try:
        msgspec.json.decode(data, type=kind)
        found: dict[str, Any] = msgspec.json.decode(data)
    except ValueError as error:
        log.warning("somebody says what cannot be read: %s", error)
        return None
    return found


def _keep(words: OrderedDict[str, dict[str, Any]], topic: str, data: bytes, words_max: int) -> None:
    """Remember the newest word of a topic, and forget the oldest where there are too many."""
    name, said = topic.partition(".")[2], _read(data, dict)
    if said is None:
        return
    words[name] = said
    words.move_to_end(name)
    if len(words) > words_max:
        words.popitem(last=False)
