"""The port to whatever makes samples: a gate in the supervisor, or synthetic ones in tests."""

from dataclasses import dataclass
from typing import Protocol

CONTAMINATED = "contaminated"
DRY = "dry"
LATE = "late"
SPOT = "spot"
# These samples say nothing of the submission, and do not count.
DROPPED = frozenset({CONTAMINATED, DRY, SPOT})


@dataclass(frozen=True)
class Sample:
    """One timed call, in microseconds, without the time lost to other processes.

    `contaminated`: the core was taken away; `dry`: the launch was not hidden behind a spin; `late`:
    enqueueing outlasted the gate, so the time holds a part of it; `spot`: revealed otherwise than
    the others, to check on them.
    """

    time_us: float
    flags: tuple[str, ...] = ()
    lost_us: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Whether the sample counts."""
        return not self.flags or DROPPED.isdisjoint(self.flags)


class Source(Protocol):
    """One case in one fresh process, one call at a time; each output is checked as it comes."""

    def call(self) -> Sample:
        """One call of the submission."""

    def null(self) -> Sample:
        """The same call with nothing in it, in a worker of the platform's own."""

    def probe(self) -> float | None:
        """The platform's fixed work where the submission runs, in microseconds; None for none."""

    def reference(self, name: str) -> float:
        """One call of the platform's own kernel `fma` or `copy`, in microseconds."""
