"""How many threads want a core of this machine, and waiting until it has enough cores for them.

Read it while the workers are frozen: then the only thread of ours that runs is the one that reads.
In a container the figures are the machine's, which shares its cores with others.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

_STAT = Path("/proc/stat")
_FIELD = "procs_running "
# The number of runnable threads changes within milliseconds, so the majority of several counts.
_READINGS = 9
_READING_EVERY_S = 0.005
_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Crowding:
    """How many threads of others run or wait for a core, and how many cores there are."""

    runnable: int
    cores: int

    @property
    def is_crowded(self) -> bool:
        """Whether the others alone want more cores than there are."""
        return self.runnable > self.cores


def crowding(stat: Path = _STAT) -> Crowding:
    """Return how crowded the machine is at this moment; never crowded where that is unknown."""
    try:
        lines = stat.read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    counts = (int(line.removeprefix(_FIELD)) for line in lines if line.startswith(_FIELD))
    # The thread that reads runs, too.
    return Crowding(max(0, next(counts, 1) - 1), os.cpu_count() or 1)


@dataclass
class QuietWait:
    """Waits while the machine is crowded, in one run for at most `left_s` seconds together."""

    left_s: float
    read: Callable[[], Crowding] = crowding
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic

    def wait(self) -> str:
        """Wait until the machine is quiet; return why the run cannot be timed, "" if it can.

        A run that was given no time to wait is timed on any machine.
        """
        if self.left_s <= 0:
            return ""
        began = self.now()
        runnable = []
        while (present := self._take_majority()).is_crowded:
            runnable.append(present.runnable)
            waited_s = self.now() - began
            if waited_s >= self.left_s:
                threads = median_low(runnable)
                return (
                    f"the machine is busy: {threads} runnable threads on {present.cores} cores "
                    f"for {waited_s:.0f} s; the run was not timed"
                )
            self.sleep(min(_LOOK_EVERY_S, self.left_s - waited_s))
        # A later wait of the run still looks once.
        self.left_s = max(_READING_EVERY_S, self.left_s - (self.now() - began))
        return ""

    def _take_majority(self) -> Crowding:
        """Return the median of several readings; a quiet machine needs just over half of them."""
        readings: list[Crowding] = []
        while len(readings) < _READINGS:
            readings.append(self.read())
            if sum(not reading.is_crowded for reading in readings) > _READINGS // 2:
                return readings[-1]
            self.sleep(_READING_EVERY_S)
        runnable = median_low(reading.runnable for reading in readings)
        return Crowding(runnable, readings[-1].cores)
