"""What is timed: the ports of a gated call to its device, memory that both map, the processor.

The processor is timed by the monotonic clock. A worker's core is kept awake until its call begins:
waking it up takes tens of microseconds.
"""

import contextlib
import fcntl
import functools
import gc
import importlib
import mmap
import os
import platform
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from harness import code
from harness.defences import ALL_DEFENCES, Defences
from harness.sandbox import linux, realtime

# Without the seals a worker could shrink the memory, and the supervisor's next access would raise
# SIGBUS.
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW

_AWAKE, _RELEASED = 0, 1
_WAKE_NS_MAX = 2_000_000
# Longer than the time between two calls of a block, and short enough for everybody else.
_SPIN_NS_MAX = 50_000_000

_TEST_DELAY_S = 0.003


class Memory(Protocol):
    """A fixed piece of memory that supervisor and worker both reach.

    `descriptor` is sent to the worker, with the layout in `layout`; `bytes` is the
    supervisor's view.
    """

    descriptor: int
    bytes: Any
    layout: dict[str, Any]

    def close(self) -> None:
        """Release the memory; it lives on in other processes that map it."""


class Window(Protocol):
    """The steps of one call; a device decides their order and reads its clock between them."""

    @property
    def nonce(self) -> bytes:
        """What the worker gets when the call begins and must return when it is done."""

    @property
    def memories(self) -> Sequence[tuple[Memory, Memory]]:
        """Inputs and outputs of each rank."""

    def show(self) -> None:
        """Copy the private inputs to where the worker sees them."""

    def go(self) -> None:
        """Let the worker run, and send it the call's nonce."""

    def armed(self, within_s: float) -> bool:
        """Wait until all work is enqueued, and freeze the worker; False if it is late."""

    def wait(self) -> None:
        """Wait until the worker reports that it is done. Raises CaseFailed."""

    def hold(self) -> None:
        """Copy the outputs to where only the supervisor reaches them."""


class Device:
    """Something that runs kernels, and the trusted clock that times its calls.

    `tier` says how times are obtained, a tier of the timing policy such as C1; `place` is where
    torch puts its tensors; `flags` describe the last timed call; `architecture` is a GPU's name for
    compilers, such as sm_90a, "" for a processor.
    """

    name: str
    tier: str
    place: str
    flags: tuple[str, ...] = ()
    architecture = ""

    def prepare(self) -> None:
        """Set up this process so that references do not disturb what is timed."""
        raise NotImplementedError

    def describe(self) -> dict[str, str]:
        """Return what results should record about it, once it is prepared."""
        raise NotImplementedError

    def of_rank(self, rank: int) -> "Device":
        """Return where the memories of a rank are, and what its worker computes on."""
        del rank
        return self

    def allocate(self, size: int, role: str) -> Memory:
        """Return a shared memory of `size` bytes for `inputs` or `outputs`. Raises DeviceFault."""
        raise NotImplementedError

    def timed(self, window: Window) -> float:
        """Time one call from its reveal until its answer is copied, in microseconds.

        Raises DeviceFault, RuleViolation, and errors of the window.
        """
        raise NotImplementedError

    def run_untimed(self, window: Window) -> None:
        """Make one call without keeping its time, however long it takes.

        Raises DeviceFault, RuleViolation, and errors of the window.
        """
        self.timed(window)

    def is_usable(self) -> bool:
        """Return whether this process can still use it."""
        return True

    def free_share(self, besides: int = 0) -> float:
        """Return which share of a GPU's memory is free besides so many bytes."""
        del besides
        return 1.0

    def memory_mib(self, pids: Collection[int]) -> float:
        """Return how much memory of a GPU processes hold, in MiB; 0 where it is not known."""
        del pids
        return 0.0

    def worker_fault(self) -> str:
        """Return the error by which a worker broke it for this process, "" if none did."""
        return ""

    def time_fma(self) -> float:
        """Time a chain of multiplications, in microseconds: it warms up a GPU's clock."""
        raise NotImplementedError

    def calibration(self) -> dict[str, float]:
        """Return facts about its clock for the records; `timer_step_ns` is its step, if known."""
        return {}

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """Return what a result should show about the calls with these inputs besides times."""
        del inputs
        return {}

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Return why the calls with these inputs are suspicious, "" if they are not.

        `null_spread_us` is how far calls with no work differ.
        """
        del inputs, null_spread_us
        return ""

    def unfit(self) -> Sequence[str]:
        """Return why the device is unfit for timing now; nothing if it is fit."""
        return []

    def close(self) -> None:
        """Release the device."""


class RuleViolation(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission broke a rule that the device checks; `verdict` is the result."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


class DeviceFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The device does not work: the machine's fault, not the submission's."""


class SharedMemory:
    """A sealed memory of fixed size; `bytes` is its content, `descriptor` is for the worker."""

    def __init__(self, size: int, *, is_sealed: bool = True) -> None:
        torch: Any = importlib.import_module("torch")
        self.descriptor = os.memfd_create("warpboard", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        if is_sealed:
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
        self.layout: dict[str, Any] = {}
        self.bytes: Any = torch.frombuffer(mmap.mmap(self.descriptor, size), dtype=torch.uint8)

    def close(self) -> None:
        """Release the memory; it lives on in other processes that map it."""
        os.close(self.descriptor)
        self.bytes = None


class CoreKeepAwake:
    """A process on the worker's core that spins from `wake` until `release`.

    It keeps the core awake, and keeps others from it between the calls of a block: what they leave
    in the caches would slow the next call. For that it has the lowest real-time priority, if this
    machine allows one, otherwise the lowest priority there is. It leaves the core before the worker
    needs it. If the workers have no core of their own (None), it does nothing.
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
        """Wake the core up, unless it is awake; return after 2 ms in any case."""
        if not self._child or (self._flags[_AWAKE] and not self._flags[_RELEASED]):
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
            _take_priority()
            flags = self._flags
            while os.read(read_end, 1):
                flags[_AWAKE] = 1
                ends_ns = time.perf_counter_ns() + _SPIN_NS_MAX
                while not flags[_RELEASED] and time.perf_counter_ns() < ends_ns:
                    continue
                flags[_AWAKE] = 0
        finally:
            os._exit(0)


def _take_priority() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(realtime.PRIORITY))
    except OSError:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def reserve_core(slot: int = 0, slots: int = 1) -> list[int]:
    """Keep this process on one core; return the others, if any, for the workers.

    Each of the `slots` begins with another core, and its workers leave alone those of the others if
    there are more cores than slots.

    >>> choose_cores([4, 5, 6, 7], 1, 2), choose_cores([4, 5], 1, 2), choose_cores([4], 0, 2)
    ((5, [6, 7]), (5, [4]), (4, []))
    """
    first, others = choose_cores(sorted(os.sched_getaffinity(0)), slot, slots)
    if others:
        os.sched_setaffinity(0, [first])
    return others


def choose_cores(cores: Sequence[int], slot: int, slots: int) -> tuple[int, list[int]]:
    """Return the core of the referee in a slot, and those of its workers."""
    start = slot % len(cores)
    referee, *others = [*cores[start:], *cores[:start]]
    return referee, [core for core in others if core in cores[slots:]] or others


def split_cores(cores: Sequence[int], build_slots: int) -> tuple[list[int], list[int]]:
    """Return which cores workers use, and which the builders of all slots of a GPU.

    So a build disturbs no run that is timed meanwhile. If there are too few cores, all use all.

    >>> split_cores([2, 3, 4, 5], 1), split_cores([2, 3], 2)
    (([2, 3, 4], [5]), ([2, 3], [2, 3]))
    """
    if not 0 < build_slots < len(cores):
        return list(cores), list(cores)
    return list(cores[:-build_slots]), list(cores[-build_slots:])


class CpuDevice(Device):
    """The cpu device: tier C1 if the worker is frozen between calls, C2 if it cannot be.

    A frozen worker sees nothing of an input before the clock starts, so the input can be copied
    first. If the worker may be awake, the copy must happen after the clock has started. The caches
    need no flush: the calls of the other side displace them.
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
        self._torch = torch

    def describe(self) -> dict[str, str]:
        """Return nothing: the processor is the machine's."""
        return {}

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


@functools.cache
def describe_machine() -> dict[str, str]:
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
