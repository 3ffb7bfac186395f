"""This machine's clock beside the log server's: one that is wrong must not decide what is late."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from shared.clock import now
from shared.errors import Failed
from shared.outages import Ail, warn_rarely

# Whoever differs by more decides nothing that depends on the hour.
CLOCK_SKEW_S_MAX = 5.0
READ_EVERY_S = 5.0
# An answer that took longer says too little of when it was given.
ANSWER_S_MAX = 2.0
# So long the server's time goes on here by the monotonic clock; after that it is unknown.
READING_S_MAX = 60.0
PART = "clock"

_log = logging.getLogger(__name__)


class ServerClock:
    """What the time is, and whether this machine and the server agree on it.

    The server's time is read every few seconds and continued by the monotonic clock, so that a
    step of the local clock shows at once. `clock` is the local one.
    """

    def __init__(
        self,
        clock: Callable[[], datetime] = now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._read: tuple[datetime, float] | None = None

    def take(self, server_at: datetime, asked_at: float, answered_at: float) -> None:
        """Take in a time that the server told between two readings of the monotonic clock."""
        if answered_at - asked_at <= ANSWER_S_MAX:
            self._read = server_at, (asked_at + answered_at) / 2

    def skew_s(self) -> float | None:
        """How far the local clock is ahead of the server's; None while that is not known."""
        if self._read is None:
            return None
        server_at, read_at = self._read
        gone_s = self._monotonic() - read_at
        if gone_s > READING_S_MAX:
            return None
        return (self._clock() - server_at).total_seconds() - gone_s

    def is_trusted(self) -> bool:
        """Whether the two agree."""
        skew_s = self.skew_s()
        return skew_s is not None and abs(skew_s) <= CLOCK_SKEW_S_MAX

    def now(self) -> datetime:
        """The local time; the server's while the two are known to differ."""
        skew_s, at = self.skew_s(), self._clock()
        if skew_s is None or abs(skew_s) <= CLOCK_SKEW_S_MAX:
            return at
        return at - timedelta(seconds=skew_s)

    def trouble(self) -> str:
        """Why the clock is not trusted, "" if it is."""
        skew_s = self.skew_s()
        if skew_s is None:
            return "the log server's time is not known"
        if abs(skew_s) <= CLOCK_SKEW_S_MAX:
            return ""
        word = "ahead of" if skew_s > 0 else "behind"
        limit = f"the limit is {CLOCK_SKEW_S_MAX:.0f} s"
        return f"this machine's clock is {abs(skew_s):.0f} s {word} the log server's: {limit}"

    async def watch(
        self,
        read: Callable[[], Awaitable[datetime]],
        ail: Ail,
        measured: Callable[[float], None],
    ) -> None:
        """Read the server's time for ever; tell /healthz, and the skew to `measured`."""
        while True:
            asked_at = self._monotonic()
            try:
                self.take(await read(), asked_at, self._monotonic())
            except Failed as failed:
                warn_rarely(_log, PART, "the log server's time cannot be read: %s", failed)
            if trouble := self.trouble():
                warn_rarely(_log, f"{PART} trouble", "%s; nothing is ended as overdue", trouble)
            ail(PART, trouble or None)
            skew_s = self.skew_s()
            if skew_s is not None:
                measured(skew_s)
            await asyncio.sleep(READ_EVERY_S)
