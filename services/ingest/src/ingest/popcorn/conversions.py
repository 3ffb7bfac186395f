"""Conversions between the client's terms and ours."""

import hashlib
import math
import re
from datetime import UTC, datetime
from typing import overload

# The client's modes and ours; the client lower-cases modes, and so do we.
MODES = {"test": "test", "benchmark": "benchmark", "leaderboard": "ranked", "profile": "profile"}
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,94}\Z")
GPU = re.compile(r"[A-Za-z0-9_]{1,32}\Z")
ERROR_LENGTH_MAX = 1500
DESCRIPTION_LENGTH_MAX = 400
US_PER_S = 1e6
# JSON readers keep integers up to 2^53 - 1; 48 bits of a digest do not collide by chance.
_ID_BYTES = 6


def leaderboard_id(slug: str) -> int:
    """Return the client's integer id of a leaderboard, derived from its slug.

    >>> leaderboard_id("matmul") == leaderboard_id("matmul") < 2**53
    True
    """
    return int.from_bytes(hashlib.sha256(slug.encode()).digest()[:_ID_BYTES], "big")


def seconds(time_us: float | None) -> float | None:
    """Return a score in seconds, None unless it is finite and above 0.

    >>> seconds(1500.0), seconds(0.0), seconds(float("nan"))
    (0.0015, None, None)
    """
    if time_us is None or not math.isfinite(time_us) or time_us <= 0:
        return None
    return time_us / US_PER_S


@overload
def instant(at: datetime) -> str: ...
@overload
def instant(at: datetime | None) -> str | None: ...
def instant(at: datetime | None) -> str | None:
    """An instant in UTC, as RFC 3339 with Z.

    >>> instant(datetime(2026, 1, 2, 3, tzinfo=UTC))
    '2026-01-02T03:00:00.000000Z'
    """
    if at is None:
        return None
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def terminal_text(text: str, length_max: int = ERROR_LENGTH_MAX) -> str:
    """Return text that is safe for a terminal: printable ASCII of limited length.

    The client cuts what it prints at a byte and fails on a split character.

    >>> terminal_text("a\\x1b[31m\\u00e9\\n")
    'a?[31m?'
    """
    cleaned = "".join(
        character if " " <= character <= "~" or character in "\n\t" else "?" for character in text
    ).strip()
    return cleaned if len(cleaned) <= length_max else f"{cleaned[: length_max - 3]}..."
