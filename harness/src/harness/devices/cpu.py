"""The processor of this machine, timed by the monotonic clock."""

import gc
import importlib
import os
import platform
import time
from pathlib import Path
from typing import Any


class Cpu:
    """The cpu device, of tier C2: without a freezer the clock starts before the inputs appear."""

    tier = "C2"

    def prepare(self) -> None:
        """One thread for the references: the other cores belong to the worker."""
        # The collector takes a tenth of this import's time, and then finds nothing.
        gc.disable()
        torch: Any = importlib.import_module("torch")
        gc.freeze()
        gc.enable()
        torch.set_num_threads(1)

    def now_ns(self) -> int:
        """The monotonic clock of the kernel, in nanoseconds."""
        return time.perf_counter_ns()

    def describe(self) -> dict[str, str]:
        """Versions, processor and cores, without importing torch."""
        return {
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
