"""The ports as dicts: for tests of services, with the promises the real ones keep."""

from shared.memory.blobs import MemoryBlobs
from shared.memory.bus import MemoryBus
from shared.memory.deadletters import MemoryDeadLetters
from shared.memory.log import MemoryLog
from shared.memory.outbox import MemoryOutbox
from shared.memory.snapshots import MemorySnapshots

__all__ = [
    "MemoryBlobs",
    "MemoryBus",
    "MemoryDeadLetters",
    "MemoryLog",
    "MemoryOutbox",
    "MemorySnapshots",
]
