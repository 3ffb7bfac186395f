"""Answers that look otherwise than the reference's, where a problem's own check may judge them.

The worker says in its last word of a call what it wrote in place of what it was asked for. That is
held to the same rule as in the worker, so it never is more than a narrower reading of bytes that
the supervisor has copied by then.
"""

import importlib
import json
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from harness.supervisor.inputs import Shape
from harness.supervisor.structure import Leaf, usual_stride
from harness.supervisor.verdict import CaseFailed
from harness.worker.protocol import is_alike


def leaves(shape: Shape, said: bytes) -> tuple[Leaf, ...]:
    """The outputs as they are to be read. Errors: CaseFailed `protocol`, for what may not be."""
    if not said:
        return shape.outputs
    found = list(shape.outputs)
    try:
        for index, dtype, sizes in _items(said):
            found[index] = _read(shape, index, dtype, sizes)
    except (IndexError, RecursionError, TypeError, ValueError):
        reason = "the worker said of its answer what cannot be"
        raise CaseFailed("protocol", reason) from None
    return tuple(found)


def difference(before: Sequence[Leaf], found: Sequence[Leaf]) -> str:
    """What was returned in place of what was expected, "" where nothing was."""
    pairs = [(one, other) for one, other in zip(before, found, strict=True) if one != other]
    told = [f"{_said(got)}, expected {_said(want)}" for want, got in pairs]
    return f"custom_kernel returned {'; '.join(told)}" if told else ""


def _items(said: bytes) -> list[tuple[int, str, list[int]]]:
    items = json.loads(said)
    indices = [index for index, _, _ in items]
    if not isinstance(items, list) or len(set(indices)) < len(indices):
        raise ValueError
    return items


def _read(shape: Shape, index: Any, dtype: Any, sizes: Any) -> Leaf:
    """One output otherwise. Errors: TypeError or ValueError, for what breaks the rule."""
    if type(index) is not int or index < 0 or type(dtype) is not str:
        raise TypeError
    if not isinstance(sizes, list) or not all(type(one) is int and one >= 0 for one in sizes):
        raise TypeError
    leaf = shape.outputs[index]
    if index in shape.buffers or not is_alike(leaf.dtype, leaf.shape, dtype, sizes):
        raise ValueError
    torch: Any = importlib.import_module("torch")
    size = prod(sizes) * int(getattr(torch, dtype).itemsize)
    stride = usual_stride(tuple(sizes))
    return replace(leaf, size=size, dtype=dtype, shape=tuple(sizes), stride=stride)


def _said(leaf: Leaf) -> str:
    return f"{leaf.dtype}{list(leaf.shape)}"
