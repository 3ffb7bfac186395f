"""What is said and not kept: who is alive, and how far each run is."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.bus import Bus

PROGRESS_MAX = 1000
AGENT_SILENT_S_MAX = 20.0


@dataclass
class Live:
    """The newest heartbeat of each agent and the newest word on each running submission."""

    agents: dict[str, tuple[float, dict[str, Any]]] = field(default_factory=dict)
    progress: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)

    async def watch_agents(self, bus: Bus) -> None:
        """Hear heartbeats for ever."""
        async for beat in bus.beats():
            if beat.value is None:
                self.agents.pop(beat.agent, None)
            else:
                self.agents[beat.agent] = time.monotonic(), msgspec.json.decode(beat.value)

    async def watch_progress(self, bus: Bus) -> None:
        """Hear progress for ever; the oldest word is forgotten past 1000."""
        async for topic, data in bus.hear("progress.>"):
            submission = topic.partition(".")[2]
            self.progress[submission] = msgspec.json.decode(data)
            self.progress.move_to_end(submission)
            if len(self.progress) > PROGRESS_MAX:
                self.progress.popitem(last=False)

    def alive(self) -> dict[str, dict[str, Any]]:
        """The agents heard of within 20 s, with what they offer."""
        since = time.monotonic() - AGENT_SILENT_S_MAX
        return {name: offer for name, (at, offer) in self.agents.items() if at > since}
