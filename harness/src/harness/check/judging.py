"""Judges a rank's answer: our guards first, then the problem's own check.

The guards are those that a check may lack. An answer may have another dtype or shape than the
reference's if the problem's check judges it.
"""

import functools
import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any, Self

from harness.check.author import AuthorCode
from harness.check.buffers import RankBuffers
from harness.check.inputs import Shape
from harness.check.structure import FlatValue, Leaf, contiguous_stride, flatten
from harness.check.utilities import find_largest_error, is_close_by_scale
from harness.defences import ALL_DEFENCES, Defences
from harness.devices.device import CoreKeepAwake, Device
from harness.messages import CaseFailed, Mismatch
from harness.problem import Case, ProblemFault
from harness.sandbox.realtime import Referee
from harness.worker.protocol import is_compatible_answer

_SHOWN_MAX = 5
# Rounding differences per dtype; only decides which elements are shown as wrong.
_ROUNDING = {"float64": 1e-7, "float32": 1e-5, "float16": 1e-3, "bfloat16": 1.6e-2}
_ROUNDING_ABSOLUTE = 1e-5

# Fewer random bits than this could equal a right answer by chance.
_POISON_BITS_MIN = 64
_LOOK_BYTES = 4096


@dataclass(frozen=True)
class JudgeContext:
    """What a call involves: the author's code, the device with its clock, the defences.

    `referee` is the thread that makes the calls. `errors` collects how far right answers are from
    the reference, which costs a reference per call; None if nobody asks.
    """

    author: AuthorCode
    device: Device
    core_keep_awake: CoreKeepAwake
    defences: Defences = ALL_DEFENCES
    referee: Referee = field(default_factory=Referee)
    errors: "AnswerErrors | None" = None

    def keep_errors(self, errors: "AnswerErrors") -> None:
        """Take the errors of an accepted answer."""
        if self.errors is not None:
            self.errors.add(errors)


class AnswerErrors:
    """The largest errors of accepted answers; infinite where a finite value was expected.

    `relative` is a share of the largest finite magnitude of the reference's output.
    """

    def __init__(self) -> None:
        self.absolute = self.relative = 0.0

    def add(self, other: "AnswerErrors") -> None:
        """Take the errors of another answer."""
        self.absolute = max(self.absolute, other.absolute)
        self.relative = max(self.relative, other.relative)

    def compare(self, outputs: Sequence[Any], expected: Sequence[Any]) -> Self:
        """Take the errors of outputs, of the same shapes as those of the reference."""
        for output, right in zip(outputs, expected, strict=True):
            absolute, scale = find_largest_error(output, right)
            relative = absolute / scale if scale else inf if absolute else 0.0
            self.absolute = max(self.absolute, absolute)
            self.relative = max(self.relative, relative)
        return self


class ReferenceAnswerNeeded(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A rank needs the reference's answer, which communicating ranks compute together."""


def judge_answer(
    judge_context: JudgeContext,
    case: Case,
    buffers: RankBuffers,
    declaration: bytes,
    known: Sequence[Any] | None = None,
) -> None:
    """Judge the copied answer, read as the worker declared it if that is allowed.

    `known` is the reference's answer if communicating ranks have computed it together. Raises
    CaseFailed, ProblemFault, ReferenceAnswerNeeded.
    """
    defences, shape, snapshot = judge_context.defences, buffers.shape, buffers.snapshot
    leaves = declared_leaves(shape, declaration)
    flat, data = buffers.flat, buffers.data
    if not defences.keeps_inputs_private:
        flat, data = buffers.seen()
    author = judge_context.author
    right_answer = functools.cache(
        lambda: _compute_alone(author, case, buffers, flat) if known is None else known
    )
    if defences.poisons:
        require_written(shape.outputs, snapshot, buffers.noise_in)
    require_valid_bools(leaves, snapshot)
    outputs = [leaf.view(snapshot) for leaf in leaves]
    pairs = zip(outputs, shape.outputs, strict=True)
    reshaped = [output.reshape(leaf.shape) for output, leaf in pairs]
    require_numbers(reshaped, right_answer)
    if not defences.compares_all:
        # Like a check that looks at the first elements only.
        for output, right in zip(outputs, right_answer(), strict=True):
            output.flatten()[64:] = right.flatten()[64:]
    difference = describe_difference(shape.outputs, leaves)
    # The check gets the reference's shape: it could take a leading 1 for a row dimension.
    shown_value = FlatValue(shape.answer, reshaped, [])
    answer = shown_value.rebuild(reshaped)
    # A check may change the answer.
    errors = _measure_errors(judge_context, reshaped, right_answer)
    if author.is_together(case):
        # It may be judged twice, and a check may write to its arguments.
        data, answer = flat.clone(), shown_value.clone()
    if complaint := _call_check(lambda: author.complaint(case, data, answer), difference):
        failure = CaseFailed("wrong_answer", complaint, is_last=False)
        failure.wrong, failure.mismatches = find_mismatches(reshaped, right_answer())
        raise failure
    if errors is not None:
        judge_context.keep_errors(errors)


def _measure_errors(
    judge_context: JudgeContext, outputs: Sequence[Any], expected: Callable[[], Sequence[Any]]
) -> AnswerErrors | None:
    """Return the errors of outputs, None if nobody asks for them."""
    if judge_context.errors is None:
        return None
    return AnswerErrors().compare(outputs, expected())


def _call_check(check: Callable[[], str | None], difference: str) -> str | None:
    """Return the check's complaint. A check that cannot read another form is not at fault."""
    try:
        return check()
    except ProblemFault as fault:
        if not difference:
            raise
        return f"{difference}, which the problem's own check cannot read: {fault}"


def _compute_alone(
    author: AuthorCode, case: Case, buffers: RankBuffers, flat: FlatValue
) -> Sequence[Any]:
    """Return the reference's answer for a rank that can compute it alone."""
    if author.is_together(case):
        raise ReferenceAnswerNeeded
    return compute_expected(author, case, buffers, flat)


def compute_expected(
    author: AuthorCode, case: Case, buffers: RankBuffers, flat: FlatValue
) -> list[Any]:
    """Return the reference's answer for one rank. Raises ProblemFault."""
    answer = flatten(author.answer(case, flat.clone()), "ref_kernel")
    outputs, parts = buffers.shape.outputs, answer.tensors
    if len(parts) != len(outputs) or not all(map(Leaf.holds, outputs, parts)):
        raise ProblemFault("ref_kernel makes other shapes under another seed")
    return parts


def require_written(
    outputs: Sequence[Leaf], snapshot: Any, poison: Callable[[Leaf, int], Any]
) -> None:
    """Raise CaseFailed if an output still holds what its memory was filled with."""
    torch: Any = importlib.import_module("torch")
    for index, leaf in enumerate(outputs):
        bits = leaf.size if leaf.dtype == "bool" else 8 * leaf.size
        # Nearly every answer differs in its first bytes; then the rest need not be compared.
        sizes = (min(leaf.size, _LOOK_BYTES), leaf.size)
        written = leaf.bytes_in(snapshot)
        is_poison = all(torch.equal(written[:size], poison(leaf, size)) for size in sizes)
        if is_poison and bits >= _POISON_BITS_MIN:
            raise _wrong_output(index, outputs, "was never written")


def require_numbers(outputs: Sequence[Any], expected: Callable[[], Sequence[Any]]) -> None:
    """Raise CaseFailed for a NaN where the reference has none."""
    suspects = [i for i, output in enumerate(outputs) if _may_have_nan(output)]
    if not suspects:
        return
    answers = expected()
    for index in suspects:
        extra = nan_mask(outputs[index]) & ~nan_mask(answers[index])
        if count := int(extra.sum()):
            raise _wrong_output(index, outputs, f"has {count} NaN among {extra.numel()} values")


def require_valid_bools(outputs: Sequence[Leaf], snapshot: Any) -> None:
    """Raise CaseFailed for a bool that is neither 0 nor 1; comparisons misjudge such bits."""
    for index, leaf in enumerate(outputs):
        if leaf.dtype == "bool" and leaf.size and int(leaf.bytes_in(snapshot).max()) > 1:
            raise _wrong_output(index, outputs, "holds bytes that are not valid bools")


def find_mismatches(outputs: Sequence[Any], expected: Sequence[Any]) -> tuple[int, list[Mismatch]]:
    """Return how many elements differ by more than rounding, and the first of them."""
    count = 0
    mismatches: list[Mismatch] = []
    for place, (output, answer) in enumerate(zip(outputs, expected, strict=True)):
        off = _wrong_elements(output, answer)
        count += int(off.sum())
        for index in off.nonzero()[: _SHOWN_MAX - len(mismatches)].tolist():
            position = tuple(index)
            name = f"{place}:" if len(outputs) > 1 else ""
            location = f"{name}[{', '.join(map(str, index))}]"
            mismatches.append(
                Mismatch(location, repr(output[position].item()), repr(answer[position].item()))
            )
    return count, mismatches


def _wrong_elements(output: Any, answer: Any) -> Any:
    if not (output.is_floating_point() or output.is_complex()):
        return output != answer
    rounding = _ROUNDING.get(str(output.dtype).removeprefix("torch."), 1e-2)
    return ~is_close_by_scale(output, answer, rounding, _ROUNDING_ABSOLUTE)[0]


def _may_have_nan(tensor: Any) -> bool:
    """Return whether a tensor may hold a NaN: surely not if its sum is none.

    The sum takes a twentieth of the mask's time. It is also NaN for infinities of both signs.
    """
    torch: Any = importlib.import_module("torch")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    if tensor.is_floating_point() and tensor.element_size() == 1:
        return bool(nan_mask(tensor).any())
    return bool(torch.isnan(tensor.sum()))


def nan_mask(tensor: Any) -> Any:
    """Return where a tensor is NaN, including 8-bit floats, which torch.isnan lacks."""
    torch: Any = importlib.import_module("torch")
    is_small = tensor.is_floating_point() and tensor.element_size() == 1
    return torch.isnan(tensor.float() if is_small else tensor)


def _wrong_output(index: int, outputs: Sequence[Any], fault: str) -> CaseFailed:
    name = "the output" if len(outputs) == 1 else f"output {index}"
    return CaseFailed("wrong_answer", f"{name} {fault}", is_last=False)


def declared_leaves(shape: Shape, declaration: bytes) -> tuple[Leaf, ...]:
    """Return how the outputs are to be read. Raises CaseFailed `protocol` if not allowed."""
    if not declaration:
        return shape.outputs
    leaves = list(shape.outputs)
    try:
        for index, dtype, sizes in _parse_declaration(declaration):
            leaves[index] = _declared_leaf(shape, index, dtype, sizes)
    except (IndexError, RecursionError, TypeError, ValueError):
        reason = "the worker declared an impossible dtype or shape"
        raise CaseFailed("protocol", reason) from None
    return tuple(leaves)


def describe_difference(expected: Sequence[Leaf], declared: Sequence[Leaf]) -> str:
    """Describe what was returned instead of what was expected, "" if nothing differs."""
    differences = [
        f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
        for want, got in zip(expected, declared, strict=True)
        if want != got
    ]
    return f"custom_kernel returned {'; '.join(differences)}" if differences else ""


def _parse_declaration(declaration: bytes) -> list[tuple[int, str, list[int]]]:
    items = json.loads(declaration)
    indices = [index for index, _, _ in items]
    if not isinstance(items, list) or len(set(indices)) < len(indices):
        raise ValueError
    return items


def _declared_leaf(shape: Shape, index: Any, dtype: Any, sizes: Any) -> Leaf:
    """Return one output as declared. Raises TypeError or ValueError if that is not allowed."""
    if type(index) is not int or index < 0 or type(dtype) is not str:
        raise TypeError
    if not isinstance(sizes, list) or not all(
        type(length) is int and length >= 0 for length in sizes
    ):
        raise TypeError
    leaf = shape.outputs[index]
    if index in shape.buffers or not is_compatible_answer(leaf.dtype, leaf.shape, dtype, sizes):
        raise ValueError
    torch: Any = importlib.import_module("torch")
    size = prod(sizes) * int(getattr(torch, dtype).itemsize)
    stride = contiguous_stride(tuple(sizes))
    return replace(leaf, size=size, dtype=dtype, shape=tuple(sizes), stride=stride)
