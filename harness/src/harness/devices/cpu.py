"""The processor of this machine, timed by the monotonic clock.

A worker's core is kept awake until its call begins: waking it up takes tens of microseconds.
"""

import contextlib
import gc
import importlib
import mmap
import os
import platform
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

from harness import code
from harness.defences import ALL_DEFENCES, Defences
from harness.devices.device import Device, SharedMemory, Window
from harness.sandbox import linux

_AWAKE, _RELEASED = 0, 1
_WAKE_NS_MAX = 2_000_000
_SPINS_MAX = 50_000_000

# Sizes of the reference kernels: each takes about a tenth of a millisecond.
_FMA_SIDE = 128
_COPY_BYTES = 1024 * 1024
_TEST_DELAY_S = 0.003


class CoreKeepAwake:
    """A process on the worker's core that spins from `wake` until `release`.

    It leaves the core before the worker needs it. A worker that is woken first preempts it, because
    it has the lowest priority there is. If the workers have no core of their own (None), it does
    nothing.
    """

    def __init__(self, core: int | None) -> None:
        self._child = 0
        if core is None:
            return
        self._flags = mmap.mmap(-1, mmap.PAGESIZE)
        read_end, self._request_pipe = os.pipe()
        parent = os.pidfd_open(os.getpid())
        self._child = os.fork()
        if self._child == 0:
            os.close(self._request_pipe)
            self._spin_on_request(read_end, core, parent)
        os.close(read_end)
        os.close(parent)

    def wake(self) -> None:
        """Wake the core up; return after 2 ms in any case."""
        if not self._child:
            return
        self._flags[_AWAKE] = self._flags[_RELEASED] = 0
        os.write(self._request_pipe, b".")
        ends_ns = time.perf_counter_ns() + _WAKE_NS_MAX
        while not self._flags[_AWAKE] and time.perf_counter_ns() < ends_ns:
            continue

    def release(self) -> None:
        """Stop spinning."""
        if not self._child:
            return
        self._flags[_RELEASED] = 1

    def close(self) -> None:
        """End the process."""
        if not self._child:
            return
        os.close(self._request_pipe)
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)

    def _spin_on_request(self, read_end: int, core: int, parent: int) -> NoReturn:
        try:
            linux.die_with_parent(parent)
            os.sched_setaffinity(0, [core])
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            flags = self._flags
            while os.read(read_end, 1):
                flags[_AWAKE] = 1
                for _ in range(_SPINS_MAX):
                    if flags[_RELEASED]:
                        break
        finally:
            os._exit(0)


def reserve_core() -> list[int]:
    """Keep this process on the first core; return the others, if any, for the workers."""
    first, *others = sorted(os.sched_getaffinity(0))
    if others:
        os.sched_setaffinity(0, [first])
    return others


class CpuDevice(Device):
    """The cpu device: tier C1 if the worker is frozen between calls, C2 if it cannot be.

    A frozen worker sees nothing of an input before the clock starts, so the input can be copied
    first. If the worker may be awake, the copy must happen after the clock has started. The caches
    need no flush: generator, reference and check of each call displace them. Disturbances of a
    shared processor show in its reference kernels.
    """

    name = "cpu"
    place = "cpu"

    def __init__(self, *, is_frozen: bool, defences: Defences = ALL_DEFENCES) -> None:
        self.tier = "C1" if is_frozen else "C2"
        self._defences = defences

    def prepare(self) -> None:
        """Use one thread for references: the other cores belong to the worker."""
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(1)
        self._square = torch.rand(_FMA_SIDE, _FMA_SIDE)
        self._line = torch.rand(_COPY_BYTES // 4)
        self._torch = torch

    def describe(self) -> dict[str, str]:
        """Return versions, processor and cores."""
        return describe()

    def allocate(self, size: int, role: str) -> SharedMemory:
        """Return a memory of `size` bytes that the worker may map, for any role."""
        del role
        return SharedMemory(size, is_sealed=self._defences.seals)

    def timed(self, window: Window) -> float:
        """Time one call; the garbage collector waits until it is over."""
        gc.disable()
        try:
            return self._time_call(window)
        finally:
            gc.enable()

    def _time_call(self, window: Window) -> float:
        began_ns = time.perf_counter_ns()
        window.show()
        if self.tier == "C1":
            began_ns = time.perf_counter_ns()
        window.go()
        if not self._defences.starts_before_thaw:
            # A busy machine may take the core away here; tests do not wait for that to happen.
            time.sleep(_TEST_DELAY_S)
            began_ns = time.perf_counter_ns()
        window.wait()
        ended_ns = time.perf_counter_ns()
        window.hold()
        if self._defences.stops_after_snapshot:
            ended_ns = time.perf_counter_ns()
        return (ended_ns - began_ns) / 1000

    def reference(self, name: str) -> float:
        """Time a product of two small matrices (`fma`) or a copy of a megabyte (`copy`)."""
        began_ns = time.perf_counter_ns()
        if name == "fma":
            self._torch.mm(self._square, self._square)
        else:
            self._line.clone()
        return (time.perf_counter_ns() - began_ns) / 1000


def describe() -> dict[str, str]:
    """Return versions, processor and cores, without importing torch."""
    import importlib.metadata  # slow to import; the worker should be started before

    torch_version, model = "absent", platform.machine()
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        torch_version = importlib.metadata.version("torch")
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        model = next(models, model)
    return {
        "harness_code": code.digest(),
        "python": platform.python_version(),
        "torch": torch_version,
        "cpu": model,
        "cores": str(os.cpu_count()),
        "platform": platform.platform(),
    }
