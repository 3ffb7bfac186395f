"""The clock and the random ids; the core gets both as arguments."""

import os
import time
from datetime import UTC, datetime
from uuid import UUID


def now() -> datetime:
    """Return the current time in UTC; never used for ordering, which the log defines."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a new UUIDv7: milliseconds since 1970, then 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(UUID(int=value))
