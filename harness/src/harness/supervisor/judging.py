"""Whether what a rank answered is right: our guards first, then the problem's own check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.devices.device import Device
from harness.problem import Case, ProblemFault
from harness.supervisor import compare, declared
from harness.supervisor.author import Author
from harness.supervisor.defences import ALL, Defences
from harness.supervisor.seat import Seat
from harness.supervisor.structure import Flat, flatten
from harness.supervisor.verdict import CaseFailed
from harness.supervisor.warmth import Warmer


@dataclass(frozen=True)
class Court:
    """Who takes part in a call: the author's code, the clock's device, what protects it."""

    author: Author
    device: Device
    warmer: Warmer
    defences: Defences = ALL


class AnswerWanted(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A rank needs the reference's answer, which all ranks that speak compute at once."""


def judge(
    court: Court, case: Case, seat: Seat, said: bytes, known: Sequence[Any] | None = None
) -> None:
    """Looks at the held answer, read as the worker `said` if that may differ.

    `known` is the reference's answer, where ranks that speak to each other have computed it.
    Errors: CaseFailed; ProblemFault; AnswerWanted.
    """
    defences, shape, snapshot = court.defences, seat.shape, seat.snapshot
    leaves = declared.leaves(shape, said)
    flat, data = seat.shown.flat, seat.shown.data
    if not defences.keeps_inputs_private:
        flat, data = seat.seen()
    if defences.poisons:
        compare.require_written(shape.outputs, snapshot, seat.poison.bytes_in)
    compare.require_bools(leaves, snapshot)
    outputs = [leaf.view(snapshot) for leaf in leaves]
    pairs = zip(outputs, shape.outputs, strict=True)
    alike = [output.reshape(leaf.shape) for output, leaf in pairs]
    answer = _Answer(lambda: _alone(court.author, case, seat, flat), known)
    compare.require_numbers(alike, answer)
    if not defences.compares_all:
        _forgive(outputs, answer())
    difference = declared.difference(shape.outputs, leaves)
    # The check is shown the reference's shape: of a one in front it could take the rest for a row.
    shown = Flat(shape.answer, alike, [])
    output = shown.rebuild(alike)
    if court.author.is_together(case):
        # It may be judged twice, and a check may write to what it is shown.
        data, output = flat.clone(), shown.clone()
    if complaint := _complaint(lambda: court.author.complaint(case, data, output), difference):
        failure = CaseFailed("wrong_answer", complaint, is_last=False)
        failure.wrong, failure.mismatches = compare.mismatches(alike, answer())
        raise failure


def _complaint(check: Callable[[], str | None], difference: str) -> str | None:
    """The problem's own word; that it cannot read what looks otherwise is no fault of its."""
    try:
        return check()
    except ProblemFault as fault:
        if not difference:
            raise
        return f"{difference}, which the problem's own check cannot read: {fault}"


def expected(author: Author, case: Case, seat: Seat, flat: Flat) -> list[Any]:
    """The reference's answer for one seat. Errors: ProblemFault."""
    answer = flatten(author.answer(case, flat.clone()), "ref_kernel")
    outputs, parts = seat.shape.outputs, answer.tensors
    is_same = len(parts) == len(outputs)
    if not is_same or not all(map(lambda leaf, part: leaf.holds(part), outputs, parts)):
        raise ProblemFault("ref_kernel makes other shapes under another seed")
    return answer.tensors


def _alone(author: Author, case: Case, seat: Seat, flat: Flat) -> list[Any]:
    """The same where a rank may compute it by itself. Errors: ProblemFault; AnswerWanted."""
    if author.is_together(case):
        raise AnswerWanted
    return expected(author, case, seat, flat)


class _Answer:
    """The reference's answer, computed when it is first asked for and then kept."""

    def __init__(self, compute: Callable[[], list[Any]], known: Sequence[Any] | None) -> None:
        self._compute = compute
        self._tensors = known

    def __call__(self) -> Sequence[Any]:
        if self._tensors is None:
            self._tensors = self._compute()
        return self._tensors


def _forgive(outputs: Sequence[Any], expected: Sequence[Any]) -> None:
    """All but the first elements become right: the check of a harness that looks at a part."""
    for output, right in zip(outputs, expected, strict=True):
        output.flatten()[64:] = right.flatten()[64:]
