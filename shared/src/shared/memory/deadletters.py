"""What the inboxes in memory gave up."""

from shared import subjects
from shared.deadletters import DeadLetter, still_dead
from shared.memory.bus import MemoryBus
from shared.memory.log import MemoryLog


class MemoryDeadLetters:
    """The letters of one bus, less what its log says was redriven."""

    def __init__(self, log: MemoryLog, bus: MemoryBus) -> None:
        self._log = log
        self._bus = bus

    async def list(self) -> list[DeadLetter]:
        """The dead letters that nobody has redriven since; see the port."""
        letters, redrives = self._bus.letters(), []
        for consumer in sorted({letter.consumer for letter in letters}):
            redrives += await self._log.history(subjects.redriven(consumer))
        return still_dead(letters, redrives)
