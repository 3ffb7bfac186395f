"""The public client's words for ours, and the names that its routes keep for themselves."""

import hashlib
import math
import re
from datetime import UTC, datetime
from typing import overload

# The client's mode, and ours; it lower-cases what it is told, and so do we.
MODES = {"test": "test", "benchmark": "benchmark", "leaderboard": "ranked", "profile": "profile"}
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,94}\Z")
GPU = re.compile(r"[A-Za-z0-9_]{1,32}\Z")
ERROR_LENGTH_MAX = 1500
DESCRIPTION_LENGTH_MAX = 400
US_PER_S = 1e6
# A JSON reader keeps integers up to 2^53 - 1; 48 bits of a digest never meet by chance.
_ID_BYTES = 6


def leaderboard_id(slug: str) -> int:
    """The integer that the client knows a leaderboard by, made of its slug alone.

    >>> leaderboard_id("matmul") == leaderboard_id("matmul") < 2**53
    True
    """
    return int.from_bytes(hashlib.sha256(slug.encode()).digest()[:_ID_BYTES], "big")


def seconds(time_us: float | None) -> float | None:
    """A score in seconds; None for what is none: a score is finite and above 0.

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


def plain(text: str, length_max: int = ERROR_LENGTH_MAX) -> str:
    """Text for somebody's terminal: ASCII, nothing that steers it, and no longer than that.

    The client cuts what it prints at a byte and breaks on a character that it splits.

    >>> plain("a\\x1b[31m\\u00e9\\n")
    'a?[31m?'
    """
    kept = "".join(one if " " <= one <= "~" or one in "\n\t" else "?" for one in text).strip()
    return kept if len(kept) <= length_max else f"{kept[: length_max - 3]}..."
