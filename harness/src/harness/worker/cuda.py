"""A case on a GPU: memory of the referee's, and a gate that its launches queue up behind.

None of it is believed: whoever opens the gate early finds no input, and whoever says done early
is found out by the referee's copy of the answer.
"""

import importlib
import json
from collections.abc import Callable
from typing import Any

from harness.worker.driver import Driver
from harness.worker.memory import SharedCase

# As the referee's harness.devices.cuda.memory has it.
_REVEAL_AT = 0
_DONE_AT = 64
_TRIAL_AT = 128
_LEGACY = 1


class CudaCase(SharedCase):
    """A case whose tensors lie in the device's memory. Errors: Refused, RuntimeError of torch.

    The layout's `memories` say of inputs and outputs how many `bytes` to map, and of the inputs
    where the `gate` is; without one, calls are not gated.
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        torch = _torch()
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self._driver = Driver()
        self._told = iter(json.loads(layout)["memories"])
        self._gate = _Gate(self._driver)
        self._maps: list[Any] = []
        super().__init__(layout, descriptors)

    def gate(self, nonce: bytes) -> None:
        """Shuts the gate before whatever is enqueued next."""
        self._gate.shut(nonce)

    def release(self, nonce: bytes) -> bool:
        """Says done after all that is enqueued; True if the referee is to be told so now."""
        return self._gate.done(nonce)

    def settle(self) -> None:
        """Waits for the device. Errors: those of the submission's kernels, as torch tells them."""
        self._torch.cuda.synchronize()

    def rows(self, layout: bytes) -> list[SharedCase]:
        """The sets of a batch, each a case of its own in its piece of the memories."""
        sets, steps = (json.loads(layout)[word] for word in ("sets", "steps"))
        return [
            _Row(
                layout,
                [m[i * step : (i + 1) * step] for m, step in zip(self._maps, steps, strict=True)],
            )
            for i in range(sets)
        ]

    def _map(self, descriptor: int) -> Any:
        told = next(self._told)
        address = self._driver.map(descriptor, told["bytes"])
        if "gate" in told:
            self._gate.place(address + told["gate"])
        self._maps.append(self._torch.as_tensor(_Seen(address, told["bytes"]), device="cuda"))
        return self._maps[-1]


class CudaBatch:
    """As many input sets as `sets` says, answered together: merging their launches is legal here.

    A set takes `steps` bytes of inputs and of outputs, one after the other in the memories. The
    calls are captured in one graph; where that fails they follow each other.
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        self._whole = CudaCase(layout, descriptors)
        self._rows = self._whole.rows(layout)
        self._graph: Any = None
        self._is_tried = False

    def gate(self, nonce: bytes) -> None:
        """Shuts the gate before whatever is enqueued next."""
        self._whole.gate(nonce)

    def release(self, nonce: bytes) -> bool:
        """Says done after all that is enqueued."""
        return self._whole.release(nonce)

    def settle(self) -> None:
        """Waits for the device."""
        self._whole.settle()

    def answer(self, kernel: Callable[[Any], Any], scalars: bytes) -> None:
        """All answers. The first call is eager and then captures, later ones replay."""
        if self._graph is not None:
            self._graph.replay()
            return
        self._each(kernel, scalars)
        if self._is_tried:
            return
        self._is_tried = True
        torch = _torch()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._each(kernel, scalars)
        except RuntimeError:
            return  # what cannot be captured is called row by row
        self._graph = graph

    @property
    def is_captured(self) -> bool:
        """Whether the calls go out as one graph."""
        return self._graph is not None

    def _each(self, kernel: Callable[[Any], Any], scalars: bytes) -> None:
        for row in self._rows:
            row.commit(kernel(row.data(scalars)))


class _Row(SharedCase):
    """One input set of a batch, in a piece of the batch's memories."""

    def __init__(self, layout: bytes, pieces: list[Any]) -> None:
        self._pieces = pieces
        super().__init__(layout, [0, 1])
        # Nobody could be told of each set apart.
        self._is_checked = False

    def _map(self, descriptor: int) -> Any:
        return self._pieces[descriptor]


class _Gate:
    """Where the words of a call are, and the stream that waits for them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._at = 0
        self._stream = _LEGACY
        self._events: list[int] = []

    def place(self, address: int) -> None:
        """The mailbox. Raw launches go to the legacy stream, so the gate is there if it can be."""
        self._at = address
        if not self._driver.accepts_words(_LEGACY, address + _TRIAL_AT):
            self._stream = self._driver.stream()
            self._events = [self._driver.event(), self._driver.event()]

    def shut(self, nonce: bytes) -> None:
        """Makes all that follows wait for the referee's word."""
        if not self._at:
            return
        self._driver.wait(self._stream, self._at + _REVEAL_AT, _word(nonce, 0))
        if self._events:
            self._driver.follow(_LEGACY, self._events[0], self._stream)

    def done(self, nonce: bytes) -> bool:
        """Says done after all that went before; whether there was a gate at all."""
        if not self._at:
            return False
        if self._events:
            self._driver.follow(self._stream, self._events[1], _LEGACY)
        self._driver.write(self._stream, self._at + _DONE_AT, _word(nonce, 4))
        return True


class _Seen:
    """Bytes of the device, as libraries exchange them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


def _word(nonce: bytes, at: int) -> int:
    return int.from_bytes(nonce[at : at + 4], "little") | 1


def _torch() -> Any:
    return importlib.import_module("torch")
