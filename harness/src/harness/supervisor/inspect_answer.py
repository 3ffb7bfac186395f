"""Whether a reference's answer can be relied on, and what else its check would take."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.problem import ProblemFault
from harness.supervisor import inspect_lazy
from harness.supervisor.compare import is_nan
from harness.supervisor.inspect_case import NATIVE, Looked, Subject
from harness.supervisor.inspect_data import is_same, same_bits, twin
from harness.supervisor.inspect_lazy import Seat
from harness.supervisor.inspect_notes import ERROR, WARNING
from harness.supervisor.structure import Flat, flatten, name_of

_LAZY_CALLS = 16


@dataclass(frozen=True)
class Answers:
    """The right answers to the data of two seeds, and what one took. Units: seconds.

    `outputs` are the tensors of the data that the answer lies in; `is_same_again` says that the
    first seed has the right answer again, whatever was in uninitialised memory.
    """

    right: Flat
    other: Flat
    reference_s: float
    outputs: tuple[int, ...]
    is_same_again: bool


def answers(subject: Subject, looked: Looked) -> Answers:
    """What the reference says of both, and what is wrong with that. Errors: ProblemFault."""
    given = twin(looked.one)
    began = subject.clock()
    right = _answered(subject, given)
    reference_s = subject.clock() - began
    outputs = _shared(given, right)
    _look_at_inputs(subject, looked, given, outputs)
    right = twin(right)
    other = twin(_answered(subject, twin(looked.other)))
    again = _answered(subject, twin(looked.one))
    if not is_same(right, again):
        is_taken = subject.complaint(looked.one, again) is None
        text = "the same data has two answers"
        subject.add("reference_random", WARNING if is_taken else ERROR, text)
    _look_at_values(subject, looked, right, other)
    is_same_again = not looked.unsteady or is_same(
        right, _answered(subject, twin(looked.again.whole))
    )
    return Answers(right, other, reference_s, outputs, is_same_again)


def check(subject: Subject, looked: Looked, found: Answers) -> float:
    """What the check says of right and lazy answers; the seconds that it takes for a right one.

    Errors: ProblemFault, if it raises for the right one.
    """
    data, output = twin(looked.one), twin(found.right)
    began = subject.clock()
    said = subject.complaint(data, output)
    check_s = subject.clock() - began
    if said is not None:
        subject.add("check_refuses", ERROR, f"it says {said[:200]!r}")
        return check_s
    kept = all(same_bits(data.tensors[i], looked.one.tensors[i]) for i in subject.shape.shown)
    if not kept or not is_same(output, found.right):
        subject.add("check_writes", WARNING, "the inputs or the answer are others afterwards")
    seats = inspect_lazy.seats(subject.case.ranks, found.right, looked.one)
    if time.monotonic() + len(seats) * _LAZY_CALLS * check_s <= subject.until:
        for seat in seats:
            _look_at_lazy(subject, looked, found, seat)
            _look_at_narrower(subject, looked, found.right, seat)
    else:
        text = "no wrong answer was shown to the check, for want of time"
        subject.add("not_inspected", WARNING, text)
    return check_s


def _answered(subject: Subject, given: Flat) -> Flat:
    answer = subject.author.answer(subject.case, given.rebuild(given.tensors))
    return flatten(answer, "ref_kernel")


def _shared(given: Flat, right: Flat) -> tuple[int, ...]:
    memories = {one.untyped_storage().data_ptr() for one in right.tensors}
    tensors = enumerate(given.tensors)
    return tuple(i for i, one in tensors if one.untyped_storage().data_ptr() in memories)


def _look_at_inputs(
    subject: Subject, looked: Looked, given: Flat, outputs: Collection[int]
) -> None:
    """What is both input and output may change."""
    changed = [
        index
        for index in subject.shape.shown
        if index not in outputs and not same_bits(given.tensors[index], looked.one.tensors[index])
    ]
    if changed:
        text = f"tensor {changed[0]} of the data is another afterwards"
        subject.add("reference_writes", ERROR, text)


def _look_at_values(subject: Subject, looked: Looked, right: Flat, other: Flat) -> None:
    bad = sum(int(is_nan(one).sum()) for one in right.tensors)
    if bad:
        shown = [looked.one.tensors[index] for index in subject.shape.shown]
        has_nan = any(bool(is_nan(one).any()) for one in shown)
        text = f"{bad} values are NaN"
        subject.add("reference_nan", WARNING if has_nan else ERROR, text)
    elif all(map(_is_constant, right.tensors)) and any(_is_long(one) for one in right.tensors):
        first = right.tensors[0].reshape(-1)[0].item()
        subject.soft("answer_constant", f"every value of the answer is {first}")
    if all(map(same_bits, right.tensors, other.tensors)) and not looked.is_fixed:
        subject.soft("answer_fixed", "two seeds have one answer")


def _look_at_lazy(subject: Subject, looked: Looked, found: Answers, seat: Seat) -> None:
    right, other = (one.tensors[seat.answer] for one in (found.right, found.other))
    shown = [index for index in subject.shape.shown if index in seat.data]
    inputs = inspect_lazy.inputs_like(right, looked.one, shown)
    for code, said, answer in inspect_lazy.of_its_form(right, other, inputs):
        text = f"{seat.where}{said}"
        try:
            if _is_taken(subject, looked, found.right, seat.among(found.right, answer)):
                subject.soft(code, text)
        except ProblemFault as fault:
            subject.soft("check_raises", f"{text.replace(' taken', ' shown')}: {fault}")
    if subject.form in ("kernelbench", NATIVE) or subject.is_timed:
        # A model's check is ours, C++ would read beyond the end, and small cases say as much.
        return
    is_checked = subject.shape.is_checked
    for code, said, answer in inspect_lazy.of_other_forms(right, is_checked=is_checked):
        level = ERROR if code == "check_takes_shape" else WARNING
        try:
            if _is_taken(subject, looked, found.right, seat.among(found.right, answer)):
                subject.add(code, level, f"{seat.where}{said}")
        except ProblemFault:
            # No run shows it such an answer, so however it says no is well.
            continue


def _look_at_narrower(subject: Subject, looked: Looked, right: Flat, seat: Seat) -> None:
    """Whether a tolerance is wider for who answers in fewer bits, where a problem lets them."""
    shape, tensors = subject.shape, right.tensors
    places = range(len(tensors))[seat.answer] if shape.is_checked else ()
    free = [index for index in places if index not in shape.buffers]
    for dtype, index, rounded in inspect_lazy.narrower(tensors, free):
        if time.monotonic() > subject.until:
            return
        own = tensors[index].dtype
        pair = (rounded, rounded.to(own))
        narrow, wide = ([*tensors[:index], one, *tensors[index + 1 :]] for one in pair)
        said = f"{seat.where}an answer in {dtype} is taken"
        if not _is_accepted(subject, looked, right, narrow):
            continue
        if not _is_accepted(subject, looked, right, wide):
            text = f"{said}, and its values in {name_of(own)} are not"
            subject.add("check_takes_rounded", ERROR, text)
        elif dtype in inspect_lazy.HALVES:
            text = f"{said} for one in {name_of(own)}"
            subject.add("check_takes_rounded", WARNING, text)


def _is_accepted(subject: Subject, looked: Looked, right: Flat, answer: Sequence[Any]) -> bool:
    """Whether it is taken by a check that may well raise, which is how some say no."""
    try:
        return _is_taken(subject, looked, right, answer)
    except ProblemFault:
        return False


def _is_taken(subject: Subject, looked: Looked, right: Flat, answer: Sequence[Any]) -> bool:
    return subject.complaint(twin(looked.one), replace(right, tensors=list(answer))) is None


def _is_constant(tensor: Any) -> bool:
    flat = tensor.reshape(-1)
    return bool((flat == flat[0]).all()) if len(flat) else True


def _is_long(tensor: Any) -> bool:
    return bool(tensor.numel() > 1)
