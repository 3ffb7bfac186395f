"""Inspects whether a reference's answer is reliable, and which wrong answers its check accepts.

The wrong answers need no computation; a check must reject all of them.
"""

import importlib
import itertools
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.check.judging import nan_mask
from harness.check.structure import FlatValue, dtype_name, flatten
from harness.inspect.case import ERROR, NATIVE, WARNING, InspectedCase, InspectedInputs
from harness.inspect.data import copy_flat, have_same_bits, have_same_values
from harness.problem import ProblemFault
from harness.worker.protocol import is_compatible_answer

_NOISE_ANSWERS = 2
_PARTS_MAX = 8
_NARROWER = ("float32", "float16", "bfloat16", "complex64")
# Problems in float64 usually accept float32 on purpose; these are a lower precision.
HALF_DTYPES = ("float16", "bfloat16")

LazyAnswer = tuple[str, str, list[Any]]

_LAZY_CALLS = 16


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


def make_same_form_answers(
    right: Sequence[Any], other: Sequence[Any], inputs: Sequence[Any]
) -> Iterator[LazyAnswer]:
    """Yield codes, descriptions and wrong answers of the right form.

    `other` is the right answer to another seed, and `inputs` are the tensors of the data.
    """
    for code, description, answer in _make_answers(right, other, inputs):
        # 0 equals -0, although the bits differ.
        is_equal = all(bool((got == want).all()) for got, want in zip(answer, right, strict=True))
        if not is_equal and not all(map(have_same_bits, answer, right)):
            yield code, description, answer


def make_other_form_answers(right: Sequence[Any], *, is_checked: bool) -> Iterator[LazyAnswer]:
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
    for index in free[:_PARTS_MAX]:
        tensor = right[index]
        name, shape = dtype_name(tensor.dtype), tuple(tensor.shape)
        for dtype in _NARROWER:
            if name == dtype or not is_compatible_answer(name, shape, dtype, shape):
                continue
            rounded = tensor.to(getattr(torch, dtype))
            if not bool((rounded.to(tensor.dtype) == tensor).all()):
                yield dtype, index, rounded


def match_inputs(right: Sequence[Any], flat: FlatValue, shown: Sequence[int]) -> list[Any]:
    """Return for each output an input of its form, or the output itself if there is none."""
    tensors = {(flat.tensors[i].shape, flat.tensors[i].dtype): flat.tensors[i] for i in shown[::-1]}
    return [tensors.get((output.shape, output.dtype), output) for output in right]


def _make_answers(
    right: Sequence[Any], other: Sequence[Any], inputs: Sequence[Any]
) -> Iterator[LazyAnswer]:
    torch: Any = importlib.import_module("torch")
    zeros = [torch.zeros_like(tensor) for tensor in right]
    yield "check_takes_zeros", "zeros are taken", zeros
    if 1 < len(right) <= _PARTS_MAX:
        for index, zero in enumerate(zeros):
            parts = [zero if place == index else output for place, output in enumerate(right)]
            yield "check_takes_zeros", f"zeros are taken for output {index}", parts
    if any(tensor.is_floating_point() and tensor.numel() for tensor in right):
        yield "check_takes_nan", "an answer of NaN alone is taken", _with_nan(right, slice(None))
        yield "check_takes_nan", "an answer that ends in a NaN is taken", _with_nan(right, -1)
    for _ in range(_NOISE_ANSWERS):
        noise = [*map(_random_bytes, right)]
        yield "check_takes_unwritten", "a buffer of random bytes is taken", noise
    yield "check_takes_input", "the input is taken", list(inputs)
    yield "check_takes_cached", "the right answer to another seed is taken", list(other)


def _with_nan(right: Sequence[Any], where: Any) -> list[Any]:
    torch: Any = importlib.import_module("torch")
    tensors = []
    for tensor in right:
        flat = tensor.detach().clone().reshape(-1)
        if tensor.is_floating_point() and tensor.numel():
            flat[where] = torch.tensor(float("nan"), dtype=tensor.dtype)
        tensors.append(flat.reshape(tensor.shape))
    return tensors


def _random_bytes(tensor: Any) -> Any:
    torch: Any = importlib.import_module("torch")
    if tensor.dtype == torch.bool:
        return torch.rand(tensor.shape) < 1 / 2
    size = tensor.numel() * tensor.element_size()
    generator = torch.Generator().manual_seed(secrets.randbits(63))
    words = torch.empty(-(-size // 8), dtype=torch.int64).random_(generator=generator)
    return words.view(torch.uint8)[:size].view(tensor.dtype).reshape(tensor.shape).to(tensor.device)


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
    ranks = list_rank_tensors(subject.case.ranks, answers.right, inputs.one)
    if time.monotonic() + len(ranks) * _LAZY_CALLS * check_s <= subject.until:
        for rank in ranks:
            _inspect_lazy_answers(subject, inputs, answers, rank)
            _inspect_narrower_answers(subject, inputs, answers.right, rank)
    else:
        text = "there was no time to show the check a wrong answer"
        subject.add("not_inspected", WARNING, text)
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
    right, other = (flat.tensors[rank.answer] for flat in (answers.right, answers.other))
    shown_indices = [index for index in subject.shape.input_indices if index in rank.data]
    inputs = match_inputs(right, inspected.one, shown_indices)
    for code, description, answer in make_same_form_answers(right, other, inputs):
        text = f"{rank.where}{description}"
        try:
            if _accepts(subject, inspected, answers.right, rank.among(answers.right, answer)):
                subject.add_soft(code, text)
        except ProblemFault as fault:
            subject.add_soft("check_raises", f"{text.replace(' taken', ' shown')}: {fault}")
    if subject.form in ("kernelbench", NATIVE) or subject.is_timed:
        # A model's check is ours, C++ would read out of bounds, and small cases show the same.
        return
    is_checked = subject.shape.is_checked
    for code, description, answer in make_other_form_answers(right, is_checked=is_checked):
        level = ERROR if code == "check_takes_shape" else WARNING
        # No run shows the check such an answer, so it may raise.
        if not _rejects(subject, inspected, answers.right, rank.among(answers.right, answer)):
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
