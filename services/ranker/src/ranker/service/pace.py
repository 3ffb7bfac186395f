"""When the next batch is folded: at once while few come, at a measured pace while many do."""

import time
from collections.abc import Callable
from dataclasses import dataclass

# A batch costs about as much as fifty events (two cores, 2026-11). The events of one submission
# come apart, so they are as many batches: those never wait.
EVERY_S = 0.02
AT_ONCE = 16


@dataclass
class Pace:
    """So many batches go at once, and one more in each `every_s` that passes; others wait."""

    every_s: float = EVERY_S
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.monotonic
    spent_until: float = 0.0

    def pause_s(self) -> float:
        """How long the batch that comes now is to gather more events.

        >>> pace = Pace(every_s=1.0, at_once=2, clock=lambda: 100.0)
        >>> [pace.pause_s() for _ in range(4)]
        [0.0, 0.0, 1.0, 2.0]
        """
        now = self.clock()
        self.spent_until = max(self.spent_until, now) + self.every_s
        return max(0.0, self.spent_until - now - self.at_once * self.every_s)
