"""The ports between a gate, which judges calls, and whatever is timed."""

from collections.abc import Sequence
from typing import Any, Protocol


class Memory(Protocol):
    """A fixed piece of memory that supervisor and worker both reach."""

    descriptor: int
    bytes: Any

    def close(self) -> None:
        """Lets go of the memory; it lives on in whoever else maps it."""


class Window(Protocol):
    """The steps of one call; a device decides their order and reads its clock between them."""

    def show(self) -> None:
        """Copies the private inputs to where the worker sees them."""

    def go(self) -> None:
        """Lets the worker run, and tells it the call's nonce."""

    def wait(self) -> None:
        """Waits for the worker's word that it is done. Errors: CaseFailed."""

    def hold(self) -> None:
        """Copies the outputs to where only the supervisor reaches them."""


class Device(Protocol):
    """One thing that runs kernels, and the trusted clock that its calls are timed by.

    `tier` says how its times are obtained, a tier of the timing policy such as C1; `place` is
    where torch puts its tensors.
    """

    name: str
    tier: str
    place: str

    def prepare(self) -> None:
        """Sets this process up so that references do not disturb what is timed."""

    def allocate(self, size: int) -> Memory:
        """A shared memory of so many bytes, at least one. Errors: DeviceFault."""

    def flush(self) -> None:
        """Empties the caches of what an earlier call left in them."""

    def timed(self, window: Window) -> float:
        """One call from its reveal until its answer is held, in microseconds."""

    def reference(self, name: str) -> float:
        """One call of a reference kernel, `fma` or `copy`, in microseconds."""

    def unfit(self) -> Sequence[str]:
        """Why the device is not fit to time anything now; nothing if it is."""

    def close(self) -> None:
        """Lets go of the device."""


class DeviceFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The device does not work: the machine's fault, not the submission's."""
