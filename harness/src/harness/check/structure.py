"""Nests of tensors and plain values: flattened, laid out in memory, and rebuilt.

An object of a problem's own class, or a model, is its attributes; nothing of its class leaves the
author's process. A worker gets a namespace of the same name with the same attributes: tensors,
plain values and nests of them. The author's own functions get an object of the class again.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.problem import ProblemFault

PAGE_BYTES = 4096
Node = list[Any]

_PLAIN = (bool, int, float, str, type(None))
_INT_BITS_MAX = 64
_SCALAR_KINDS = ("scalar", "dtype", "device")
# The module of the named tuples that some torch functions return.
_NAMED_TUPLES = "torch.return_types"

_REFERENCE = "reference"


@dataclass(frozen=True)
class FlatValue:
    """A value as its tensors and scalars, with the template to rebuild it.

    The template's words are those of `harness.worker.memory`: tensor, scalar, list, tuple, dict,
    object, dtype and device; dtypes and devices are the same in every call. `objects` are kept to
    create others like them.
    """

    template: Node
    tensors: list[Any]
    scalars: list[Any]
    objects: list[Any] = field(default_factory=list)

    def rebuild(self, tensors: Sequence[Any]) -> Any:
        """Return the same value with other tensors."""
        return _build_node(self.template, tensors, self)

    def clone(self) -> Any:
        """Return the same value with copies of its tensors."""
        copies = [
            tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in self.tensors
        ]
        return self.rebuild(copies)


@dataclass(frozen=True)
class Leaf:
    """Where one tensor lies in a memory. Offset and size are in bytes, the stride in elements."""

    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def bytes_in(self, memory: Any) -> Any:
        """Return the leaf's bytes in a memory, which is a flat tensor of bytes."""
        return memory[self.offset : self.offset + self.size]

    def view(self, memory: Any) -> Any:
        """Return the tensor in a memory."""
        torch: Any = importlib.import_module("torch")
        flat = self.bytes_in(memory).view(getattr(torch, self.dtype))
        return flat.as_strided(self.shape, self.stride)

    def holds(self, tensor: Any) -> bool:
        """Return whether a tensor has the leaf's shape and dtype."""
        return tuple(tensor.shape) == self.shape and dtype_name(tensor.dtype) == self.dtype

    def as_json(self) -> Node:
        """Return the leaf as the worker reads it."""
        return [self.offset, self.size, self.dtype, list(self.shape), list(self.stride)]


@dataclass
class _Parts:
    tensors: list[Any] = field(default_factory=list)
    scalars: list[Any] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)


def flatten(value: Any, source: str) -> FlatValue:
    """Flatten a value. Raises ProblemFault if `source` made something that cannot be sent."""
    parts = _Parts()
    try:
        template = _flatten_node(value, parts, source)
    except RecursionError:
        raise ProblemFault(f"{source} made a nest that is too deep or contains itself") from None
    return FlatValue(template, parts.tensors, parts.scalars, parts.objects)


def lay_out(tensors: Sequence[Any]) -> tuple[Leaf, ...]:
    """Return a leaf for each tensor, each at the start of a page."""
    leaves: list[Leaf] = []
    offset = 0
    for tensor in tensors:
        shape = tuple(tensor.shape)
        size = tensor.numel() * tensor.element_size()
        leaves.append(Leaf(offset, size, dtype_name(tensor.dtype), shape, _dense_stride(tensor)))
        offset += -(-size // PAGE_BYTES) * PAGE_BYTES
    return tuple(leaves)


def layout_bytes(leaves: Sequence[Leaf]) -> int:
    """Return the size of a memory that holds the leaves: whole pages, at least one."""
    end = max((leaf.offset + leaf.size for leaf in leaves), default=0)
    return max(1, -(-end // PAGE_BYTES)) * PAGE_BYTES


def dtype_name(dtype: Any) -> str:
    """Return a dtype's name without the `torch.` prefix."""
    return str(dtype).removeprefix("torch.")


def relabel_tensors(node: Node, make_node: Callable[[int], Node]) -> Node:
    """Return a template with its tensor nodes replaced.

    >>> relabel_tensors(["list", [["tensor", 4], ["scalar", 0]]], lambda index: ["buffer", index])
    ['list', [['buffer', 4], ['scalar', 0]]]
    """
    kind, content = node
    if kind == "tensor":
        return make_node(content)
    if kind in _SCALAR_KINDS:
        return node
    if kind not in ("object", "dict"):
        return [kind, [relabel_tensors(item, make_node) for item in content]]
    pairs = content if kind == "dict" else content[2]
    new_pairs = [[key, relabel_tensors(item, make_node)] for key, item in pairs]
    return [kind, new_pairs if kind == "dict" else [*content[:2], new_pairs]]


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the stride of a tensor that fills its memory row by row.

    >>> contiguous_stride((2, 3))
    (3, 1)
    """
    stride, step = [], 1
    for length in reversed(shape):
        stride.append(step)
        step *= max(1, length)
    return tuple(reversed(stride))


def _flatten_node(value: Any, parts: _Parts, source: str) -> Node:
    torch: Any = importlib.import_module("torch")
    if isinstance(value, torch.Tensor):
        is_plain = value.layout is torch.strided and not value.is_quantized
        if not is_plain or value.device.type not in ("cpu", "cuda"):
            kind = f"{dtype_name(value.dtype)} {value.layout} tensor"
            raise ProblemFault(f"{source} made a {kind} on {value.device}")
        parts.tensors.append(value)
        return ["tensor", len(parts.tensors) - 1]
    if type(value) in (list, tuple, torch.Size) or type(value).__module__ == _NAMED_TUPLES:
        kind = "list" if type(value) is list else "tuple"
        return [kind, [_flatten_node(item, parts, source) for item in value]]
    if type(value) is dict and all(type(key) in (int, str) for key in value):
        return ["dict", [[key, _flatten_node(item, parts, source)] for key, item in value.items()]]
    if type(value) is int and value.bit_length() > _INT_BITS_MAX:
        raise ProblemFault(f"{source} made an int of more than {_INT_BITS_MAX} bits")
    if type(value) in _PLAIN:
        parts.scalars.append(value)
        return ["scalar", len(parts.scalars) - 1]
    return _flatten_object(value, parts, source)


def _flatten_object(value: Any, parts: _Parts, source: str) -> Node:
    torch: Any = importlib.import_module("torch")
    if isinstance(value, torch.dtype):
        return ["dtype", dtype_name(value)]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    attributes = take_apart(value)
    if attributes is None:
        reason = "use tensors, lists, tuples, dicts, plain values and the problem's own objects"
        raise ProblemFault(f"{source} made an object of type {type(value).__name__}: {reason}")
    number = len(parts.objects)
    parts.objects.append(value)
    pairs = [[name, _flatten_node(item, parts, source)] for name, item in attributes.items()]
    return ["object", [number, type(value).__name__, pairs]]


def _build_node(node: Node, tensors: Sequence[Any], flat: FlatValue) -> Any:
    kind, content = node
    if kind in ("tensor", "buffer"):
        return tensors[content]
    if kind == "scalar":
        return flat.scalars[content]
    if kind in _SCALAR_KINDS:
        torch: Any = importlib.import_module("torch")
        return getattr(torch, content) if kind == "dtype" else torch.device(content)
    if kind == "object":
        number, _, pairs = content
        attributes = {name: _build_node(item, tensors, flat) for name, item in pairs}
        return rebuild_object(flat.objects[number], attributes)
    if kind == "dict":
        return {key: _build_node(item, tensors, flat) for key, item in content}
    items = [_build_node(item, tensors, flat) for item in content]
    return tuple(items) if kind == "tuple" else items


def _dense_stride(tensor: Any) -> tuple[int, ...]:
    """Return the tensor's own stride if it has no gaps, else the contiguous one."""
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    expected = 1
    for step, length in sorted(zip(stride, shape, strict=True)):
        if length != 1 and step != expected:
            return contiguous_stride(shape)
        expected *= length
    return stride


def take_apart(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object by name; None if it cannot be taken apart."""
    if _is_model(value):
        parts = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        tables = (value._parameters, value._buffers, value._modules)  # noqa: SLF001  (as torch does)
        return parts | {name: item for table in tables for name, item in table.items()}
    if not _is_problem_class(type(value)):
        return None
    return {name: getattr(value, name) for name in _attribute_names(value) if hasattr(value, name)}


def rebuild_object(value: Any, parts: Mapping[str, Any]) -> Any:
    """Return an object like this one with other parts."""
    twin = object.__new__(type(value))
    if not _is_model(value):
        for name, part in parts.items():
            object.__setattr__(twin, name, part)
        return twin
    attributes = {
        name: part.copy() if isinstance(part, dict | set) else part
        for name, part in vars(value).items()
    }
    vars(twin).update(attributes)
    torch: Any = importlib.import_module("torch")
    tables: list[Any] = [attributes[name] for name in ("_parameters", "_buffers", "_modules")]
    for name, part in parts.items():
        table = next((candidate for candidate in tables if name in candidate), attributes)
        if table is attributes["_parameters"] and part is not None:
            part = torch.nn.Parameter(part.detach(), requires_grad=part.requires_grad)  # noqa: PLW2901
        table[name] = part
    vars(twin).update(attributes)
    return twin


def _is_model(value: Any) -> bool:
    torch: Any = importlib.import_module("torch")
    return isinstance(value, torch.nn.Module)


def _is_problem_class(kind: type) -> bool:
    modules = (sys.modules.get(kind.__module__), sys.modules.get(_REFERENCE))
    files = [getattr(module, "__file__", None) for module in modules]
    return all(files) and len({Path(str(file)).parent for file in files}) == 1


def _attribute_names(value: Any) -> list[str]:
    slots = [getattr(cls, "__slots__", ()) for cls in reversed(type(value).__mro__)]
    slot_names = [
        name for names in slots for name in ((names,) if isinstance(names, str) else names)
    ]
    return list(dict.fromkeys([*slot_names, *getattr(value, "__dict__", {})]))
