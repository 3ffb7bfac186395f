"""The memories of one rank for one case, with the data and the answers of its calls."""

import importlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.check.inputs import Shape
from harness.check.structure import FlatValue, Leaf, flatten, layout_bytes
from harness.devices.device import Memory
from harness.problem import ProblemFault
from harness.worker import protocol

_WORD_BYTES = 8


class MemoryAllocator(Protocol):
    """Where buffers come from: a device, or a part of one."""

    def allocate(self, size: int, role: str) -> Memory:
        """Return a memory of `size` bytes for `inputs` or `outputs`. Raises DeviceFault."""


@dataclass
class CallData:
    """What one call is given and what it answered: private data, and the copy that is judged.

    `data` is what the author's code made, `flat` the same as a list of tensors; `noise` is what the
    outputs were filled with. `snapshot` is None until a call has been made with the data.
    """

    data: Any
    flat: FlatValue
    tensors: list[Any]
    snapshot: Any = None
    noise: int = 0


class RankBuffers:
    """The memories of one rank for one case, and the data and answers of its calls.

    `snapshot`, `flat` and `data` are those of the selected call.
    """

    def __init__(self, store: MemoryAllocator, shape: Shape) -> None:
        torch: Any = importlib.import_module("torch")
        self.shape = shape
        self._inputs = store.allocate(layout_bytes(shape.inputs), "inputs")
        self._outputs = store.allocate(layout_bytes(shape.outputs), "outputs")
        self.poison = _Noise(torch, shape, self._outputs.bytes)
        self._views = [leaf.view(self._inputs.bytes) for leaf in shape.inputs]
        self._snapshots: list[Any] = [torch.empty_like(self._outputs.bytes)]
        self.calls: list[CallData] = []
        self._call = CallData(None, FlatValue([], [], []), [], self._snapshots[0])
        self._torch = torch

    @property
    def memories(self) -> tuple[Memory, Memory]:
        """The inputs and outputs that the worker maps."""
        return self._inputs, self._outputs

    @property
    def output_bytes(self) -> int:
        """The size of the outputs' memory."""
        return len(self._outputs.bytes)

    @property
    def snapshot(self) -> Any:
        """The copied answer of the selected call."""
        return self._call.snapshot

    @property
    def flat(self) -> FlatValue:
        """The data of the selected call, as a list of tensors."""
        return self._call.flat

    @property
    def data(self) -> Any:
        """The data of the selected call, as the author's code made it; None before the first."""
        return self._call.data

    def layout(self) -> bytes:
        """Return what the worker is told of the case and of its memories."""
        return self.shape.layout([memory.layout for memory in self.memories])

    def prepare(self, *values: Any) -> None:
        """Take the data of the next calls, one value each, and select the first.

        Raises ProblemFault if the shape of the data differs from the case's.
        """
        calls = []
        for data in values:
            flat = flatten(data, "generate_input")
            tensors = [tensor.detach() for tensor in self.shape.inputs_of(flat)]
            calls.append(CallData(data, flat, tensors))
        self.take(calls)

    def take(self, calls: Sequence[CallData]) -> None:
        """Use the data of these calls, also of another team's, for the next calls of this one."""
        while len(self._snapshots) < len(calls):
            self._snapshots.append(self._torch.empty_like(self._outputs.bytes))
        self.calls = [
            CallData(call.data, call.flat, call.tensors, snapshot)
            for call, snapshot in zip(calls, self._snapshots, strict=False)
        ]
        self.select(0)

    def select(self, index: int) -> None:
        """Make, or judge, this call from now on."""
        self._call = self.calls[index]

    def renew_noise(self) -> None:
        """Fill the outputs with new noise for the selected call."""
        self._call.noise = self.poison.renew()

    def noise_in(self, leaf: Leaf, size: int) -> Any:
        """Return the noise that the first bytes of an output held before the selected call."""
        return self.poison.bytes_in(leaf, size, self._call.noise)

    def scalars(self) -> bytes:
        """Return the non-tensor leaves as the worker reads them. Raises ProblemFault."""
        scalars = self.flat.scalars
        message = json.dumps(scalars).encode() if scalars else b""
        if len(message) > protocol.SCALARS_BYTES_MAX:
            reason = f"{len(message)} bytes, at most {protocol.SCALARS_BYTES_MAX} are allowed"
            raise ProblemFault(f"generate_input makes plain values of {reason}")
        return message

    def show(self) -> None:
        """Copy the private inputs to where the worker sees them."""
        for view, tensor in zip(self._views, self._call.tensors, strict=True):
            view.copy_(tensor)

    def hold(self) -> None:
        """Copy the outputs to where only the supervisor reaches them."""
        self.snapshot.copy_(self._outputs.bytes)

    def is_still(self) -> bool:
        """Return whether the outputs are unchanged since they were copied."""
        # A layout ends with a page, so there is no rest; bytes take 8 times as long to compare.
        words = self._torch.int64
        return bool(self._torch.equal(self._outputs.bytes.view(words), self.snapshot.view(words)))

    def seen(self) -> tuple[FlatValue, Any]:
        """Return the data in the memory that the worker reaches; for mutation tests only."""
        tensors = list(self.flat.tensors)
        for index, view in zip(self.shape.input_indices, self._views, strict=True):
            tensors[index] = view.clone()
        flat = replace(self.flat, tensors=tensors)
        return flat, flat.rebuild(tensors)

    def close(self) -> None:
        """Release the memories."""
        self._views = []
        self._inputs.close()
        self._outputs.close()


class _Noise:
    """Fills the outputs before each call with new random bits, so that none are right by chance."""

    def __init__(self, torch: Any, shape: Shape, target: Any) -> None:
        generator = torch.Generator(target.device).manual_seed(secrets.randbits(63))
        self._torch = torch
        self._target = target.view(torch.int64)
        self._pool = torch.empty_like(self._target)
        self._pool.random_(generator=generator)
        self._bools = [leaf for leaf in shape.outputs if leaf.dtype == "bool"]

    def renew(self) -> int:
        """Fill the outputs again and return the word of this noise. A bool holds only 0 and 1."""
        word = secrets.randbits(63)
        self._torch.bitwise_xor(self._pool, word, out=self._target)
        for leaf in self._bools:
            leaf.bytes_in(self._target.view(self._torch.uint8)).bitwise_and_(1)
        return word

    def bytes_in(self, leaf: Leaf, size: int, word: int) -> Any:
        """Return a noise in the first bytes of an output, recomputed outside timed code."""
        begin = leaf.offset // _WORD_BYTES
        words = self._pool[begin : begin + -(-size // _WORD_BYTES)].bitwise_xor(word)
        noise = words.view(self._torch.uint8)[:size]
        return noise.bitwise_and_(1) if leaf.dtype == "bool" else noise
