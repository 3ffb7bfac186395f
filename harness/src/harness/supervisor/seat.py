"""One rank's place at a call: its two memories, what it is shown, and what it answered."""

import importlib
import json
import secrets
from dataclasses import dataclass, replace
from typing import Any, Protocol

from harness.devices.device import Memory
from harness.problem import ProblemFault
from harness.supervisor.inputs import Shape
from harness.supervisor.structure import Flat, Leaf, flatten, size_of
from harness.worker import protocol

_WORD_BYTES = 8


class Store(Protocol):
    """Where a seat has its memories from: a device, or a part of it."""

    def allocate(self, size: int, role: str) -> Memory:
        """A memory of so many bytes for `inputs` or `outputs`. Errors: DeviceFault."""


@dataclass
class Shown:
    """The data of the call in hand: as the author's code made it, and taken apart."""

    data: Any
    flat: Flat


class Seat:
    """The memories of one rank for one case; `snapshot` is the answer that is judged."""

    def __init__(self, store: Store, shape: Shape) -> None:
        torch: Any = importlib.import_module("torch")
        self.shape = shape
        self._inputs = store.allocate(size_of(shape.inputs), "inputs")
        self._outputs = store.allocate(size_of(shape.outputs), "outputs")
        self.poison = _Poison(torch, shape, self._outputs.bytes)
        self.snapshot: Any = torch.empty_like(self._outputs.bytes)
        self._views = [leaf.view(self._inputs.bytes) for leaf in shape.inputs]
        self._tensors: list[Any] = []
        self.shown = Shown(None, Flat([], [], []))
        self._equal = torch.equal

    @property
    def memories(self) -> tuple[Memory, Memory]:
        """What the worker maps: inputs, outputs."""
        return self._inputs, self._outputs

    def layout(self) -> bytes:
        """What the worker is told of the case and of its memories."""
        return self.shape.layout([memory.told for memory in self.memories])

    def prepare(self, data: Any) -> None:
        """Takes the next call's data apart. Errors: ProblemFault, if it is of another shape."""
        flat = flatten(data, "generate_input")
        self.shown = Shown(data, flat)
        self._tensors = [tensor.detach() for tensor in self.shape.inputs_of(flat)]

    @property
    def has_data(self) -> bool:
        """Whether there is data from an earlier call."""
        return self.shown.data is not None

    def scalars(self) -> bytes:
        """The leaves that are no tensors, as the worker reads them. Errors: ProblemFault."""
        scalars = self.shown.flat.scalars
        said = json.dumps(scalars).encode() if scalars else b""
        if len(said) > protocol.SCALARS_BYTES_MAX:
            reason = f"{len(said)} bytes, at most {protocol.SCALARS_BYTES_MAX} can be carried"
            raise ProblemFault(f"generate_input makes plain values of {reason}")
        return said

    def show(self) -> None:
        """Copies the private inputs to where the worker sees them."""
        for view, tensor in zip(self._views, self._tensors, strict=True):
            view.copy_(tensor)

    def hold(self) -> None:
        """Copies the outputs to where only the supervisor reaches them."""
        self.snapshot.copy_(self._outputs.bytes)

    def is_still(self) -> bool:
        """Whether the outputs are what they were when they were held."""
        return bool(self._equal(self._outputs.bytes, self.snapshot))

    def seen(self) -> tuple[Flat, Any]:
        """The data as it lies in the memory that the worker reaches: for mutation tests alone."""
        twins = list(self.shown.flat.tensors)
        for index, view in zip(self.shape.shown, self._views, strict=True):
            twins[index] = view.clone()
        flat = replace(self.shown.flat, tensors=twins)
        return flat, flat.rebuild(twins)

    def close(self) -> None:
        """Lets go of the memories."""
        self._views = []
        self._inputs.close()
        self._outputs.close()


class _Poison:
    """What fills the outputs before a call: other bits every time, so that none are right."""

    def __init__(self, torch: Any, shape: Shape, target: Any) -> None:
        generator = torch.Generator(target.device).manual_seed(secrets.randbits(63))
        self._torch = torch
        self._target = target.view(torch.int64)
        self._pool = torch.empty_like(self._target)
        self._pool.random_(generator=generator)
        self._word = 0
        self._bools = [leaf for leaf in shape.outputs if leaf.dtype == "bool"]

    def renew(self) -> None:
        """Fills the outputs anew. A bool may hold nothing but 0 and 1."""
        self._word = secrets.randbits(63)
        self._torch.bitwise_xor(self._pool, self._word, out=self._target)
        for leaf in self._bools:
            leaf.bytes_in(self._target.view(self._torch.uint8)).bitwise_and_(1)

    def bytes_in(self, leaf: Leaf, size: int) -> Any:
        """What the first bytes of an output were filled with, made again: nothing is timed now."""
        begin = leaf.offset // _WORD_BYTES
        words = self._pool[begin : begin + -(-size // _WORD_BYTES)].bitwise_xor(self._word)
        found = words.view(self._torch.uint8)[:size]
        return found.bitwise_and_(1) if leaf.dtype == "bool" else found
