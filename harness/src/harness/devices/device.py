"""The port to whatever is timed."""

from typing import Protocol


class Device(Protocol):
    """One thing that runs kernels, and the trusted clock that its calls are timed by."""

    @property
    def tier(self) -> str:
        """How its times are obtained: a tier of the timing policy, such as C2."""

    def prepare(self) -> None:
        """Sets this process up so that references do not disturb what is timed."""

    def now_ns(self) -> int:
        """The trusted clock, in nanoseconds; it never goes back."""

    def describe(self) -> dict[str, str]:
        """What a result should say about the machine; looks nothing up that is slow."""
