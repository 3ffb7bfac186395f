"""Whether an output is right: how a problem's check is read, and guards that no problem forgets."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from harness.messages import Mismatch
from harness.problem import ProblemFault
from harness.supervisor.structure import Leaf
from harness.supervisor.verdict import CaseFailed

_SHOWN_MAX = 5
# What two results of one computation may differ by, per dtype, where only showing is at stake.
_ROUNDING = {"float64": 1e-7, "float32": 1e-5, "float16": 1e-3, "bfloat16": 1.6e-2}

# Fewer random bits than this could equal a right answer by chance.
_POISON_BITS_MIN = 64
_LOOK_BYTES = 4096


def complaint(said: Any) -> str | None:
    """What check_implementation returned, as a message, None if the output is right.

    Errors: ProblemFault, for anything but a bool, a text, a list of texts, or (bool, text).
    Source: the forms that public problems use.

    >>> complaint(True), complaint(""), complaint([]), complaint((True, "close enough"))
    (None, None, None, None)
    >>> complaint((False, "2 differ")), complaint(["a", "b"]), complaint(False)
    ('2 differ', 'a\\nb', 'the output is wrong')
    """
    if isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], bool):
        return None if said[0] else _text(said[1]) or "the output is wrong"
    if isinstance(said, bool):
        return None if said else "the output is wrong"
    return _text(said) or None


def require_written(
    outputs: Sequence[Leaf], snapshot: Any, poison: Callable[[Leaf, int], Any]
) -> None:
    """Errors: CaseFailed, if an output still is what its memory was filled with."""
    torch: Any = importlib.import_module("torch")
    for index, leaf in enumerate(outputs):
        bits = leaf.size if leaf.dtype == "bool" else 8 * leaf.size
        # Nearly every answer differs in its first bytes, and then nothing else need be looked at.
        sizes = (min(leaf.size, _LOOK_BYTES), leaf.size)
        here = leaf.bytes_in(snapshot)
        is_poison = all(torch.equal(here[:size], poison(leaf, size)) for size in sizes)
        if is_poison and bits >= _POISON_BITS_MIN:
            raise _wrong(f"{_name(index, outputs)} was never written")


def require_numbers(outputs: Sequence[Any], expected: Callable[[], Sequence[Any]]) -> None:
    """Errors: CaseFailed, for a NaN where the reference has none."""
    suspects = [i for i, output in enumerate(outputs) if bool(is_nan(output).any())]
    if not suspects:
        return
    answers = expected()
    for index in suspects:
        extra = is_nan(outputs[index]) & ~is_nan(answers[index])
        if count := int(extra.sum()):
            total = extra.numel()
            raise _wrong(f"{_name(index, outputs)} has {count} NaN among {total} values")


def require_bools(outputs: Sequence[Leaf], snapshot: Any) -> None:
    """Errors: CaseFailed, for a bool of other bits than 0 or 1, which no comparison is made for."""
    for index, leaf in enumerate(outputs):
        if leaf.dtype == "bool" and leaf.size and int(leaf.bytes_in(snapshot).max()) > 1:
            raise _wrong(f"{_name(index, outputs)} holds bytes that are no bool")


def mismatches(outputs: Sequence[Any], expected: Sequence[Any]) -> tuple[int, list[Mismatch]]:
    """How many elements are off by more than rounding, and the first of them."""
    count = 0
    shown: list[Mismatch] = []
    for place, (output, right) in enumerate(zip(outputs, expected, strict=True)):
        off = _off(output, right)
        count += int(off.sum())
        for index in off.nonzero()[: _SHOWN_MAX - len(shown)].tolist():
            at = tuple(index)
            name = f"{place}:" if len(outputs) > 1 else ""
            where = f"{name}[{', '.join(map(str, index))}]"
            shown.append(Mismatch(where, repr(output[at].item()), repr(right[at].item())))
    return count, shown


def _off(output: Any, right: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    if not (output.is_floating_point() or output.is_complex()):
        return output != right
    rounding = _ROUNDING.get(str(output.dtype).removeprefix("torch."), 1e-2)
    wide = torch.complex128 if output.is_complex() else torch.float64
    return ~torch.isclose(output.to(wide), right.to(wide), rounding, 1e-5, equal_nan=True)


def is_nan(tensor: Any) -> Any:
    """Where a tensor is NaN; of 8 bits too, for which torch has no such function."""
    torch: Any = importlib.import_module("torch")
    is_small = tensor.is_floating_point() and tensor.element_size() == 1
    return torch.isnan(tensor.float() if is_small else tensor)


def _text(said: Any) -> str:
    if isinstance(said, str):
        return said
    if isinstance(said, list) and all(isinstance(line, str) for line in said):
        return "\n".join(said)
    form = "a bool, a text, a list of texts, or a pair of bool and text"
    raise ProblemFault(f"check_implementation returned {said!r:.200}, expected {form}")


def _name(index: int, outputs: Sequence[Any]) -> str:
    return "the output" if len(outputs) == 1 else f"output {index}"


def _wrong(message: str) -> CaseFailed:
    return CaseFailed("wrong_answer", message, is_last=False)
