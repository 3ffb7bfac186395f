"""What is said and not kept: who is alive, and how far each run is."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.bus import Bus

PROGRESS_MAX = 1000


@dataclass
class Live:
    """The newest heartbeat of each agent and the newest word on each running submission."""

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    progress: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)

    async def watch_agents(self, bus: Bus) -> None:
        """Hear heartbeats for ever."""
        async for beat in bus.beats():
            if beat.value is None:
                self.agents.pop(beat.agent, None)
            else:
                self.agents[beat.agent] = msgspec.json.decode(beat.value)

    async def watch_progress(self, bus: Bus) -> None:
        """Hear progress for ever; the oldest word is forgotten past 1000."""
        async for topic, data in bus.hear("progress.>"):
            submission = topic.partition(".")[2]
            self.progress[submission] = msgspec.json.decode(data)
            self.progress.move_to_end(submission)
            if len(self.progress) > PROGRESS_MAX:
                self.progress.popitem(last=False)

    def alive(self) -> dict[str, dict[str, Any]]:
        """The agents that live, with what they offer."""
        return dict(self.agents)
