"""The simulator's clock, which tests can advance or stop, and ids based on it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

# Discord counts milliseconds from the first second of 2015.
EPOCH_MS = 1_420_070_400_000
SEQUENCE_BITS = 22


class Clock:
    """The wall clock plus an offset that tests control."""

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._stopped_at: float | None = None
        self._turned = asyncio.Event()

    def now(self) -> float:
        """Return the time in seconds since 1970."""
        wall_s = time.time() if self._stopped_at is None else self._stopped_at
        return wall_s + self._ahead_s

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let time pass only by `turn`, so that a busy machine exceeds no limits."""
        self._stopped_at = time.time()
        try:
            yield
        finally:
            stopped_s = time.time() - self._stopped_at
            self._stopped_at = None
            self.turn(-stopped_s)

    def turn(self, seconds: float) -> None:
        """Advance the clock, and wake all waiters."""
        self._ahead_s += seconds
        self._turned.set()
        self._turned = asyncio.Event()

    async def until(self, at: float) -> None:
        """Wait until an instant, in real or advanced time."""
        while (left_s := at - self.now()) > 0:
            is_stopped = self._stopped_at is not None
            try:
                async with asyncio.timeout(None if is_stopped else left_s):
                    await self._turned.wait()
            except TimeoutError:
                continue

    def iso(self) -> str:
        """Return the time as Discord formats it."""
        return datetime.fromtimestamp(self.now(), UTC).isoformat()


class Ids:
    """Snowflakes: the time in milliseconds and a counter."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0

    def next(self) -> str:
        """Return an unused id."""
        self._count += 1
        since_ms = int(self._clock.now() * 1000) - EPOCH_MS
        return str(since_ms << SEQUENCE_BITS | self._count & (1 << SEQUENCE_BITS) - 1)
