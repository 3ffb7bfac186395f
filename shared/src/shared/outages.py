"""Retry a part of a process while something outside is away: report, wait, try again."""

import asyncio
import logging
import time
from collections.abc import Callable

from shared.errors import Failed

PAUSE_S_MIN = 0.5
PAUSE_S_MAX = 5.0
# A part that fails again within this time has not recovered, even if it worked for a moment.
RECOVERED_AFTER_S = 10.0

# During an outage the same warning may come with every request.
REPEAT_S = 60.0

_log = logging.getLogger(__name__)

# Marks a part as failing with a reason, or as healthy with None.
HealthReporter = Callable[[str, str | None], None]


# The time of a warning's last log line, by key, and how many were suppressed since.
_warned: dict[str, tuple[float, int]] = {}


def warn_rarely(logger: logging.Logger, key: str, message: str, *values: object) -> None:
    """Log a warning at most once a minute per key; the next one says how many were left out.

    Keys must be constants, so that there are few.
    """
    last_at, left_out = _warned.get(key, (float("-inf"), 0))
    if time.monotonic() - last_at < REPEAT_S:
        _warned[key] = (last_at, left_out + 1)
        return
    _warned[key] = (time.monotonic(), 0)
    logger.warning(message, *values, extra={"left_out": left_out})


class Outage:
    """Retries of one part of a process, with growing pauses and few log lines.

    `ail` reports the part to /healthz, with the reason, or None when it works again; the default
    is for parts that /healthz does not name.
    """

    def __init__(
        self,
        part: str,
        ail: HealthReporter = lambda _part, _reason: None,
        pause_s_min: float = PAUSE_S_MIN,
        pause_s_max: float = PAUSE_S_MAX,
    ) -> None:
        self.part = part
        self._ail = ail
        self._pause_s_min, self._pause_s_max = pause_s_min, pause_s_max
        self._pause_s = pause_s_min
        self._worked_at: float | None = None

    def end(self) -> None:
        """Record that the part works."""
        self._ail(self.part, None)
        self._worked_at = time.monotonic()

    async def wait(self, failed: Failed) -> None:
        """Record that the part failed, and pause before the next try."""
        self._ail(self.part, str(failed))
        warn_rarely(_log, self.part, "%s: waiting: %s", self.part, failed)
        worked_at, self._worked_at = self._worked_at, None
        if worked_at is not None and time.monotonic() - worked_at > RECOVERED_AFTER_S:
            self._pause_s = self._pause_s_min
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, self._pause_s_max)
