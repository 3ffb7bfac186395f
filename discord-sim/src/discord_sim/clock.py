"""The time at the simulator, which a test may turn forward or stop, and ids made of it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

# Discord counts milliseconds from the first second of 2015.
EPOCH_MS = 1_420_070_400_000
SEQUENCE_BITS = 22


class Clock:
    """The wall's clock plus what a test turned it by."""

    def __init__(self) -> None:
        """A clock that has not been turned."""
        self._ahead_s = 0.0
        self._stopped_at: float | None = None
        self._turned = asyncio.Event()

    def now(self) -> float:
        """Seconds since 1970."""
        wall_s = time.time() if self._stopped_at is None else self._stopped_at
        return wall_s + self._ahead_s

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let time pass by `turn` alone: no limit is exceeded because the machine is busy."""
        self._stopped_at = time.time()
        try:
            yield
        finally:
            left_out_s = time.time() - self._stopped_at
            self._stopped_at = None
            self.turn(-left_out_s)

    def turn(self, seconds: float) -> None:
        """Let time pass at once; whoever waits for it is told."""
        self._ahead_s += seconds
        self._turned.set()
        self._turned = asyncio.Event()

    async def until(self, at: float) -> None:
        """Wait for an instant, however it comes."""
        while (left_s := at - self.now()) > 0:
            is_stopped = self._stopped_at is not None
            try:
                await asyncio.wait_for(self._turned.wait(), None if is_stopped else left_s)
            except TimeoutError:
                continue

    def iso(self, at: float | None = None) -> str:
        """An instant as Discord writes it; now, if none is given."""
        return datetime.fromtimestamp(self.now() if at is None else at, UTC).isoformat()


class Ids:
    """Snowflakes: the time in milliseconds, then a number that grows."""

    def __init__(self, clock: Clock) -> None:
        """The ids of one simulator."""
        self._clock = clock
        self._given = 0

    def next(self) -> str:
        """An id that nothing has yet."""
        self._given += 1
        since_ms = int(self._clock.now() * 1000) - EPOCH_MS
        return str(since_ms << SEQUENCE_BITS | self._given & (1 << SEQUENCE_BITS) - 1)
