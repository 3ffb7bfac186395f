"""Compares the data of two seeds: whether it differs, and how hard it is to guess.

Uninitialised memory is filled with known bytes, to reveal results that depend on it.
"""

import contextlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from harness.check.structure import FlatValue, dtype_name, flatten

ENTROPY_BITS_MIN = 64.0
# Enough to tell three values from a distribution, and few enough for any case.
_SAMPLE_MAX = 65_536
_SUPPORT_MAX = 4
_SUPPORT_SIZE_MIN = 64
# The bits that one random float counts as: about as many differ between uniform floats.
_FLOAT_BITS = 20.0

# Bytes of small and of large numbers; neither is NaN in any dtype.
ZEROS, ONES = 0x00, 0x3F

_NAMES = (
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
)


def flatten_copy(data: Any) -> FlatValue:
    """Flatten data and copy its tensors. Raises ProblemFault."""
    return copy_flat(flatten(data, "generate_input"))


def copy_flat(flat: FlatValue) -> FlatValue:
    """Return a copy with its own tensors."""
    return flatten(flat.clone(), "generate_input")


def have_same_values(first: FlatValue, second: FlatValue) -> bool:
    """Return whether two values are equal bit by bit."""
    has_same_structure = first.template == second.template and first.scalars == second.scalars
    has_same_structure = has_same_structure and len(first.tensors) == len(second.tensors)
    return has_same_structure and all(map(have_same_bits, first.tensors, second.tensors))


def have_same_bits(first: Any, second: Any) -> bool:
    """Return whether two tensors have the same shape, dtype and bits.

    A NaN equals a NaN with the same bits.
    """
    torch: Any = importlib.import_module("torch")
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(torch.equal(tensor_bytes(first), tensor_bytes(second)))


def tensor_bytes(tensor: Any) -> Any:
    """Return a tensor's bytes in the order of its elements."""
    torch: Any = importlib.import_module("torch")
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single element counts as contiguous with any stride, which its bytes could not have.
    return flat.as_strided((flat.numel(),), (1,)).view(torch.uint8)


def have_same_forms(first: FlatValue, second: FlatValue) -> bool:
    """Return whether two values have the same structure, shapes and dtypes."""
    forms = [[(tensor.shape, tensor.dtype) for tensor in flat.tensors] for flat in (first, second)]
    return first.template == second.template and forms[0] == forms[1]


def estimate_entropy_bits(first: FlatValue, second: FlatValue, shown: Sequence[int]) -> float:
    """Estimate how many random bits a value holds; `other` has another seed.

    Elements that are equal in both do not count.
    """
    pairs = [(first.tensors[index], second.tensors[index]) for index in shown]
    bits = sum((_tensor_entropy_bits(left, right) for left, right in pairs), 0.0)
    scalar_pairs = zip(first.scalars, second.scalars, strict=True)
    return bits + sum(_FLOAT_BITS for left, right in scalar_pairs if left != right)


def find_constant_inputs(first: FlatValue, second: FlatValue, shown: Sequence[int]) -> list[int]:
    """Return the inputs with several elements that are equal under both seeds.

    This can be intended, for example for an index table.
    """
    pairs = [(index, first.tensors[index], second.tensors[index]) for index in shown]
    return [
        index for index, left, right in pairs if left.numel() > 1 and have_same_bits(left, right)
    ]


def describe_tensor(flat: FlatValue, index: int) -> str:
    """Describe a tensor so that the author recognises it."""
    tensor = flat.tensors[index]
    return f"tensor {index} ({dtype_name(tensor.dtype)} {list(tensor.shape)})"


def find_few_valued_inputs(flat: FlatValue, shown: Sequence[int]) -> tuple[list[str], bool]:
    """Describe float inputs with few values; also whether all float inputs are such."""
    floats = [flat.tensors[index] for index in shown if flat.tensors[index].is_floating_point()]
    large_floats = [tensor for tensor in floats if tensor.numel() >= _SUPPORT_SIZE_MIN]
    descriptions = [
        f"{dtype_name(tensor.dtype)} {list(tensor.shape)} holds {count} values"
        for tensor in large_floats
        if (count := len(_count_values(tensor)[0])) <= _SUPPORT_MAX
    ]
    return descriptions, bool(descriptions) and len(descriptions) == len(floats)


def _tensor_entropy_bits(first: Any, second: Any) -> float:
    """Return the number of elements that differ times the entropy of one element."""
    differs = (tensor_bytes(first) != tensor_bytes(second)).reshape(first.numel() or 1, -1).any(1)
    count = int(differs.sum()) if first.numel() else 0
    if not count:
        return 0.0
    values, counts = _count_values(first)
    shares = counts.double() / counts.sum()
    bits_each = -float((shares * shares.log2()).sum())
    if len(values) == int(counts.sum()):
        # All sampled values differ, so the sample only gives a lower bound.
        bits_each = max(bits_each, _FLOAT_BITS)
    return count * bits_each if len(values) > 1 else _FLOAT_BITS


def _count_values(tensor: Any) -> tuple[Any, Any]:
    torch: Any = importlib.import_module("torch")
    flat = tensor.detach().resolve_conj().reshape(-1)[:_SAMPLE_MAX].contiguous()
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    size = flat.element_size()
    bits = flat.view(words[size]) if size in words else torch.view_as_real(flat)[:, 0]
    values, counts = torch.unique(bits, return_counts=True)
    return values, counts


def fill_uninitialised(byte: int) -> contextlib.AbstractContextManager[Any]:
    """Within it, torch fills with this byte what it would leave uninitialised.

    A bool gets the lowest bit. Memory from other libraries, such as numpy, is left alone.
    """
    torch: Any = importlib.import_module("torch")
    modes: Any = importlib.import_module("torch.utils._python_dispatch")
    functions = [getattr(torch.ops.aten, name) for name in _NAMES]

    class Filled(modes.TorchDispatchMode):  # type: ignore[misc]  # looked up
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Keep torch from loading its compiler: 800 modules, 0.8 s in each fork."""
            return "torch._dynamo" in sys.modules

        def __torch_dispatch__(
            self,
            function: Any,
            _types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            answer = function(*args, **(kwargs or {}))
            if function.overloadpacket in functions and answer.layout is torch.strided:
                is_bool = answer.dtype is torch.bool
                memory = torch.empty(0, dtype=torch.uint8, device=answer.device)
                memory.set_(answer.untyped_storage())
                memory.fill_(byte & 1 if is_bool else byte)
            return answer

    mode: contextlib.AbstractContextManager[Any] = Filled()
    return mode
