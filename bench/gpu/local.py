"""Times in the process that asks: flush, spin, event, work, event, with nothing in between."""

import ctypes
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.gate import DRAIN_S_MAX

IN_FLIGHT_MAX = 50
Enqueue = Callable[[int], None]


@dataclass(frozen=True)
class Times:
    """Samples in microseconds, and how many of them a spin did not hide the launch of."""

    us: list[float]
    dry: int

    @property
    def median(self) -> float:
        """The middle one."""
        return median(self.us)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return statistics.stdev(self.us)


class Local:
    """The local source of one device, on the referee's stream."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._driver = device.driver
        self.stream = device.referee.lane.handle
        pairs = range(IN_FLIGHT_MAX)
        self._before = [self._driver.pointer("cuEventCreate", 0) for _ in pairs]
        self._after = [self._driver.pointer("cuEventCreate", 0) for _ in pairs]

    def times(
        self,
        enqueue: Enqueue,
        count: int,
        spin_us: float = 50.0,
        flush: Enqueue | None = None,
    ) -> Times:
        """So many samples; without `flush` the caches stay as they are."""
        us: list[float] = []
        dry = 0
        while len(us) < count:
            some = min(IN_FLIGHT_MAX, count - len(us))
            for index in range(some):
                dry += self._sample(index, enqueue, spin_us, flush)
            self.settle()
            pairs = zip(self._before[:some], self._after[:some], strict=True)
            us += [1000 * self._driver.milliseconds(a, b) for a, b in pairs]
        return Times(us, dry)

    def cold(self, enqueue: Enqueue, count: int, spin_us: float = 50.0) -> Times:
        """So many samples, each after the harness's own flush."""
        return self.times(enqueue, count, spin_us, lambda _: self._device.referee.flush())

    def settle(self) -> None:
        """Waits for the stream."""
        if not self._device.referee.settle(30 * DRAIN_S_MAX):
            raise TimeoutError("the stream does not end")

    def spin(self, ns: int, seen: int = 0) -> Enqueue:
        """A kernel of so many nanoseconds; `seen` is where it writes when it ran."""
        return self.kernel("k_spin_ns", (1, 1), ctypes.c_uint64(ns), ctypes.c_uint64(seen))

    def fma(self, links: int) -> Enqueue:
        """The arithmetic reference."""
        out = ctypes.c_uint64(self._device._line.data_ptr())  # noqa: SLF001
        grid = (self._device.facts.multiprocessors, 256)
        return self.kernel("k_fma", grid, out, ctypes.c_int(links))

    def copy(self, target: Any, source: Any) -> Enqueue:
        """A copy between two tensors of one size, which it keeps alive."""
        pieces = ctypes.c_uint64(target.numel() * target.element_size() // 16)
        places = [ctypes.c_uint64(one.data_ptr()) for one in (target, source)]
        grid = (8 * self._device.facts.multiprocessors, 256)
        kernel = self._device.kernels["k_copy"]

        def enqueue(stream: int, _kept: tuple[Any, Any] = (target, source)) -> None:
            kernel(stream, grid, *places, pieces)

        return enqueue

    def kernel(self, name: str, grid: tuple[int, int], *arguments: Any) -> Enqueue:
        """Any of the harness's kernels."""
        kernel = self._device.kernels[name]
        return lambda stream: kernel(stream, grid, *arguments)

    def _sample(self, index: int, enqueue: Enqueue, spin_us: float, flush: Enqueue | None) -> bool:
        if flush:
            flush(self.stream)
        if spin_us:
            self.spin(int(1000 * spin_us))(self.stream)
        self._driver("cuEventRecord", self._before[index], self.stream)
        enqueue(self.stream)
        self._driver("cuEventRecord", self._after[index], self.stream)
        return self._driver.is_over(self._before[index])


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """A straight line by least squares: slope, value at nought, deviation of what is left."""
    rise, start = statistics.linear_regression(x, y)
    left = [(b - start - rise * a) ** 2 for a, b in zip(x, y, strict=True)]
    return rise, start, math.sqrt(sum(left) / max(1, len(x) - 2))


def median(values: Sequence[float]) -> float:
    """The middle one. Errors: ValueError, if nothing was accepted."""
    if not values:
        raise ValueError("no call was accepted")
    return statistics.median_high(values)


def share(values: Sequence[float], part: float) -> float:
    """A quantile. Errors: ValueError, if nothing was accepted."""
    if not values:
        raise ValueError("no call was accepted")
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]
