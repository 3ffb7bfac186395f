"""Inspects whether a reference's answer is reliable, and which wrong answers its check accepts.

The wrong answers are lazy ones, and right ones of another form or precision.
"""

import functools
import importlib
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.check.judging import nan_mask
from harness.check.structure import FlatValue, dtype_name, flatten
from harness.inspect.case import ERROR, NATIVE, WARNING, InspectedCase, InspectedInputs
from harness.inspect.data import copy_flat, have_same_bits, have_same_values
from harness.inspect.lazy import (
    LazyAnswer,
    LazySources,
    can_step,
    make_lazy_answers,
    match_inputs,
    step_towards,
)
from harness.inspections import LazyShare
from harness.problem import ProblemFault
from harness.worker.protocol import is_compatible_answer

_NARROWED_MAX = 8
_NARROWER = ("float32", "float16", "bfloat16", "complex64")
# Problems in float64 usually accept float32 on purpose; these are a lower precision.
HALF_DTYPES = ("float16", "bfloat16")

WrongAnswer = tuple[str, str, list[Any]]

# A share of the way to a lazy answer is found among the powers of 2 down to this one.
_EXPONENT_MIN = -20.0
_BISECTIONS = 6


@dataclass(frozen=True)
class RankTensors:
    """Which tensors of all ranks' data and answers belong to one rank, and how to name it."""

    data: range
    answer: slice
    where: str = ""

    def among(self, right: FlatValue, answer: Sequence[Any]) -> list[Any]:
        """Return this rank's answer with the right answers of the other ranks."""
        tensors = list(right.tensors)
        tensors[self.answer] = answer
        return tensors


def list_rank_tensors(ranks: int, right: FlatValue, data: FlatValue) -> list[RankTensors]:
    """Return the ranks whose answers are replaced: of several, the first and the last."""
    if ranks == 1:
        return [RankTensors(range(len(data.tensors)), slice(None))]
    answers, inputs = _rank_bounds(right), _rank_bounds(data)
    return [
        RankTensors(range(*inputs[rank]), slice(*answers[rank]), f"on rank {rank} ")
        for rank in (0, ranks - 1)
    ]


def _rank_bounds(flat: FlatValue) -> list[tuple[int, int]]:
    counts = [len(flatten(value, "").tensors) for value in flat.rebuild(flat.tensors)]
    ends = list(itertools.accumulate(counts))
    return list(zip([0, *ends], ends, strict=False))


def make_other_form_answers(right: Sequence[Any], *, is_checked: bool) -> Iterator[WrongAnswer]:
    """Yield answers of another shape or dtype, with right values otherwise.

    Another dtype is not a mistake if the check is meant to judge it (`is_checked`).
    """
    torch: Any = importlib.import_module("torch")
    reshaped = [_other_shape(tensor) for tensor in right]
    yield "check_takes_shape", f"an answer of shape {list(reshaped[0].shape)} is taken", reshaped
    other_dtypes = {torch.float64: torch.float32, torch.int64: torch.int32}
    floats = [tensor.is_floating_point() for tensor in right]
    converted = [
        tensor.to(other_dtypes.get(tensor.dtype, torch.float64 if is_float else torch.int64))
        for tensor, is_float in zip(right, floats, strict=True)
        if not tensor.is_complex()
    ]
    if len(converted) == len(right) and not is_checked:
        yield "check_takes_dtype", f"an answer of {converted[0].dtype} is taken", converted


def make_narrower_answers(
    right: Sequence[Any], free: Sequence[int]
) -> Iterator[tuple[str, int, Any]]:
    """Yield right outputs rounded to an allowed narrower dtype, with its name and their index.

    `free` are the outputs that may have another dtype than the reference's.
    """
    torch: Any = importlib.import_module("torch")
    for index in free[:_NARROWED_MAX]:
        tensor = right[index]
        name, shape = dtype_name(tensor.dtype), tuple(tensor.shape)
        for dtype in _NARROWER:
            if name == dtype or not is_compatible_answer(name, shape, dtype, shape):
                continue
            rounded = tensor.to(getattr(torch, dtype))
            if not bool((rounded.to(tensor.dtype) == tensor).all()):
                yield dtype, index, rounded


def _other_shape(tensor: Any) -> Any:
    """Return a tensor without its last row, or with a second row if it has only one."""
    torch: Any = importlib.import_module("torch")
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])
    return tensor[:-1].clone() if tensor.shape[0] > 1 else torch.cat([tensor, tensor])


@dataclass(frozen=True)
class ReferenceAnswers:
    """The right answers to the data of two seeds, and how long one took. Units: seconds.

    `outputs` are the tensors of the data that share memory with the answer; `is_same_again` says
    that the first seed has the same answer whatever was in uninitialised memory.
    """

    right: FlatValue
    other: FlatValue
    reference_s: float
    outputs: tuple[int, ...]
    is_same_again: bool


def collect_answers(subject: InspectedCase, inputs: InspectedInputs) -> ReferenceAnswers:
    """Compute the reference's answers to both seeds and note what is wrong with them.

    Raises ProblemFault.
    """
    data = copy_flat(inputs.one)
    began = subject.clock()
    right = _compute_answer(subject, data)
    reference_s = subject.clock() - began
    memories = {tensor.untyped_storage().data_ptr() for tensor in right.tensors}
    tensors = enumerate(data.tensors)
    outputs = tuple(i for i, tensor in tensors if tensor.untyped_storage().data_ptr() in memories)
    _inspect_writes(subject, inputs, data, outputs)
    right = copy_flat(right)
    other = copy_flat(_compute_answer(subject, copy_flat(inputs.other)))
    again = _compute_answer(subject, copy_flat(inputs.one))
    if not have_same_values(right, again):
        is_accepted = subject.complaint(inputs.one, again) is None
        text = "the same data has two answers"
        subject.add("reference_random", WARNING if is_accepted else ERROR, text)
    _inspect_values(subject, inputs, right, other)
    is_same_again = not inputs.unsteady or have_same_values(
        right, _compute_answer(subject, copy_flat(inputs.again.all_data))
    )
    return ReferenceAnswers(right, other, reference_s, outputs, is_same_again)


def inspect_check(
    subject: InspectedCase, inputs: InspectedInputs, answers: ReferenceAnswers
) -> float:
    """Inspect the check with right and lazy answers; return its seconds for a right one.

    Raises ProblemFault if the check raises for the right answer.
    """
    data, output = copy_flat(inputs.one), copy_flat(answers.right)
    began = subject.clock()
    complaint = subject.complaint(data, output)
    check_s = subject.clock() - began
    if complaint is not None:
        subject.add("check_refuses", ERROR, f"it says {complaint[:200]!r}")
        return check_s
    is_unchanged = all(
        have_same_bits(data.tensors[i], inputs.one.tensors[i]) for i in subject.shape.input_indices
    )
    if not is_unchanged or not have_same_values(output, answers.right):
        subject.add("check_writes", WARNING, "the inputs or the answer are others afterwards")
    for rank in list_rank_tensors(subject.case.ranks, answers.right, inputs.one):
        _inspect_lazy_answers(subject, inputs, answers, rank)
        _inspect_other_forms(subject, inputs, answers.right, rank)
        _inspect_narrower_answers(subject, inputs, answers.right, rank)
    return check_s


def _compute_answer(subject: InspectedCase, data: FlatValue) -> FlatValue:
    answer = subject.author.answer(subject.case, data.rebuild(data.tensors))
    return flatten(answer, "ref_kernel")


def _inspect_writes(
    subject: InspectedCase, inputs: InspectedInputs, data: FlatValue, outputs: Collection[int]
) -> None:
    """Note inputs that the reference changed; a tensor that is also an output may change."""
    for index in subject.shape.input_indices:
        is_same = have_same_bits(data.tensors[index], inputs.one.tensors[index])
        if index not in outputs and not is_same:
            text = f"tensor {index} of the data is another afterwards"
            subject.add("reference_writes", ERROR, text)
            return


def _inspect_values(
    subject: InspectedCase, inputs: InspectedInputs, right: FlatValue, other: FlatValue
) -> None:
    flats = [tensor.reshape(-1) for tensor in right.tensors]
    is_constant = all(bool((flat == flat[0]).all()) for flat in flats if len(flat))
    nan_count = sum(int(nan_mask(tensor).sum()) for tensor in right.tensors)
    if nan_count:
        input_tensors = [inputs.one.tensors[index] for index in subject.shape.input_indices]
        has_nan = any(bool(nan_mask(tensor).any()) for tensor in input_tensors)
        text = f"{nan_count} values are NaN"
        subject.add("reference_nan", WARNING if has_nan else ERROR, text)
    elif is_constant and any(len(flat) > 1 for flat in flats):
        first = flats[0][0].item()
        subject.add_soft("answer_constant", f"every value of the answer is {first}")
    if all(map(have_same_bits, right.tensors, other.tensors)) and not inputs.is_fixed:
        subject.add_soft("answer_fixed", "two seeds have one answer")


def _inspect_lazy_answers(
    subject: InspectedCase, inspected: InspectedInputs, answers: ReferenceAnswers, rank: RankTensors
) -> None:
    for lazy, name, answer in lazy_answers(subject, inspected, answers, rank):
        if time.monotonic() > subject.until:
            subject.add_untried(f"there was no time to show the check {name}")
            return
        try:
            if _accepts(subject, inspected, answers.right, rank.among(answers.right, answer)):
                subject.add_soft(lazy.code, f"{rank.where}it accepts {name}")
        except ProblemFault as fault:
            subject.add_soft("check_raises", f"{rank.where}it raises for {name}: {fault}")


def lazy_answers(
    subject: InspectedCase, inspected: InspectedInputs, answers: ReferenceAnswers, rank: RankTensors
) -> Iterator[tuple[LazyAnswer, str, list[Any]]]:
    """Yield the lazy answers of a rank, each with its name."""
    right, other = (flat.tensors[rank.answer] for flat in (answers.right, answers.other))
    shown_indices = [index for index in subject.shape.input_indices if index in rank.data]
    inputs = match_inputs(right, inspected.one, shown_indices)
    return make_lazy_answers(LazySources(right, other, inputs))


def measure_lazy_shares(
    subject: InspectedCase, inputs: InspectedInputs, answers: ReferenceAnswers
) -> dict[str, LazyShare]:
    """Return how far the check lets a right answer move to each lazy one, by its name.

    A share of 1 means that the lazy answer is accepted. What there is no time for is left out.
    """
    shares: dict[str, LazyShare] = {}
    (rank, *_) = list_rank_tensors(subject.case.ranks, answers.right, inputs.one)
    right = answers.right.tensors[rank.answer]

    def accepts(answer: list[Any]) -> bool:
        return not _rejects(subject, inputs, answers.right, rank.among(answers.right, answer))

    def accepts_step(answer: list[Any], exponent: float) -> bool:
        return accepts(step_towards(answer, right, 2.0**exponent))

    for lazy, name, answer in lazy_answers(subject, inputs, answers, rank):
        if time.monotonic() > subject.until:
            break
        exponent = 0.0 if accepts(answer) else _EXPONENT_MIN
        if exponent and lazy.is_scaled and can_step(answer, right):
            exponent = _bisect(functools.partial(accepts_step, answer))
        shares[name] = LazyShare(lazy.code, 2.0**exponent)
    return shares


def _bisect(accepts: Callable[[float], bool]) -> float:
    """Return about the largest exponent below 0 that is accepted."""
    low, high = _EXPONENT_MIN, 0.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


def _inspect_other_forms(
    subject: InspectedCase, inputs: InspectedInputs, right: FlatValue, rank: RankTensors
) -> None:
    if subject.form in ("kernelbench", NATIVE) or subject.is_timed:
        # A model's check is ours, C++ would read out of bounds, and small cases show the same.
        return
    is_checked = subject.shape.is_checked
    tensors = right.tensors[rank.answer]
    for code, description, answer in make_other_form_answers(tensors, is_checked=is_checked):
        if time.monotonic() > subject.until:
            return
        level = ERROR if code == "check_takes_shape" else WARNING
        # No run shows the check such an answer, so it may raise.
        if not _rejects(subject, inputs, right, rank.among(right, answer)):
            subject.add(code, level, f"{rank.where}{description}")


def _inspect_narrower_answers(
    subject: InspectedCase, inputs: InspectedInputs, right: FlatValue, rank: RankTensors
) -> None:
    """Note whether the check tolerates more from answers in fewer bits."""
    shape, tensors = subject.shape, right.tensors
    outputs = range(len(tensors))[rank.answer] if shape.is_checked else ()
    indices = [index for index in outputs if index not in shape.buffers]
    for dtype, index, rounded in make_narrower_answers(tensors, indices):
        if time.monotonic() > subject.until:
            return
        dtype_expected = tensors[index].dtype
        pair = (rounded, rounded.to(dtype_expected))
        narrow, wide = ([*tensors[:index], tensor, *tensors[index + 1 :]] for tensor in pair)
        text_start = f"{rank.where}an answer in {dtype} is taken"
        if _rejects(subject, inputs, right, narrow):
            continue
        if _rejects(subject, inputs, right, wide):
            text = f"{text_start}, and its values in {dtype_name(dtype_expected)} are not"
            subject.add("check_takes_rounded", ERROR, text)
        elif dtype in HALF_DTYPES:
            text = f"{text_start} for one in {dtype_name(dtype_expected)}"
            subject.add("check_takes_rounded", WARNING, text)


def _accepts(
    subject: InspectedCase, inputs: InspectedInputs, right: FlatValue, answer: Sequence[Any]
) -> bool:
    return subject.complaint(copy_flat(inputs.one), replace(right, tensors=list(answer))) is None


def _rejects(
    subject: InspectedCase, inputs: InspectedInputs, right: FlatValue, answer: Sequence[Any]
) -> bool:
    """Return whether the check rejects an answer, in any way; it may raise."""
    try:
        return not _accepts(subject, inputs, right, answer)
    except ProblemFault:
        return True
