"""Nests of tensors and plain values: taken apart, laid out in memory, put together again."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.problem import ProblemFault
from harness.supervisor import objects

PAGE_BYTES = 4096
Node = list[Any]

_PLAIN = (bool, int, float, str, type(None))
_INT_BITS_MAX = 64
_ENDS = ("scalar", "dtype", "device")
# The module of what some functions of torch return: tuples with names.
_NAMED = "torch.return_types"


@dataclass(frozen=True)
class Flat:
    """A value as its tensors and its scalars, and the template that puts them together.

    The template's words are those of `harness.worker.memory`: tensor, scalar, list, tuple, dict,
    object, and dtype and device, which are the same in every call. Objects are kept to make others
    like them.
    """

    template: Node
    tensors: list[Any]
    scalars: list[Any]
    objects: list[Any] = field(default_factory=list)

    def rebuild(self, tensors: Sequence[Any]) -> Any:
        """The same value with other tensors in it."""
        return _build(self.template, tensors, self)

    def clone(self) -> Any:
        """The same value with tensors of its own."""
        return self.rebuild([_twin(tensor) for tensor in self.tensors])


@dataclass(frozen=True)
class Leaf:
    """Where one tensor lies in a memory; offset and size are in bytes, the stride in elements."""

    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def bytes_in(self, memory: Any) -> Any:
        """The leaf's bytes in a memory, itself a flat tensor of bytes."""
        return memory[self.offset : self.offset + self.size]

    def view(self, memory: Any) -> Any:
        """The tensor on a memory."""
        torch: Any = importlib.import_module("torch")
        flat = self.bytes_in(memory).view(getattr(torch, self.dtype))
        return flat.as_strided(self.shape, self.stride)

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor has the leaf's shape and dtype."""
        return tuple(tensor.shape) == self.shape and name_of(tensor.dtype) == self.dtype

    def as_json(self) -> Node:
        """The leaf as the worker is told of it."""
        return [self.offset, self.size, self.dtype, list(self.shape), list(self.stride)]


@dataclass
class _Parts:
    tensors: list[Any] = field(default_factory=list)
    scalars: list[Any] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)


def flatten(value: Any, source: str) -> Flat:
    """A value taken apart. Errors: ProblemFault, if `source` made what cannot be carried."""
    parts = _Parts()
    try:
        template = _take(value, parts, source)
    except RecursionError:
        raise ProblemFault(f"{source} made a nest that is too deep, or holds itself") from None
    return Flat(template, parts.tensors, parts.scalars, parts.objects)


def lay_out(tensors: Sequence[Any]) -> tuple[Leaf, ...]:
    """A leaf for each tensor, each at the beginning of a page."""
    leaves: list[Leaf] = []
    offset = 0
    for tensor in tensors:
        shape = tuple(tensor.shape)
        size = tensor.numel() * tensor.element_size()
        leaves.append(Leaf(offset, size, name_of(tensor.dtype), shape, _stride(tensor)))
        offset += -(-size // PAGE_BYTES) * PAGE_BYTES
    return tuple(leaves)


def size_of(leaves: Sequence[Leaf]) -> int:
    """The bytes of a memory that holds the leaves: whole pages, at least one."""
    end = max((leaf.offset + leaf.size for leaf in leaves), default=0)
    return max(1, -(-end // PAGE_BYTES)) * PAGE_BYTES


def name_of(dtype: Any) -> str:
    """A dtype's name without the library's.

    >>> name_of("torch.float32")
    'float32'
    """
    return str(dtype).removeprefix("torch.")


def marked(node: Node, mark: Callable[[int], Node]) -> Node:
    """A template whose tensors are called otherwise.

    >>> marked(["list", [["tensor", 4], ["scalar", 0]]], lambda index: ["buffer", index + 1])
    ['list', [['buffer', 5], ['scalar', 0]]]
    """
    kind, rest = node
    if kind == "tensor":
        return mark(rest)
    if kind in _ENDS:
        return node
    if kind == "object":
        number, name, pairs = rest
        return [kind, [number, name, [[key, marked(item, mark)] for key, item in pairs]]]
    if kind == "dict":
        return [kind, [[key, marked(item, mark)] for key, item in rest]]
    return [kind, [marked(item, mark) for item in rest]]


def usual_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """That of a tensor which fills its memory row by row.

    >>> usual_stride((2, 3))
    (3, 1)
    """
    stride, step = [], 1
    for length in reversed(shape):
        stride.append(step)
        step *= max(1, length)
    return tuple(reversed(stride))


def _twin(tensor: Any) -> Any:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _take(value: Any, parts: _Parts, source: str) -> Node:
    torch: Any = importlib.import_module("torch")
    if isinstance(value, torch.Tensor):
        is_plain = value.layout is torch.strided and not value.is_quantized
        if not is_plain or value.device.type not in ("cpu", "cuda"):
            kind = f"{name_of(value.dtype)} {value.layout} tensor"
            raise ProblemFault(f"{source} made a {kind} on {value.device}")
        parts.tensors.append(value)
        return ["tensor", len(parts.tensors) - 1]
    if type(value) in (list, tuple) or type(value).__module__ == _NAMED:
        kind = "list" if type(value) is list else "tuple"
        return [kind, [_take(item, parts, source) for item in value]]
    if type(value) is dict and all(type(key) in (int, str) for key in value):
        return ["dict", [[key, _take(item, parts, source)] for key, item in value.items()]]
    if type(value) is int and value.bit_length() > _INT_BITS_MAX:
        raise ProblemFault(f"{source} made an int of more than {_INT_BITS_MAX} bits")
    if type(value) in _PLAIN:
        parts.scalars.append(value)
        return ["scalar", len(parts.scalars) - 1]
    return _take_object(value, parts, source)


def _take_object(value: Any, parts: _Parts, source: str) -> Node:
    if found := objects.constant(value):
        return found
    own = objects.parts_of(value)
    if own is None:
        reason = "only tensors, lists, tuples, dicts, plain values and own objects can be carried"
        raise ProblemFault(f"{source} made an object of type {type(value).__name__}: {reason}")
    number = len(parts.objects)
    parts.objects.append(value)
    pairs = [[name, _take(item, parts, source)] for name, item in own.items()]
    return ["object", [number, type(value).__name__, pairs]]


def _build(node: Node, tensors: Sequence[Any], flat: Flat) -> Any:
    kind, rest = node
    if kind in ("tensor", "buffer"):
        return tensors[rest]
    if kind == "scalar":
        return flat.scalars[rest]
    if kind in _ENDS:
        return objects.of_constant(kind, rest)
    if kind == "object":
        number, _, pairs = rest
        own = {name: _build(item, tensors, flat) for name, item in pairs}
        return objects.rebuilt(flat.objects[number], own)
    if kind == "dict":
        return {key: _build(item, tensors, flat) for key, item in rest}
    items = [_build(item, tensors, flat) for item in rest]
    return tuple(items) if kind == "tuple" else items


def _stride(tensor: Any) -> tuple[int, ...]:
    """The tensor's own stride if it fills its memory without gaps, else the usual one."""
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    expected = 1
    for step, length in sorted(zip(stride, shape, strict=True)):
        if length != 1 and step != expected:
            return usual_stride(shape)
        expected *= length
    return stride
