"""The answers that need no computation, or nearly none. A check must reject each of them.

`LAZY_ANSWERS` is the only list of them: a check of a problem tries each at every ranked size.
"""

import importlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.check.structure import FlatValue
from harness.inspect.data import have_same_bits

_PARTS_MAX = 8
# Sampling is enough to find the most frequent of a few values.
_SAMPLE_MAX = 65_536

Tensors = Sequence[Any]


@dataclass(frozen=True)
class LazySources:
    """What lazy answers are made from: the right answer's form, values and neighbours.

    `other` is the right answer to another seed, `inputs` has an input of the form of each output.
    """

    right: Tensors
    other: Tensors
    inputs: Tensors


@dataclass(frozen=True)
class LazyAnswer:
    """A kind of answer: the code for a check that accepts it, its name, and how it is made.

    With `is_scaled`, the way from the right answer to it has a length. With `is_partial`, one of
    several outputs is also tried alone.
    """

    code: str
    name: str
    make: Callable[[LazySources], list[Any]]
    is_scaled: bool = False
    is_partial: bool = False


def _fill(sources: LazySources, choose: Callable[[Any], Any]) -> list[Any]:
    """Fill each output with the one value chosen for it."""
    torch: Any = importlib.import_module("torch")
    return [torch.full_like(tensor, choose(tensor)) for tensor in sources.right]


def _mean(tensor: Any) -> Any:
    """Return the mean of the finite values; of whole numbers the most frequent one."""
    values = _finite_values(tensor)
    if not values.numel():
        return 0
    if values.is_floating_point() or values.is_complex():
        return values.mean().item()
    return values[:_SAMPLE_MAX].mode().values.item()


def _middle(tensor: Any) -> Any:
    """Return the value in the middle between the least and the largest finite value."""
    values = _finite_values(tensor)
    if not values.numel() or values.is_complex():
        return _mean(tensor)
    middle = (values.min().double() + values.max().double()).item() / 2
    return middle if tensor.is_floating_point() else int(middle)


def _uniform(tensor: Any) -> Any:
    """Return the value of a uniform distribution over the last dimension."""
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    share = 1 / max(1, tensor.shape[-1] if tensor.dim() else 1)
    return round(share) if is_whole else share


def _finite_values(tensor: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    values = tensor.detach().reshape(-1)
    if not (values.is_floating_point() or values.is_complex()):
        return values.to(torch.int64)
    values = values.to(torch.complex128 if values.is_complex() else torch.float64)
    return values[torch.isfinite(values)]


def _first_rows(sources: LazySources) -> list[Any]:
    """Return the first row of each output, repeated for all of its rows."""
    return [
        tensor[:1].expand_as(tensor).clone() if tensor.dim() else tensor.clone()
        for tensor in sources.right
    ]


def _with_nan(right: Tensors, where: Any) -> list[Any]:
    torch: Any = importlib.import_module("torch")
    tensors = []
    for tensor in right:
        flat = tensor.detach().clone().reshape(-1)
        if tensor.is_floating_point() and tensor.numel():
            flat[where] = torch.tensor(float("nan"), dtype=tensor.dtype)
        tensors.append(flat.reshape(tensor.shape))
    return tensors


def _noise(sources: LazySources) -> list[Any]:
    return [*map(_random_bytes, sources.right)]


def _random_bytes(tensor: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    if tensor.dtype == torch.bool:
        return torch.rand(tensor.shape) < 1 / 2
    size = tensor.numel() * tensor.element_size()
    generator = torch.Generator().manual_seed(secrets.randbits(63))
    words = torch.empty(-(-size // 8), dtype=torch.int64).random_(generator=generator)
    return words.view(torch.uint8)[:size].view(tensor.dtype).reshape(tensor.shape).to(tensor.device)


_CONSTANT, _UNWRITTEN = "check_takes_constant", "check_takes_unwritten"
LAZY_ANSWERS = (
    LazyAnswer(
        "check_takes_zeros",
        "zeros",
        lambda it: _fill(it, lambda _: 0),
        is_scaled=True,
        is_partial=True,
    ),
    LazyAnswer(_CONSTANT, "ones", lambda it: _fill(it, lambda _: 1)),
    LazyAnswer(
        _CONSTANT,
        "the mean of the answer",
        lambda it: _fill(it, _mean),
        is_scaled=True,
        is_partial=True,
    ),
    LazyAnswer(
        _CONSTANT,
        "the middle of the answer's range",
        lambda it: _fill(it, _middle),
        is_scaled=True,
    ),
    LazyAnswer(_CONSTANT, "a uniform distribution", lambda it: _fill(it, _uniform)),
    LazyAnswer(_CONSTANT, "the answer's first row in every row", _first_rows, is_scaled=True),
    LazyAnswer(
        "check_takes_nan", "an answer of NaN alone", lambda it: _with_nan(it.right, slice(None))
    ),
    LazyAnswer(
        "check_takes_nan", "an answer that ends in a NaN", lambda it: _with_nan(it.right, -1)
    ),
    LazyAnswer(_UNWRITTEN, "a buffer of random bytes", _noise),
    LazyAnswer(_UNWRITTEN, "a buffer of other random bytes", _noise),
    LazyAnswer("check_takes_input", "the input", lambda it: list(it.inputs), is_scaled=True),
    LazyAnswer(
        "check_takes_cached",
        "the right answer to another seed",
        lambda it: list(it.other),
        is_scaled=True,
    ),
)


def make_lazy_answers(sources: LazySources) -> Iterator[tuple[LazyAnswer, str, list[Any]]]:
    """Yield each lazy answer with its name, without those that are right.

    Of up to eight outputs, each is also replaced alone where that makes sense.
    """
    right = sources.right
    for lazy in LAZY_ANSWERS:
        answer = lazy.make(sources)
        variants = [(lazy.name, answer)]
        if lazy.is_partial and 1 < len(right) <= _PARTS_MAX:
            for index, part in enumerate(answer):
                parts = [part if place == index else output for place, output in enumerate(right)]
                variants.append((f"{lazy.name} in output {index}", parts))
        for name, tensors in variants:
            if not _is_right(tensors, right):
                yield lazy, name, tensors


def _is_right(answer: Tensors, right: Tensors) -> bool:
    # 0 equals -0, although the bits differ.
    is_equal = all(bool((got == want).all()) for got, want in zip(answer, right, strict=True))
    return is_equal or all(map(have_same_bits, answer, right))


def can_step(lazy: Tensors, right: Tensors) -> bool:
    """Return whether an answer has values that can be moved towards a lazy one."""
    return any(
        start.is_floating_point() or start.is_complex()
        for end, start in zip(lazy, right, strict=True)
        if not have_same_bits(end, start)
    )


def step_towards(lazy: Tensors, right: Tensors, share: float) -> list[Any]:
    """Return the right answer, moved a share of the way to a lazy one.

    Whole numbers stay, and so do values where one of the two is not finite.
    """
    torch: Any = importlib.import_module("torch")
    moved = []
    for end, start in zip(lazy, right, strict=True):
        if not (start.is_floating_point() or start.is_complex()):
            moved.append(start)
            continue
        wide = torch.complex128 if start.is_complex() else torch.float64
        begin, change = start.to(wide), end.to(wide) - start.to(wide)
        change = torch.where(torch.isfinite(change), change, torch.zeros_like(change))
        moved.append((begin + share * change).to(start.dtype))
    return moved


def match_inputs(right: Tensors, flat: FlatValue, shown: Sequence[int]) -> list[Any]:
    """Return for each output an input of its form, or the output itself if there is none."""
    tensors = {(flat.tensors[i].shape, flat.tensors[i].dtype): flat.tensors[i] for i in shown[::-1]}
    return [tensors.get((output.shape, output.dtype), output) for output in right]
