"""The processor of this machine, timed by the monotonic clock."""

import gc
import importlib
import os
import platform
import time
from pathlib import Path
from typing import Any

from harness import code
from harness.devices.device import Memory, Window
from harness.devices.shared_memory import SharedMemory

# Sizes of the reference kernels: each takes about a tenth of a millisecond.
_FMA_SIDE = 128
_COPY_BYTES = 1024 * 1024
_LOST_S = 0.003


class Cpu:
    """The cpu device: tier C1 where the worker is frozen between calls, C2 where it cannot be.

    A frozen worker sees nothing of an input before the clock starts, so the copy of the input can
    come first; a worker that may be awake must have the copy inside the window.
    """

    name = "cpu"
    place = "cpu"
    flags: tuple[str, ...] = ()
    architecture = ""

    def __init__(
        self,
        *,
        is_frozen: bool,
        is_sealed: bool = True,
        is_early: bool = True,
        is_late: bool = True,
    ) -> None:
        """`is_early` and `is_late` say when the clock starts and stops: tests turn them off."""
        self.tier = "C1" if is_frozen else "C2"
        self._is_sealed = is_sealed
        self._is_early = is_early
        self._is_late = is_late

    def prepare(self) -> None:
        """One thread for the references: the other cores belong to the worker."""
        # The collector takes a tenth of this import's time, and then finds nothing.
        gc.disable()
        torch: Any = importlib.import_module("torch")
        gc.freeze()
        gc.enable()
        torch.set_num_threads(1)
        self._square = torch.rand(_FMA_SIDE, _FMA_SIDE)
        self._line = torch.rand(_COPY_BYTES // 4)
        self._torch = torch

    def describe(self) -> dict[str, str]:
        """Versions, processor and cores."""
        return describe()

    def of_rank(self, rank: int) -> "Cpu":
        """This one, for every rank."""
        del rank
        return self

    def allocate(self, size: int, role: str) -> SharedMemory:
        """A memory of so many bytes that the worker may map, whatever its role."""
        del role
        return SharedMemory(size, is_sealed=self._is_sealed)

    def flush(self) -> None:
        """Nothing: the generator, the reference and the check of each call walk the caches."""

    def timed(self, window: Window) -> float:
        """One call; the garbage collector waits until it is over."""
        gc.disable()
        try:
            return self._timed(window)
        finally:
            gc.enable()

    def run_untimed(self, window: Window) -> None:
        """One call of which no time is kept."""
        self.timed(window)

    def _timed(self, window: Window) -> float:
        if self.tier == "C1":
            window.show()
            began_ns = time.perf_counter_ns()
        else:
            began_ns = time.perf_counter_ns()
            window.show()
        window.go()
        if not self._is_early:
            # A busy machine takes the core away here now and then: a test does not wait for that.
            time.sleep(_LOST_S)
            began_ns = time.perf_counter_ns()
        window.wait()
        ended_ns = time.perf_counter_ns()
        window.hold()
        if self._is_late:
            ended_ns = time.perf_counter_ns()
        return (ended_ns - began_ns) / 1000

    def reference(self, name: str) -> float:
        """A product of two small matrices (`fma`) or a copy of a megabyte (`copy`)."""
        began_ns = time.perf_counter_ns()
        if name == "fma":
            self._torch.mm(self._square, self._square)
        else:
            self._line.clone()
        return (time.perf_counter_ns() - began_ns) / 1000

    def calibration(self) -> dict[str, float]:
        """Nothing: the policy knows this clock."""
        return {}

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """Nothing."""
        del inputs
        return {}

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Nothing: no input is shown before the clock starts."""
        del inputs, null_spread_us
        return ""

    def unfit(self) -> list[str]:
        """Nothing: what a shared processor does to times shows in its reference kernels."""
        return []

    def close(self) -> None:
        """Nothing is held."""


def describe() -> dict[str, str]:
    """Versions, processor and cores, without importing torch."""
    return {
        "harness_code": code.digest(),
        "python": platform.python_version(),
        "torch": _version_of("torch"),
        "cpu": _model(),
        "cores": str(os.cpu_count()),
        "platform": platform.platform(),
    }


def _version_of(distribution: str) -> str:
    import importlib.metadata  # slow to import, and a worker should be on its way before

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
