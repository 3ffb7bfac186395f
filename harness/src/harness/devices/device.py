"""The ports between a gated call and the device that is timed, and memory that both sides map."""

import fcntl
import importlib
import mmap
import os
from collections.abc import Sequence
from typing import Any, Protocol

# Without the seals a worker could shrink the memory, and the supervisor's next access would raise
# SIGBUS.
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


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

    def reference(self, name: str) -> float:
        """Time one call of a reference kernel, `fma` or `copy`, in microseconds."""
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
