"""A device that computes nothing: it makes up samples, so that timing can be tested anywhere."""

from dataclasses import dataclass
from math import exp, sqrt
from random import Random

from harness.timing.source import CONTAMINATED, DRY, LATE, Sample

_REFERENCES_US = {"fma": 50.0, "copy": 60.0}
_WANDER_MEMORY = 60.0
_OUTLIER = 0.5


@dataclass(frozen=True)
class Machine:
    """How the machine behaves, to everybody alike; fractions, and shares of calls.

    `speed_sd` is how fresh processes differ, `wander_sd` how the clock strays within one;
    `throttle_by` slows everything from call `throttle_at` on; `reasons` say why it is not fit. One
    without `probe_us` has no probe.
    """

    cv: float = 0.005
    speed_sd: float = 0.0
    wander_sd: float = 0.0
    outliers: float = 0.0
    contaminated: float = 0.0
    factor: float = 1.0
    throttle_at: int = 0
    throttle_by: float = 0.0
    step_us: float = 0.0
    null_us: float = 0.0
    null_spread_us: float = 0.0
    probe_us: float = 0.0
    overhead_us: float = 1000.0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """How a submission behaves: `slow_share` of its calls take `slow_by` more, as a fraction.

    `drift` is what each call takes more than the one before; the first `slow_calls` of a process
    take `slow_factor` times as long; `dry` and `late` are shares of its launches. What its calls
    leave behind makes probes take `probe_delay` more, as a fraction.
    """

    time_us: float = 100.0
    slow_share: float = 0.0
    slow_by: float = 0.0
    drift: float = 0.0
    slow_calls: int = 0
    slow_factor: float = 1.0
    dry: float = 0.0
    late: float = 0.0
    probe_delay: float = 0.0


class Fake:
    """A source of samples: one kernel in one fresh process; the same seed, the same samples."""

    def __init__(self, seed: int, kernel: Kernel, machine: Machine) -> None:
        self._chance = Random(seed)  # noqa: S311  (repeatable is what it is for)
        self._kernel = kernel
        self._machine = machine
        self._speed = machine.factor * exp(machine.speed_sd * self._chance.gauss(0, 1))
        self._keeps = exp(-1 / _WANDER_MEMORY)
        self._wander = machine.wander_sd * self._chance.gauss(0, 1)
        odds = ((CONTAMINATED, machine.contaminated), (DRY, kernel.dry), (LATE, kernel.late))
        self._odds = [(name, share) for name, share in odds if share]
        self._now_us = 0.0
        self.calls = 0

    def now_s(self) -> float:
        """The fake's own clock, which its calls alone move."""
        return self._now_us / 1e6

    def health(self) -> tuple[str, ...]:
        """Why the machine is not fit to time."""
        return self._machine.reasons

    def call(self) -> Sample:
        """One call, and a little while around it."""
        kernel, chance = self._kernel, self._chance
        time_us = kernel.time_us * (1 + kernel.drift * self.calls)
        if self.calls < kernel.slow_calls:
            time_us *= kernel.slow_factor
        if kernel.slow_share and chance.random() < kernel.slow_share:
            time_us *= 1 + kernel.slow_by
        self.calls += 1
        self._stray()
        time_us = self._handshake() + self._noisy(time_us)
        return Sample(self._ticks(time_us), self._flags())

    def null(self) -> Sample:
        """One call with nothing in it."""
        return Sample(self._ticks(self._handshake()))

    def probe(self) -> float | None:
        """The fixed work, delayed by what the kernel left behind if it was called already."""
        if not self._machine.probe_us:
            return None
        delay = self._kernel.probe_delay if self.calls else 0.0
        return self._noisy(self._machine.probe_us) * (1 + delay)

    def reference(self, name: str) -> float:
        """One call of a reference kernel."""
        return self._ticks(self._noisy(_REFERENCES_US[name]))

    def _stray(self) -> None:
        if self._machine.wander_sd:
            fresh = self._machine.wander_sd * sqrt(1 - self._keeps**2)
            self._wander = self._keeps * self._wander + fresh * self._chance.gauss(0, 1)

    def _noisy(self, time_us: float) -> float:
        machine, chance = self._machine, self._chance
        time_us *= self._speed * (1 + self._wander) * (1 + machine.cv * chance.gauss(0, 1))
        if machine.throttle_at and self.calls > machine.throttle_at:
            time_us *= 1 + machine.throttle_by
        if machine.outliers and chance.random() < machine.outliers:
            time_us *= 1 + chance.expovariate(1 / _OUTLIER)
        return time_us

    def _handshake(self) -> float:
        machine = self._machine
        if not machine.null_spread_us:
            return machine.null_us
        return machine.null_us + self._chance.uniform(0, machine.null_spread_us)

    def _ticks(self, time_us: float) -> float:
        """The time as a clock of this step shows it, and the clock moved on."""
        self._now_us += time_us + self._machine.overhead_us
        step = self._machine.step_us
        if not step:
            return time_us
        began = self._chance.random() * step
        return step * ((began + time_us) // step)

    def _flags(self) -> tuple[str, ...]:
        return tuple(name for name, share in self._odds if share > self._chance.random())
