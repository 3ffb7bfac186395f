"""A device that computes nothing: it generates samples, so that timing can be tested anywhere."""

from dataclasses import dataclass
from math import exp, sqrt
from random import Random

from harness.time.process import CONTAMINATED, DRY, LATE, Sample

_REFERENCES_US = {"fma": 50.0, "copy": 60.0}
_WANDER_MEMORY = 60.0
_OUTLIER = 0.5


@dataclass(frozen=True)
class FakeMachine:
    """How the machine behaves, for every kernel; fractions, and shares of calls.

    `speed_sd` is how fresh processes differ, `wander_sd` how the clock drifts within one.
    `throttle_by` slows everything from call `throttle_at` on; `reasons` say why it is unfit.
    Without `probe_us` it has no probe.
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
class FakeKernel:
    """How a submission behaves: `slow_share` of its calls take `slow_by` more, as a fraction.

    `drift` is how much longer each call takes than the one before. The first `slow_calls` of a
    process take `slow_factor` times as long. `dry` and `late` are shares of its launches. What its
    calls leave in the caches makes probes take `probe_delay` more, as a fraction, or
    `slow_probe_delay` after a slow call.
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
    slow_probe_delay: float = 0.0


class FakeSource:
    """A source of samples: one kernel in one fresh process; a seed determines the samples."""

    def __init__(self, seed: int, kernel: FakeKernel, machine: FakeMachine) -> None:
        self._random = Random(seed)
        self._kernel = kernel
        self._machine = machine
        self._speed = machine.factor * exp(machine.speed_sd * self._random.gauss(0, 1))
        self._wander_decay = exp(-1 / _WANDER_MEMORY)
        self._wander = machine.wander_sd * self._random.gauss(0, 1)
        odds = ((CONTAMINATED, machine.contaminated), (DRY, kernel.dry), (LATE, kernel.late))
        self._flag_odds = [(name, share) for name, share in odds if share]
        self._clock_us = 0.0
        self.calls = 0
        self._was_slow = False

    def now_s(self) -> float:
        """Return the fake's own clock, which only its calls move."""
        return self._clock_us / 1e6

    def health(self) -> tuple[str, ...]:
        """Return why the machine is unfit for timing."""
        return self._machine.reasons

    def call(self) -> Sample:
        """Make one call, including the overhead around it."""
        kernel, random_source = self._kernel, self._random
        time_us = kernel.time_us * (1 + kernel.drift * self.calls)
        if self.calls < kernel.slow_calls:
            time_us *= kernel.slow_factor
        self._was_slow = bool(kernel.slow_share) and random_source.random() < kernel.slow_share
        if self._was_slow:
            time_us *= 1 + kernel.slow_by
        self.calls += 1
        self._move_wander()
        time_us = self._handshake() + self._add_noise(time_us)
        return Sample(self._round_to_step(time_us), self._flags())

    def null(self) -> Sample:
        """Make one empty call."""
        self._was_slow = False
        return Sample(self._round_to_step(self._handshake()))

    def probe(self) -> float | None:
        """Do the fixed work, delayed by what earlier calls of the kernel left behind."""
        if not self._machine.probe_us:
            return None
        delay = self._kernel.probe_delay if self.calls else 0.0
        if self._was_slow:
            delay = self._kernel.slow_probe_delay
        return self._add_noise(self._machine.probe_us) * (1 + delay)

    def reference(self, name: str) -> float:
        """Make one call of a reference kernel."""
        return self._round_to_step(self._add_noise(_REFERENCES_US[name]))

    def _move_wander(self) -> None:
        if self._machine.wander_sd:
            new_deviation = self._machine.wander_sd * sqrt(1 - self._wander_decay**2)
            self._wander = self._wander_decay * self._wander + new_deviation * self._random.gauss(
                0, 1
            )

    def _add_noise(self, time_us: float) -> float:
        machine, random_source = self._machine, self._random
        time_us *= self._speed * (1 + self._wander) * (1 + machine.cv * random_source.gauss(0, 1))
        if machine.throttle_at and self.calls > machine.throttle_at:
            time_us *= 1 + machine.throttle_by
        if machine.outliers and random_source.random() < machine.outliers:
            time_us *= 1 + random_source.expovariate(1 / _OUTLIER)
        return time_us

    def _handshake(self) -> float:
        machine = self._machine
        if not machine.null_spread_us:
            return machine.null_us
        return machine.null_us + self._random.uniform(0, machine.null_spread_us)

    def _round_to_step(self, time_us: float) -> float:
        """Return the time as a clock with this step shows it, and advance the clock."""
        self._clock_us += time_us + self._machine.overhead_us
        step = self._machine.step_us
        if not step:
            return time_us
        began = self._random.random() * step
        return step * ((began + time_us) // step)

    def _flags(self) -> tuple[str, ...]:
        return tuple(name for name, share in self._flag_odds if share > self._random.random())
