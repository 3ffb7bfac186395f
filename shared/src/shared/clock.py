"""The clock and the dice; the core gets both from its caller."""

import os
import time
from datetime import UTC, datetime


def now() -> datetime:
    """This instant, in UTC; never used for order, which is the log's."""
    return datetime.now(UTC)


def new_id() -> str:
    """A fresh UUIDv7: milliseconds since 1970, then 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
