"""Whether the data of a case follows from its seed, differs with it, and is hard to guess."""

import importlib
from collections.abc import Sequence
from typing import Any

from harness.supervisor.structure import Flat, flatten, name_of

ENTROPY_BITS_MIN = 64.0
# Enough to tell three values from a distribution, and few enough for any case.
_LOOKED_MAX = 65_536
_SUPPORT_MAX = 4
_SUPPORT_SIZE_MIN = 64
# What one random float is taken for: uniform ones have so many bits that differ.
_FLOAT_BITS = 20.0


def inputs_of(form: str, data: Any) -> Any:
    """The part of an author's data that their generator drew."""
    return data["inputs"] if form == "kernelbench" else data


def taken(data: Any) -> Flat:
    """Data taken apart, with tensors of its own. Errors: ProblemFault."""
    return twin(flatten(data, "generate_input"))


def twin(flat: Flat) -> Flat:
    """The same with tensors of its own."""
    return flatten(flat.clone(), "generate_input")


def is_same(some: Flat, other: Flat) -> bool:
    """Whether two values are one, bit by bit."""
    is_like = some.template == other.template and some.scalars == other.scalars
    is_like = is_like and len(some.tensors) == len(other.tensors)
    return is_like and all(map(same_bits, some.tensors, other.tensors))


def same_bits(one: Any, other: Any) -> bool:
    """Whether two tensors have the same form and the same bits.

    A NaN is itself, as far as its bits are.
    """
    torch: Any = importlib.import_module("torch")
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(torch.equal(bytes_of(one), bytes_of(other)))


def bytes_of(tensor: Any) -> Any:
    """A tensor's bytes, in the order of its elements."""
    torch: Any = importlib.import_module("torch")
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def same_forms(some: Flat, other: Flat) -> bool:
    """Whether two values have the same structure, shapes and dtypes."""
    forms = [[(one.shape, one.dtype) for one in flat.tensors] for flat in (some, other)]
    return some.template == other.template and forms[0] == forms[1]


def entropy_bits(some: Flat, other: Flat, shown: Sequence[int]) -> float:
    """About how many random bits a value holds, of which `other` was drawn by another seed.

    What is equal in both counts for nothing.
    """
    pairs = [(some.tensors[index], other.tensors[index]) for index in shown]
    bits = sum((_bits(one, two) for one, two in pairs), 0.0)
    drawn = zip(some.scalars, other.scalars, strict=True)
    return bits + sum(_FLOAT_BITS for one, two in drawn if one != two)


def constants(some: Flat, other: Flat, shown: Sequence[int]) -> list[int]:
    """The inputs of several elements that are the same under both seeds.

    An index table may be so, and still be meant.
    """
    pairs = [(index, some.tensors[index], other.tensors[index]) for index in shown]
    return [index for index, one, two in pairs if one.numel() > 1 and same_bits(one, two)]


def named(flat: Flat, index: int) -> str:
    """A tensor as an author finds it again."""
    tensor = flat.tensors[index]
    return f"tensor {index} ({name_of(tensor.dtype)} {list(tensor.shape)})"


def few_values(flat: Flat, shown: Sequence[int]) -> tuple[list[str], bool]:
    """The floating inputs that hold a handful of values, and whether no other floating one is."""
    floats = [flat.tensors[index] for index in shown if flat.tensors[index].is_floating_point()]
    large = [one for one in floats if one.numel() >= _SUPPORT_SIZE_MIN]
    few = [
        f"{name_of(one.dtype)} {list(one.shape)} holds {count} values"
        for one in large
        if (count := len(_values(one)[0])) <= _SUPPORT_MAX
    ]
    return few, bool(few) and len(few) == len(floats)


def _bits(one: Any, other: Any) -> float:
    """Elements that differ, times what one of them can be."""
    differs = (bytes_of(one) != bytes_of(other)).reshape(one.numel() or 1, -1).any(1)
    count = int(differs.sum()) if one.numel() else 0
    if not count:
        return 0.0
    values, counts = _values(one)
    shares = counts.double() / counts.sum()
    each = -float((shares * shares.log2()).sum())
    if len(values) == int(counts.sum()):
        # All of them differ: what was looked at says no more than that they are many.
        each = max(each, _FLOAT_BITS)
    return count * each if len(values) > 1 else _FLOAT_BITS


def _values(tensor: Any) -> tuple[Any, Any]:
    """The values among the first elements, and how often each is there."""
    torch: Any = importlib.import_module("torch")
    flat = tensor.detach().resolve_conj().reshape(-1)[:_LOOKED_MAX].contiguous()
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    size = flat.element_size()
    bits = flat.view(words[size]) if size in words else torch.view_as_real(flat)[:, 0]
    values, counts = torch.unique(bits, return_counts=True)
    return values, counts
