"""A referee and one guest: calls through the harness's own gate, with a known right answer."""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from bench.gpu import guest
from harness.devices.cuda.device import CudaDevice
from harness.devices.cuda.rules import CallTiming
from harness.devices.device import Memory, RuleViolation
from harness.worker import protocol

WAIT_S_MAX = 20.0
OPEN_S_MAX = 60.0


class GuestFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The guest ended, or said that it failed."""


@dataclass(frozen=True)
class Outcome:
    """One call: how it was shot, whether the answer was right, what rule it broke."""

    shot: CallTiming | None
    is_right: bool
    foul: str = ""


class Pair:
    """The window of one guest; a frozen guest is a stopped process here."""

    def __init__(
        self,
        mode: str,
        mps: dict[str, str],
        *,
        is_apart: bool = False,
        opens_at_once: bool = True,
    ) -> None:
        self.mode = mode
        self.pid, self._control = guest.start(
            mode, mps=mps, is_apart=is_apart, opens_at_once=opens_at_once
        )
        self._is_apart = is_apart
        self.nonce = bytes(16)
        self.memories: Sequence[tuple[Memory, Memory]] = ()
        self.said: dict[str, Any] = {}
        self._early = self._is_due = self.is_spent = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the guest, whatever it is doing."""
        if not self.pid:
            return
        self._control.close()
        for what in (signal.SIGCONT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, what)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        # It may be another process's soon.
        self.pid = 0
        self._close_memories()

    def _close_memories(self) -> None:
        for inputs, outputs in self.memories:
            inputs.close()
            outputs.close()
        self.memories = ()

    def open(self, device: CudaDevice, floats: int) -> None:
        """Hands the guest its memories, also in place of earlier ones. Errors: GuestFailed."""
        import torch

        self._resume()
        self._close_memories()
        self._torch: Any = torch
        self._device = device
        size = max(4096, 4 * floats)
        inputs, outputs = (device.allocate(size, role) for role in ("inputs", "outputs"))
        self.memories = ((inputs, outputs),)
        self._private = torch.zeros(floats, device=device.place)
        self._snapshot: Any = torch.empty_like(outputs.bytes)
        self._floats = floats
        leaf = [0, 4 * floats, "float32", [floats], [1]]
        layout = {
            "inputs": [leaf],
            "outputs": [leaf],
            "data": ["tuple", [["tensor", 0], ["buffer", 0]]],
            "answer": ["buffer", 0],
            "memories": [inputs.layout, outputs.layout],
        }
        descriptors = [inputs.descriptor, outputs.descriptor]
        message = protocol.CASE + json.dumps(layout).encode()
        # A guest that could not open its context has ended, and said why.
        with contextlib.suppress(BrokenPipeError):
            socket.send_fds(self._control, [message], descriptors)
        self.said = json.loads(self._receive(OPEN_S_MAX)[1:])

    def call(self, way: str, **wish: Any) -> Outcome:
        """One call with fresh random inputs and poisoned outputs. Errors: GuestFailed."""
        self.ready(**wish)
        try:
            shot = self._device.referee.shoot(self, way)
        except RuleViolation as foul:
            self.is_spent = self._is_due
            return Outcome(None, is_right=False, foul=f"{foul.verdict}: {foul}")
        return Outcome(shot, is_right=self.is_right())

    def is_right(self) -> bool:
        """Whether the answer that was held is the right one."""
        found = self._snapshot[: 4 * self._floats].view(self._torch.float32)
        return bool(self._torch.equal(found, self._private * 2 + 1))

    def times_us(self, way: str, count: int, **wish: Any) -> list[float]:
        """The times of so many calls; wrong answers are not told apart here."""
        outcomes = self.calls(way, count, **wish)
        return [one.shot.time_us for one in outcomes if one.shot]

    def calls(self, way: str, count: int, **wish: Any) -> list[Outcome]:
        """So many calls, or as many as until a foul that the guest cannot go on after."""
        found: list[Outcome] = []
        while len(found) < count and not self.is_spent:
            found.append(self.call(way, **wish))
        return found

    def ready(self, nonce: bytes = b"", **wish: Any) -> None:
        """Everything but the call."""
        outputs = self.memories[0][1].bytes
        self._private.uniform_(1, 2)
        outputs.random_(0, 256)
        self.nonce = nonce or secrets.token_bytes(16)
        self._message = protocol.GO + self.nonce + json.dumps(wish).encode()
        self._torch.cuda.synchronize()
        self.stop()

    def show(self) -> None:
        """Copies the private inputs to where the reveal takes them from."""
        shown = self.memories[0][0].bytes
        shown[: 4 * self._floats].view(self._torch.float32).copy_(self._private)

    def go(self) -> None:
        """Lets the guest run, with a new nonce."""
        self._early, self._is_due = False, True
        self._resume()
        self._control.send(self._message)

    def armed(self, within_s: float) -> bool:
        """Whether the guest said in time that its work is queued; then it is stopped."""
        self._early = self._has_word(within_s)
        if self._early:
            self._expect(protocol.ARMED + self.nonce, WAIT_S_MAX)
            self.stop()
        return self._early

    def wait(self) -> None:
        """Lets the guest run on until it is done."""
        self._resume()
        if not self._early:
            self._expect(protocol.ARMED + self.nonce, WAIT_S_MAX)
        self._expect(protocol.DONE + self.nonce, WAIT_S_MAX)
        self._is_due = False

    def hold(self) -> None:
        """Enqueues the copy of the answer."""
        self._snapshot.copy_(self.memories[0][1].bytes)

    def is_poisoned(self) -> bool:
        """Whether nothing has been written to the outputs in 20 ms behind a shut gate."""
        outputs = self.memories[0][1].bytes
        before = outputs.clone()
        self.go()
        self.armed(1.0)
        time.sleep(0.02)
        return bool(self._torch.equal(before, outputs))

    def stop(self) -> None:
        """Stops the guest where it is; one in a namespace of its own is left running."""
        if not self._is_apart:
            os.kill(self.pid, signal.SIGSTOP)

    def _resume(self) -> None:
        if not self._is_apart:
            os.kill(self.pid, signal.SIGCONT)

    def _has_word(self, within_s: float) -> bool:
        return bool(select.select([self._control], [], [], within_s)[0])

    def _expect(self, message: bytes, within_s: float) -> None:
        if (found := self._receive(within_s)) != message:
            raise GuestFailed(f"{found[:1]!r} came, {message[:1]!r} was due")

    def _receive(self, within_s: float) -> bytes:
        if not self._has_word(within_s):
            raise GuestFailed(f"the {self.mode} guest said nothing for {within_s:.0f} s")
        message = self._control.recv(protocol.ANSWER_BYTES_MAX)
        if not message:
            raise GuestFailed(f"the {self.mode} guest ended")
        if message[:1] == protocol.FAILED:
            raise GuestFailed(message[1:].decode(errors="replace"))
        return message
