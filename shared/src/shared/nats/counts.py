"""What the adapters count of themselves, for whoever shows it to operators."""

from bisect import bisect_left
from dataclasses import dataclass, field

# Upper bounds of the buckets, in seconds; what took longer is in the last, which has none.
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0)


@dataclass
class Seconds:
    """How long something took: how often within each bound, and in all."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def add(self, took_s: float) -> None:
        """It took so long once more."""
        self.buckets[bisect_left(BOUNDS_S, took_s)] += 1
        self.total_s += took_s


@dataclass
class Counts:
    """Of one log in one process: appends, and the feeds that follow it.

    `append` has every append that was stored, a batch being one; `grouped` of them were stored
    together with others'.
    """

    append: Seconds = field(default_factory=Seconds)
    grouped: int = 0
    conflicts: int = 0
    pump_restarts: int = 0
    gaps: int = 0
