"""Two sides that compute nothing: they generate samples, so that timing can be tested anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, sqrt
from random import Random

from harness.time.process import COLD, DRY, LATE, WAITED, Sample

_WANDER_MEMORY = 60.0
_OUTLIER = 0.5
# The first call of a block is slower by this fraction, as after other code has used the caches.
_COLD_DELAY = 0.05


@dataclass(frozen=True)
class FakeMachine:
    """How the machine behaves, for both sides; fractions, and shares of calls.

    `process_sd` is how fresh processes of one kernel differ, `wander_sd` how the speed of the
    machine drifts. `factor` is how much slower than usual it is. In the share `waited` of calls,
    the process with the clock waits.
    """

    cv: float = 0.005
    process_sd: float = 0.0
    wander_sd: float = 0.0
    outliers: float = 0.0
    waited: float = 0.0
    factor: float = 1.0
    step_us: float = 0.0
    null_us: float = 0.0
    null_spread_us: float = 0.0
    overhead_us: float = 100.0
    is_crowded: bool = False


@dataclass(frozen=True)
class FakeKernel:
    """How a kernel behaves: `slow_share` of its calls take `slow_by` more, as a fraction.

    `drift` is how much longer each call takes than the one before. The first `slow_calls` of a
    process take `slow_factor` times as long. In every block whose number beside the other side is
    a multiple of `slow_blocks`, all calls take `slow_by` more. `dry` and `late` are shares of its
    launches. From its first call to its end, the other side is slower by `residue`, as a fraction.
    """

    time_us: float = 100.0
    slow_share: float = 0.0
    slow_by: float = 0.0
    drift: float = 0.0
    slow_calls: int = 0
    slow_factor: float = 1.0
    slow_blocks: int = 0
    dry: float = 0.0
    late: float = 0.0
    residue: float = 0.0


@dataclass
class _FakeSide:
    kernel: FakeKernel
    speed: float
    calls: int = 0
    blocks: int = 0


@dataclass
class FakePair:
    """A source of samples of two kernels; a seed determines them. `orders` lists what was asked."""

    seed: int
    kernel: FakeKernel
    machine: FakeMachine = FakeMachine()
    yardstick: FakeKernel = FakeKernel()
    orders: list[str] = field(default_factory=list)
    fma_us: float = 50.0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._clock_us = 0.0
        self._wander_decay = exp(-1 / _WANDER_MEMORY)
        self._wander = self.machine.wander_sd * self._random.gauss(0, 1)
        self.sides = {
            name: _FakeSide(kernel, exp(self.machine.process_sd * self._random.gauss(0, 1)))
            for name, kernel in (("A", self.kernel), ("B", self.yardstick))
        }
        self._has_ended = False

    def now_s(self) -> float:
        """Return the fake's own clock, which only its calls move."""
        return self._clock_us / 1e6

    def end_submission(self) -> None:
        """End A with all that it has left behind."""
        self._has_ended = True

    def measure(self, order: str, calls: Mapping[str, int]) -> dict[str, tuple[Sample, ...]]:
        """Make a block of calls of each side."""
        self.orders.append(order)
        for name in order:
            self.sides[name].blocks += len(order) > 1
        return {
            name: tuple(self._call(name, index, calls[name]) for index in range(calls[name]))
            for name in order
        }

    def nulls(self, count: int = 60) -> tuple[Sample, ...]:
        """Make empty calls."""
        return tuple(Sample(self._round_to_step(self._handshake())) for _ in range(count))

    def time_fma(self) -> float:
        """Make one call of the platform's own kernel."""
        return self._round_to_step(self._add_noise(self.fma_us))

    def is_crowded(self) -> bool:
        """Return whether the machine has more to do than cores."""
        return self.machine.is_crowded

    def _call(self, name: str, index: int, calls: int) -> Sample:
        side, random_source = self.sides[name], self._random
        kernel = side.kernel
        time_us = side.speed * kernel.time_us * (1 + kernel.drift * side.calls)
        if side.calls < kernel.slow_calls:
            time_us *= kernel.slow_factor
        if kernel.slow_blocks and side.blocks and side.blocks % kernel.slow_blocks == 0:
            time_us *= 1 + kernel.slow_by
        if kernel.slow_share and random_source.random() < kernel.slow_share:
            time_us *= 1 + kernel.slow_by
        if name == "B" and self.sides["A"].calls and not self._has_ended:
            time_us *= 1 + self.kernel.residue
        side.calls += 1
        self._move_wander()
        is_cold = index == 0 and calls >= 4
        time_us *= 1 + (_COLD_DELAY if is_cold else 0.0)
        odds = ((WAITED, self.machine.waited), (DRY, kernel.dry), (LATE, kernel.late))
        flags = [flag for flag, share in odds if share and random_source.random() < share]
        if is_cold:
            flags.append(COLD)
        time_us = self._handshake() + self._add_noise(time_us)
        return Sample(self._round_to_step(time_us), tuple(flags))

    def _move_wander(self) -> None:
        if self.machine.wander_sd:
            new_deviation = self.machine.wander_sd * sqrt(1 - self._wander_decay**2)
            self._wander *= self._wander_decay
            self._wander += new_deviation * self._random.gauss(0, 1)

    def _add_noise(self, time_us: float) -> float:
        machine, random_source = self.machine, self._random
        time_us *= machine.factor * (1 + self._wander)
        time_us *= 1 + machine.cv * random_source.gauss(0, 1)
        if machine.outliers and random_source.random() < machine.outliers:
            time_us *= 1 + random_source.expovariate(1 / _OUTLIER)
        return time_us

    def _handshake(self) -> float:
        machine = self.machine
        return machine.null_us + self._random.uniform(0, machine.null_spread_us)

    def _round_to_step(self, time_us: float) -> float:
        """Return the time as a clock with this step shows it, and advance the clock."""
        self._clock_us += time_us + self.machine.overhead_us
        step = self.machine.step_us
        if not step:
            return time_us
        began = self._random.random() * step
        return step * ((began + time_us) // step)
