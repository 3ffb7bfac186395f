"""The steps of a call in a GPU's order: the copy of the answer is enqueued first."""

from typing import Any

from harness.check.calls import GatedCase
from harness.check.inputs import probe_shape
from harness.check.judging import JudgeContext
from harness.devices.device import CpuDevice, Window
from harness.worker import protocol

from .test_inputs import CASE, KEY, Teacher

LARGE = 1024 * 1024


class Team:
    """A worker that answers at once, and what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._nonce = b""

    def send(self, _rank: int, message: bytes, _descriptors: Any = ()) -> None:
        """Remembers the nonce."""
        self._nonce = message[1 : 1 + protocol.NONCE_BYTES]

    def receive(self, _rank: int, _until: float, _limit: str) -> bytes:
        """It is done."""
        self.told.append("asked")
        return protocol.DONE + self._nonce

    def freeze(self) -> None:
        """Stopped."""
        self.told.append("freeze")

    def thaw(self) -> None:
        """Let go."""
        self.told.append("thaw")

    def cpu_us(self) -> None:
        """Nobody counts."""

    def waited_us(self) -> float:
        """Nobody counts."""
        return 0.0

    def require_silence(self) -> None:
        """It is silent."""


class Warmer:
    """Nothing is kept warm."""

    def wake(self) -> None:
        """Nothing."""

    def release(self) -> None:
        """Nothing."""


class Queued(CpuDevice):
    """A device to which the whole call is given before the worker answers."""

    def timed(self, window: Window) -> float:
        """The copy of the answer is asked for first, as one behind a gate is."""
        window.show()
        window.go()
        window.hold()
        window.wait()
        return 1.0


def test_a_worker_that_has_not_answered_is_not_stopped_for_the_copy(torch: Any) -> None:
    """It may still be on its way to the gate and would never arrive."""
    author = Teacher(lambda _: torch.ones(LARGE), lambda data: data * 2)
    team: Any = Team()
    court: Any = JudgeContext(author, Queued(is_frozen=True), Warmer())  # type: ignore[arg-type]
    with GatedCase(court, team, CASE, [probe_shape(author, CASE, KEY)]) as gate:
        gate.run(7, 1e9)
    assert team.told == ["freeze", "thaw", "asked"]
