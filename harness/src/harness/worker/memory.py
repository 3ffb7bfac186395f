"""The two shared memories of a case, seen as the participant's data and as the answer."""

import importlib
import json
import mmap
import os
from types import SimpleNamespace
from typing import Any

from harness.worker.protocol import is_alike

Node = list[Any]
Place = tuple[Any, tuple[int, ...], tuple[int, ...]]


class Mismatch(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """What custom_kernel returned is not of the promised structure, shape or dtype."""


class SharedCase:
    """A case's layout: `inputs` and `outputs` are leaves, `data` and `answer` are templates.

    A leaf is [offset, bytes, dtype, shape, stride] of one tensor; a template is a nest of
    ["tensor", i], ["buffer", i], ["scalar", i], ["list" or "tuple", nodes], ["dict", pairs],
    ["object", [i, name, pairs]], ["dtype" or "device", name].
    """

    def __init__(self, layout: bytes, descriptors: list[int]) -> None:
        self._torch: Any = importlib.import_module("torch")
        case = json.loads(layout)
        self._data: Node = case["data"]
        self._answer: Node = case["answer"]
        shown, held = (self._map(descriptor) for descriptor in descriptors)
        self._inputs = [self._place(shown, leaf) for leaf in case["inputs"]]
        self._outputs = [self._place(held, leaf) for leaf in case["outputs"]]
        self._held_at = held.data_ptr()
        self._held = held
        self._offsets = [leaf[0] for leaf in case["outputs"]]
        self._is_checked = case.get("is_checked", False)
        self._declared: list[list[Any]] = []
        self._classes: dict[str, type[SimpleNamespace]] = {}

    def data(self, scalars: bytes) -> Any:
        """The data of one call: new tensor objects every time, on the shared memory."""
        return self._build(self._data, json.loads(scalars) if scalars else [])

    def tensors(self) -> tuple[list[Any], list[Any]]:
        """The inputs and the outputs, for a native submission that is given both."""
        return [_tensor(one) for one in self._inputs], [_tensor(one) for one in self._outputs]

    def commit(self, value: Any) -> bytes:
        """Copies what was returned into the answer's memory. Errors: Mismatch.

        What is to be said of an answer that looks otherwise, where the problem's check may judge
        it: [[output, dtype, shape], ...] as JSON.
        """
        if value is None and self._is_written(self._answer):
            return b""
        self._declared = []
        self._store(self._answer, value)
        return json.dumps(self._declared).encode() if self._declared else b""

    def _map(self, descriptor: int) -> Any:
        memory = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        return self._torch.frombuffer(memory, dtype=self._torch.uint8)

    def _place(self, memory: Any, leaf: list[Any]) -> Place:
        """A leaf as its typed memory, its shape and its stride: what a new tensor is made from."""
        offset, size, dtype, shape, stride = leaf
        flat = memory[offset : offset + size].view(getattr(self._torch, dtype))
        return flat, tuple(shape), tuple(stride)

    def _build(self, node: Node, scalars: list[Any]) -> Any:
        kind, rest = node
        if kind == "tensor":
            return _tensor(self._inputs[rest])
        if kind == "buffer":
            return _tensor(self._outputs[rest])
        if kind == "scalar":
            return scalars[rest]
        if kind in ("dict", "object"):
            pairs = rest if kind == "dict" else rest[2]
            own = {key: self._build(item, scalars) for key, item in pairs}
            return own if kind == "dict" else self._class(rest[1])(**own)
        if kind in ("dtype", "device"):
            return getattr(self._torch, rest) if kind == "dtype" else self._torch.device(rest)
        items = [self._build(item, scalars) for item in rest]
        return tuple(items) if kind == "tuple" else items

    def _class(self, name: str) -> type[SimpleNamespace]:
        """What stands for a class of the problem's own: its attributes, and none of its methods."""
        if name not in self._classes:
            self._classes[name] = type(name, (SimpleNamespace,), {})
        return self._classes[name]

    def _is_written(self, node: Node) -> bool:
        """Whether every part of the answer is an output buffer, which needs no return value."""
        kind, rest = node
        if kind == "dict":
            return all(self._is_written(item) for _, item in rest)
        return kind == "buffer" if isinstance(rest, int) else all(map(self._is_written, rest))

    def _store(self, node: Node, value: Any) -> None:
        kind, rest = node
        if kind in ("tensor", "buffer"):
            self._copy(rest, value, is_checked=self._is_checked and kind == "tensor")
        elif kind == "dict":
            if not isinstance(value, dict) or set(value) != {key for key, _ in rest}:
                raise Mismatch(self._sentence(value, node))
            for key, item in rest:
                self._store(item, value[key])
        else:
            if not isinstance(value, list | tuple) or len(value) != len(rest):
                raise Mismatch(self._sentence(value, node))
            for item, part in zip(rest, value, strict=True):
                self._store(item, part)

    def _copy(self, index: int, value: Any, *, is_checked: bool) -> None:
        target = _tensor(self._outputs[index])
        is_same_kind = isinstance(value, self._torch.Tensor) and value.dtype == target.dtype
        if not is_same_kind or value.shape != target.shape:
            if not is_checked or not self._is_alike(value, target):
                raise Mismatch(f"custom_kernel returned {_said(value)}, expected {_said(target)}")
            target = self._otherwise(index, value)
        if value.data_ptr() == target.data_ptr() and value.stride() == target.stride():
            return
        with self._torch.no_grad():
            if value.untyped_storage().data_ptr() == self._held_at:
                # Another view of the same memory would be read while it is written.
                value = value.clone()
            target.copy_(value)

    def _is_alike(self, value: Any, target: Any) -> bool:
        is_tensor = isinstance(value, self._torch.Tensor)
        return is_tensor and is_alike(
            _name(target.dtype), target.shape, _name(value.dtype), value.shape
        )

    def _otherwise(self, index: int, value: Any) -> Any:
        """Where an answer goes that looks otherwise, which is to be said."""
        self._declared.append([index, _name(value.dtype), list(value.shape)])
        at = self._offsets[index]
        place = self._held[at : at + value.numel() * value.element_size()]
        return place.view(value.dtype).view(value.shape)

    def _sentence(self, value: Any, node: Node) -> str:
        kind, rest = node
        return f"custom_kernel returned {_said(value)}, expected a {kind} of {len(rest)}"


def _tensor(place: Place) -> Any:
    flat, shape, stride = place
    return flat.as_strided(shape, stride)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _said(value: Any) -> str:
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{_name(value.dtype)}{list(value.shape)}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"
