"""The time of a run that no stage counts: its builds, imports and shape warm-ups.

A compiler may work for minutes there, so these parts have a long budget of wall time, each alone
and all together. A part that uses no processor does not prepare anything, so idle time is limited
much more tightly. Time in which the submission waits for a busy core is not idle.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Protocol

from harness.messages import CaseFailed
from harness.sandbox.linux import Activity

# All parts of a run together may take this many times what one import may take, and one build.
PARTS_MAX = 10
# The idle time of all parts together: enough for imports from a slow disk.
IDLE_S_MAX = 20.0
# How often a part is looked at; a look reads all of /proc.
LOOK_S = 0.5
# How often a part that can be paused looks whether it must be, which is two system calls.
PAUSE_LOOK_S = 0.05


class Workers(Protocol):
    """What a part measures: the workers of one box and everything that they started."""

    def activity(self) -> Activity:
        """Return the CPU seconds used until now, and whether a process wants a core."""

    def waited_us(self) -> float:
        """Return the microseconds that workers waited for a core; 0 if not counted."""


@dataclass
class PreparationBudget:
    """What the preparation of one submission may take in a run, and what it took so far."""

    wall_s_max: float
    idle_s_max: float = IDLE_S_MAX
    wall_s: float = 0.0
    idle_s: float = 0.0
    cpu_s: float = 0.0

    @contextmanager
    def part(
        self,
        name: str,
        limit_s: float,
        workers: Workers,
        pause: Callable[[], float] | None = None,
    ) -> Iterator["PreparationPart"]:
        """Count the time within as a part. Raises CaseFailed if nothing is left of the budget.

        `pause` pauses the workers while it must be, and returns the seconds that do not count.
        """
        part = PreparationPart(self, name, limit_s, workers, pause)
        self.require(name)
        try:
            yield part
        finally:
            part.charge()

    def require(self, name: str) -> None:
        """Raise CaseFailed `timed_out` if the budget is used up while the named part runs."""
        used = f"in {self.wall_s:.1f} s they used {self.cpu_s:.1f} s of processor time"
        if self.idle_s > self.idle_s_max:
            reason = f"{name} was stopped: the build, the imports and the warm-ups of a run"
            reason += f" may be idle for {self.idle_s_max:g} s together, and {used}"
            raise CaseFailed("timed_out", reason)
        if self.wall_s > self.wall_s_max:
            reason = f"{name} was stopped: the build, the imports and the warm-ups of this run"
            reason += f" may take {self.wall_s_max:g} s together, and {used}"
            raise CaseFailed("timed_out", reason)


class PreparationPart:
    """One build, import or warm-up while it lasts."""

    def __init__(
        self,
        budget: PreparationBudget,
        name: str,
        limit_s: float,
        workers: Workers,
        pause: Callable[[], float] | None = None,
    ) -> None:
        self._budget = budget
        self._name = name
        self._limit_s = limit_s
        self._workers = workers
        self._pause = pause
        self._began = self._charged_at = time.monotonic()
        self._cpu_before_s = self._cpu_s = workers.activity().cpu_s
        self._waited_s = workers.waited_us() / 1e6

    @property
    def look_at(self) -> float:
        """The instant of the monotonic clock of the next look."""
        pause_look_at = time.monotonic() + PAUSE_LOOK_S if self._pause else inf
        return min(self._next_charge_at, self._began + self._limit_s, pause_look_at)

    @property
    def _next_charge_at(self) -> float:
        return self._charged_at + LOOK_S

    def look(self) -> None:
        """Pause the part if it must be, and charge the time since the last look, now and then.

        Raises CaseFailed `timed_out` if it was too much.
        """
        paused_s = self._pause() if self._pause else 0.0
        # Nothing runs during a pause, so all that is charged is from before it.
        self._began += paused_s
        self._charged_at += paused_s
        if time.monotonic() < min(self._next_charge_at, self._began + self._limit_s):
            return
        self.charge()
        self._budget.require(self._name)
        if self._charged_at >= self._began + self._limit_s:
            used_s = self._cpu_s - self._cpu_before_s
            reason = f"{self._name} took more than {self._limit_s:g} s"
            raise CaseFailed("timed_out", f"{reason}; it used {used_s:.1f} s of processor time")

    def charge(self) -> None:
        """Charge the time since the last look: all of it, and what was idle of it."""
        now, activity = time.monotonic(), self._workers.activity()
        waited_s = self._workers.waited_us() / 1e6
        wall_s = now - self._charged_at
        cpu_s = max(0.0, activity.cpu_s - self._cpu_s)
        self._budget.wall_s += wall_s
        self._budget.cpu_s += cpu_s
        if not activity.is_running:
            self._budget.idle_s += max(0.0, wall_s - cpu_s - (waited_s - self._waited_s))
        self._charged_at, self._waited_s = now, waited_s
        self._cpu_s = max(self._cpu_s, activity.cpu_s)
