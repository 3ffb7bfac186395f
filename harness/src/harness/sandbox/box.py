"""The ports: a box that a submission lives in, and who starts one."""

from collections.abc import Sequence
from typing import Protocol

from harness.sandbox.spec import Spec


class SandboxFault(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A box could not be built, stopped or emptied: the machine's fault, never a submission's."""


class StopTimeout(SandboxFault):
    """What runs in a box did not stop in time: its own fault, unless an empty box is as slow."""


class Box(Protocol):
    """One box and all that runs in it. `pidfd` is readable when nothing of it is left."""

    pidfd: int

    @property
    def can_freeze(self) -> bool:
        """Whether the box has a freezer."""
        ...

    def freeze(self) -> None:
        """Stops everything in the box where it is. Errors: StopTimeout."""

    def thaw(self) -> None:
        """Lets everything in the box run on."""

    def cpu_us(self) -> int | None:
        """Microseconds of processor that the box has used, where they can be read at once."""

    def waited_us(self) -> float:
        """Microseconds that its workers wanted a core and had none; 0 where nobody counts them."""
        ...

    def status(self, within_s: float) -> int | None:
        """How the ranks ended: the first status that is not 0, negative for a signal; None if
        they run on. Errors: SandboxFault, if the box broke.
        """

    def is_out_of_memory(self) -> bool:
        """Whether the kernel killed something in the box because its memory limit was reached.

        Errors: SandboxFault, if the memory of the machine was used up and not that of the box.
        """

    def usage(self) -> dict[str, float]:
        """What the box used so far: cpu_s and peak_memory_mib, as far as they are known."""

    def end(self) -> bool:
        """Kills everything in the box and removes it; False if something would not die."""


class Launcher(Protocol):
    """Starts boxes; one process uses it at a time, which may be a fork of the one that made it."""

    def start(self, spec: Spec, controls: Sequence[int], output: int) -> Box:
        """A box whose walls are up: a control socket for each rank, a pipe for what is printed.

        Errors: SandboxFault.
        """

    def clear(self) -> None:
        """Ends every box that was started and is left. Errors: SandboxFault."""

    def close(self) -> None:
        """Ends every box and the launcher itself."""
