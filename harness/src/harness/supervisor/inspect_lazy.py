"""Answers that nobody had to compute, of which a check must take none."""

import importlib
import itertools
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.supervisor.inspect_data import same_bits
from harness.supervisor.structure import Flat, flatten, name_of
from harness.worker.protocol import is_alike

_FILLS = 2
_PARTS_MAX = 8
_NARROWER = ("float32", "float16", "bfloat16", "complex64")
# Float32 for float64 is what such problems mean; these are another precision.
HALVES = ("float16", "bfloat16")

Lazy = tuple[str, str, list[Any]]


@dataclass(frozen=True)
class Seat:
    """Which tensors of all ranks' data and answers are one rank's, and how to name it."""

    data: range
    answer: slice
    where: str = ""

    def among(self, right: Flat, answer: Sequence[Any]) -> list[Any]:
        """This rank's answer, and those of the others as they are right."""
        tensors = list(right.tensors)
        tensors[self.answer] = answer
        return tensors


def seats(ranks: int, right: Flat, data: Flat) -> list[Seat]:
    """The seats whose answers are had otherwise: of several ranks the first and the last."""
    if ranks == 1:
        return [Seat(range(len(data.tensors)), slice(None))]
    answers, given = _bounds(right), _bounds(data)
    return [
        Seat(range(*given[rank]), slice(*answers[rank]), f"on rank {rank} ")
        for rank in (0, ranks - 1)
    ]


def _bounds(flat: Flat) -> list[tuple[int, int]]:
    """Where each rank's tensors begin and end in the value of all."""
    counts = [len(flatten(one, "").tensors) for one in flat.rebuild(flat.tensors)]
    ends = list(itertools.accumulate(counts))
    return list(zip([0, *ends], ends, strict=False))


def of_its_form(
    right: Sequence[Any], other: Sequence[Any], inputs: Sequence[Any]
) -> Iterator[Lazy]:
    """Codes, descriptions and answers of the right form, none of which is the right one.

    `other` is the right answer to another seed, and `inputs` are the tensors of the data.
    """
    for code, said, answer in _made(right, other, inputs):
        if not all(map(same_bits, answer, right)) and not _is_equal(answer, right):
            yield code, said, answer


def of_other_forms(right: Sequence[Any], *, is_checked: bool) -> Iterator[Lazy]:
    """Answers of another shape and of another dtype, with the right values as far as they go.

    Another dtype is no mistake where the check is to judge it (`is_checked`).
    """
    torch: Any = importlib.import_module("torch")
    cut = [_cut(one) for one in right]
    yield "check_takes_shape", f"an answer of shape {list(cut[0].shape)} is taken", cut
    wide = {torch.float64: torch.float32, torch.int64: torch.int32}
    floats = [one.is_floating_point() for one in right]
    turned = [
        one.to(wide.get(one.dtype, torch.float64 if is_float else torch.int64))
        for one, is_float in zip(right, floats, strict=True)
        if not one.is_complex()
    ]
    if len(turned) == len(right) and not is_checked:
        yield "check_takes_dtype", f"an answer of {turned[0].dtype} is taken", turned


def narrower(right: Sequence[Any], free: Sequence[int]) -> Iterator[tuple[str, int, Any]]:
    """Right outputs rounded to a dtype that may be answered in, by its name and their index.

    `free` are those that may be of another dtype than the reference's.
    """
    torch: Any = importlib.import_module("torch")
    for index in free[:_PARTS_MAX]:
        one = right[index]
        name, shape = name_of(one.dtype), tuple(one.shape)
        for dtype in _NARROWER:
            if name == dtype or not is_alike(name, shape, dtype, shape):
                continue
            rounded = one.to(getattr(torch, dtype))
            if not bool((rounded.to(one.dtype) == one).all()):
                yield dtype, index, rounded


def inputs_like(right: Sequence[Any], flat: Flat, shown: Sequence[int]) -> list[Any]:
    """For each output an input of its form, or the output itself where there is none."""
    given = [flat.tensors[index] for index in shown]
    return [
        next((x for x in given if x.shape == one.shape and x.dtype == one.dtype), one)
        for one in right
    ]


def _made(right: Sequence[Any], other: Sequence[Any], inputs: Sequence[Any]) -> Iterator[Lazy]:
    torch: Any = importlib.import_module("torch")
    zeros = [torch.zeros_like(one) for one in right]
    yield "check_takes_zeros", "zeros are taken", zeros
    if 1 < len(right) <= _PARTS_MAX:
        for index, zero in enumerate(zeros):
            parts = [zero if place == index else one for place, one in enumerate(right)]
            yield "check_takes_zeros", f"zeros are taken for output {index}", parts
    if any(one.is_floating_point() and one.numel() for one in right):
        yield "check_takes_nan", "an answer of NaN alone is taken", _spoilt(right, slice(None))
        yield "check_takes_nan", "an answer that ends in a NaN is taken", _spoilt(right, -1)
    for _ in range(_FILLS):
        yield "check_takes_unwritten", "a buffer of random bytes is taken", [*map(_noise, right)]
    yield "check_takes_input", "the input is taken", list(inputs)
    yield "check_takes_cached", "the right answer to another seed is taken", list(other)


def _is_equal(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether all values are equal, as 0 and -0 are."""
    return all(bool((one == other).all()) for one, other in zip(some, others, strict=True))


def _spoilt(right: Sequence[Any], where: Any) -> list[Any]:
    torch: Any = importlib.import_module("torch")
    found = []
    for one in right:
        flat = one.detach().clone().reshape(-1)
        if one.is_floating_point() and one.numel():
            flat[where] = torch.tensor(float("nan"), dtype=one.dtype)
        found.append(flat.reshape(one.shape))
    return found


def _noise(one: Any) -> Any:
    """A tensor of the same form that holds whatever was in memory."""
    torch: Any = importlib.import_module("torch")
    if one.dtype == torch.bool:
        return torch.rand(one.shape) < 1 / 2
    size = one.numel() * one.element_size()
    generator = torch.Generator().manual_seed(secrets.randbits(63))
    words = torch.empty(-(-size // 8), dtype=torch.int64).random_(generator=generator)
    return words.view(torch.uint8)[:size].view(one.dtype).reshape(one.shape).to(one.device)


def _cut(one: Any) -> Any:
    """A tensor without its last row, or with a second one where it has no more than one."""
    torch: Any = importlib.import_module("torch")
    if one.dim() == 0:
        return torch.stack([one, one])
    return one[:-1].clone() if one.shape[0] > 1 else torch.cat([one, one])
