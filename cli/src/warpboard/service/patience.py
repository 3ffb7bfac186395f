"""Asking again while the platform does not answer, for a bounded time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from warpboard.service.ports import Unavailable

PAUSE_S_MIN = 0.2
PAUSE_S_MAX = 2.0

T = TypeVar("T")


async def persist(
    ask: Callable[[], Awaitable[T]],
    within_s: float,
    troubled: Callable[[str], None],
) -> T:
    """The answer, asked for again and again; `troubled` hears of each failure.

    Errors: Unavailable when `within_s` are over; all others at once.
    """
    until = time.monotonic() + within_s
    pause_s = PAUSE_S_MIN
    while True:
        try:
            return await ask()
        except Unavailable as trouble:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise
            troubled(f"{trouble}; trying for {left_s:.0f} s more")
            wait_s = max(pause_s, trouble.wait_s or 0.0)
        await asyncio.sleep(min(wait_s, left_s))
        pause_s = min(2 * pause_s, PAUSE_S_MAX)
