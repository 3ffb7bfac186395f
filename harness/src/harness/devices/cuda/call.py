"""One call of one rank, while it is in flight."""

import secrets
from dataclasses import dataclass, field
from typing import Self, cast

from harness.devices.cuda.memory import DONE_AT, REVEAL_AT, Inputs, Outputs
from harness.devices.device import Window


@dataclass
class Call:
    """The words that open a gate and say done, the memories of the rank, and whose call it is."""

    window: Window
    inputs: Inputs
    outputs: Outputs
    reveal: int
    done: int
    seed: int = field(default_factory=lambda: secrets.randbits(64))
    is_said: bool = False

    @classmethod
    def of(cls, window: Window, rank: int) -> Self:
        """A rank's part of the call that a window is about to make."""
        inputs, outputs = cast("tuple[Inputs, Outputs]", window.memories[rank])
        # Zero is what the mailbox holds before its first use.
        reveal, done = (int.from_bytes(window.nonce[at : at + 4], "little") | 1 for at in (0, 4))
        return cls(window, inputs, outputs, reveal, done)

    @property
    def reveal_at(self) -> int:
        """Where the word that opens the gate goes."""
        return self.inputs.mailbox + REVEAL_AT

    @property
    def done_at(self) -> int:
        """Where the word of the end is waited for."""
        return self.inputs.mailbox + DONE_AT

    def hear(self) -> None:
        """The worker's DONE, waited for once. Errors: CaseFailed."""
        if not self.is_said:
            self.window.wait()
            self.is_said = True
