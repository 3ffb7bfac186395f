"""The ports between a gate, which judges calls, and whatever is timed."""

from collections.abc import Sequence
from typing import Any, Protocol


class Memory(Protocol):
    """A fixed piece of memory that supervisor and worker both reach.

    `descriptor` goes to the worker, with what it is `told` of it; `bytes` is the supervisor's view.
    """

    descriptor: int
    bytes: Any
    told: dict[str, Any]

    def close(self) -> None:
        """Lets go of the memory; it lives on in whoever else maps it."""


class Window(Protocol):
    """The steps of one call; a device decides their order and reads its clock between them."""

    @property
    def nonce(self) -> bytes:
        """What the worker is told when the call begins, and must say when it is done."""

    @property
    def memories(self) -> Sequence[tuple[Memory, Memory]]:
        """Inputs and outputs of each rank."""

    def show(self) -> None:
        """Copies the private inputs to where the worker sees them."""

    def go(self) -> None:
        """Lets the worker run, and tells it the call's nonce."""

    def armed(self, within_s: float) -> bool:
        """Waits for the word that all is enqueued, and stops the worker; False if it is late."""

    def wait(self) -> None:
        """Waits for the worker's word that it is done. Errors: CaseFailed."""

    def hold(self) -> None:
        """Copies the outputs to where only the supervisor reaches them."""


class Device(Protocol):
    """One thing that runs kernels, and the trusted clock that its calls are timed by.

    `tier` says how its times are obtained, a tier of the timing policy such as C1; `place` is
    where torch puts its tensors; `flags` are what is to be known of the call that was timed last;
    `architecture` is a GPU's for compilers, such as sm_90a, "" for a processor.
    """

    name: str
    tier: str
    place: str
    flags: tuple[str, ...]
    architecture: str

    def prepare(self) -> None:
        """Sets this process up so that references do not disturb what is timed."""

    def describe(self) -> dict[str, str]:
        """What results should say of it, once it is prepared."""

    def of_rank(self, rank: int) -> "Device":
        """Where the memories of a rank are, and what its worker computes on."""

    def allocate(self, size: int, role: str) -> Memory:
        """A shared memory of so many bytes for `inputs` or `outputs`. Errors: DeviceFault."""

    def flush(self) -> None:
        """Empties the caches of what an earlier call left in them."""

    def timed(self, window: Window) -> float:
        """One call from its reveal until its answer is held, in microseconds.

        Errors: DeviceFault, Foul, and those of the window.
        """

    def run_untimed(self, window: Window) -> None:
        """The same for a call of which no time is kept, however long it takes.

        Errors: DeviceFault, Foul, and those of the window.
        """

    def reference(self, name: str) -> float:
        """One call of a reference kernel, `fma` or `copy`, in microseconds."""

    def calibration(self) -> dict[str, float]:
        """What records should keep of its clock; `timer_step_ns` is the clock's step, if known."""

    def statistics(self, inputs: Memory) -> dict[str, float]:
        """What a result should show of the calls with these inputs besides their times."""

    def suspicion(self, inputs: Memory, null_spread_us: float) -> str:
        """Why the calls with these inputs are to be looked at, "" if nothing is odd.

        `null_spread_us` is how far calls with no work differ.
        """

    def unfit(self) -> Sequence[str]:
        """Why the device is not fit to time anything now; nothing if it is."""

    def close(self) -> None:
        """Lets go of the device."""


class Foul(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The submission broke a rule that the device watches: `verdict` is what that means."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


class DeviceFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The device does not work: the machine's fault, not the submission's."""
