"""The two shared memories of a case, seen as the participant's data and as the answer."""

import importlib
import json
import mmap
import os
from types import SimpleNamespace
from typing import Any

from harness.worker.protocol import is_compatible_answer

Node = list[Any]
Place = tuple[Any, tuple[int, ...], tuple[int, ...]]

# The module and name of the class of all tensors.
_TENSOR = ("torch", "Tensor")


class AnswerMismatch(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """What custom_kernel returned does not have the expected structure, shape or dtype."""


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
        shown_map, held = (self._map(descriptor) for descriptor in descriptors)
        self._inputs = [self._place(shown_map, leaf) for leaf in case["inputs"]]
        self._outputs = [self._place(held, leaf) for leaf in case["outputs"]]
        self._held_at = held.data_ptr()
        self._held = held
        self._offsets = [leaf[0] for leaf in case["outputs"]]
        self._targets = [*map(_tensor, self._outputs)]
        self._has_scalars = '["scalar", ' in json.dumps(self._data)
        self._is_checked = case.get("is_checked", False)
        self._declared: list[list[Any]] = []
        self._classes: dict[str, type[SimpleNamespace]] = {}
        self._is_prepared = False
        self.prepare()

    def prepare(self) -> None:
        """Create the tensors of the next call, and free those of the last one."""
        if self._is_prepared:
            return
        self._current: Any = None
        self._current_inputs, self._current_outputs = self.tensors()
        if not self._has_scalars:
            self._current = self._build(self._data, [])
        self._is_prepared = True

    def data(self, scalars: bytes) -> Any:
        """Return the data of one call: new tensor objects each time, on the shared memory."""
        self.prepare()
        self._is_prepared = False
        if self._has_scalars:
            self._current = self._build(self._data, json.loads(scalars or b"[]"))
        return self._current

    def tensors(self) -> tuple[list[Any], list[Any]]:
        """Return the inputs and outputs, for a native submission that gets both."""
        return [*map(_tensor, self._inputs)], [*map(_tensor, self._outputs)]

    def commit(self, value: Any) -> bytes:
        """Copy what was returned into the answer's memory. Raises AnswerMismatch.

        Returns the declaration of an answer of another form, if the problem's check may judge it:
        [[output, dtype, shape], ...] as JSON.
        """
        if value is None and self._is_written(self._answer):
            return b""
        kind, content = self._answer
        if kind == "buffer" and self._is_in_place(content, value):
            return b""
        self._declared = []
        self._store(self._answer, value)
        return json.dumps(self._declared).encode() if self._declared else b""

    def _map(self, descriptor: int) -> Any:
        memory = mmap.mmap(descriptor, 0)
        os.close(descriptor)
        return self._torch.frombuffer(memory, dtype=self._torch.uint8)

    def _place(self, memory: Any, leaf: list[Any]) -> Place:
        """Return a leaf's typed memory, shape and stride, from which tensors are made."""
        offset, size, dtype, shape, stride = leaf
        flat = memory[offset : offset + size].view(getattr(self._torch, dtype))
        return flat, tuple(shape), tuple(stride)

    def _build(self, node: Node, scalars: list[Any]) -> Any:
        kind, content = node
        if kind in ("tensor", "buffer"):
            return (self._current_inputs if kind == "tensor" else self._current_outputs)[content]
        if kind == "scalar":
            return scalars[content]
        if kind in ("dict", "object"):
            pairs = content if kind == "dict" else content[2]
            attributes = {key: self._build(item, scalars) for key, item in pairs}
            if kind == "dict":
                return attributes
            # The stand-in for a problem's own class: its attributes, without methods.
            name = content[1]
            if name not in self._classes:
                self._classes[name] = type(name, (SimpleNamespace,), {})
            return self._classes[name](**attributes)
        if kind in ("dtype", "device"):
            return getattr(self._torch, content) if kind == "dtype" else self._torch.device(content)
        items = [self._build(item, scalars) for item in content]
        return tuple(items) if kind == "tuple" else items

    def _is_written(self, node: Node) -> bool:
        """Return whether the whole answer is output buffers, which need no return value."""
        kind, content = node
        if kind == "dict":
            return all(self._is_written(item) for _, item in content)
        return kind == "buffer" if isinstance(content, int) else all(map(self._is_written, content))

    def _store(self, node: Node, value: Any) -> None:
        kind, content = node
        if kind in ("tensor", "buffer"):
            self._copy(content, value, is_checked=self._is_checked and kind == "tensor")
        elif kind == "dict":
            if not isinstance(value, dict) or set(value) != {key for key, _ in content}:
                raise AnswerMismatch(self._mismatch_text(value, node))
            for key, item in content:
                self._store(item, value[key])
        else:
            if not isinstance(value, list | tuple) or len(value) != len(content):
                raise AnswerMismatch(self._mismatch_text(value, node))
            for item, part in zip(content, value, strict=True):
                self._store(item, part)

    def _copy(self, index: int, value: Any, *, is_checked: bool) -> None:
        target = self._targets[index]
        is_dense = isinstance(value, self._torch.Tensor) and not _storage_text(value)
        if not is_dense or value.dtype != target.dtype or value.shape != target.shape:
            if not is_checked or not (is_dense and self._is_alike(value, target)):
                got, expected = _describe_value(value), _describe_value(target)
                if not is_dense:
                    expected = f"a dense torch.Tensor {expected}"
                raise AnswerMismatch(f"custom_kernel returned {got}, expected {expected}")
            target = self._declared_target(index, value)
        if value.data_ptr() == target.data_ptr() and value.stride() == target.stride():
            return
        with self._torch.no_grad():
            if value.untyped_storage().data_ptr() == self._held_at:
                # Another view of the same memory would be read while it is written.
                value = value.clone()
            target.copy_(value)

    def _is_in_place(self, index: int, value: Any) -> bool:
        """Return whether the value is an output of this call, in the memory of the answer."""
        target = self._targets[index]
        return (
            value is self._current_outputs[index]
            and value.data_ptr() == target.data_ptr()
            and value.shape == target.shape
            and value.stride() == target.stride()
            and value.dtype == target.dtype
        )

    def _is_alike(self, value: Any, target: Any) -> bool:
        return is_compatible_answer(
            _dtype_name(target.dtype), target.shape, _dtype_name(value.dtype), value.shape
        )

    def _declared_target(self, index: int, value: Any) -> Any:
        self._declared.append([index, _dtype_name(value.dtype), list(value.shape)])
        offset = self._offsets[index]
        place = self._held[offset : offset + value.numel() * value.element_size()]
        return place.view(value.dtype).view(value.shape)

    def _mismatch_text(self, value: Any, node: Node) -> str:
        kind, content = node
        return (
            f"custom_kernel returned {_describe_value(value)}, expected a {kind} of {len(content)}"
        )


def _tensor(place: Place) -> Any:
    flat, shape, stride = place
    return flat.as_strided(shape, stride)


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _storage_text(tensor: Any) -> str:
    """Describe a tensor whose values are not in memory as they are in the answer's; "" if so."""
    if tensor.device.type == "meta":
        return "on the device meta, without values,"
    return "" if str(tensor.layout) == "torch.strided" else f"of layout {tensor.layout}"


def _describe_value(value: Any) -> str:
    kind = type(value)
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        text = f"{_dtype_name(value.dtype)}{list(value.shape)}"
        # An object may pass every attribute on to a tensor.
        if not any((base.__module__, base.__name__) == _TENSOR for base in kind.__mro__):
            return f"a {kind.__module__.partition('.')[0]}.{kind.__qualname__} {text}"
        storage = _storage_text(value)
        return f"a tensor {storage} {text}" if storage else text
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"an object of type {type(value).__name__}"
