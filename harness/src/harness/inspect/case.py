"""Inspects one case so that nothing that the author's functions do goes unnoticed."""

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.check.author import AuthorCode
from harness.check.inputs import KEY_BYTES, Shape, derive_seed
from harness.check.structure import FlatValue
from harness.inspect.data import (
    ENTROPY_BITS_MIN,
    ONES,
    ZEROS,
    describe_tensor,
    estimate_entropy_bits,
    fill_uninitialised,
    find_constant_inputs,
    find_few_valued_inputs,
    flatten_copy,
    have_same_bits,
    have_same_forms,
)
from harness.inspections import Finding, LazyShare
from harness.messages import make_printable
from harness.problem import Case

ERROR, WARNING = "error", "warning"
_SOFT = "soft"
_TEXT_CHARS_MAX = 900
_WHERE_CHARS_MAX = 200

# What each finding asks the author to do.
FIXES: Mapping[str, str] = {
    "author_fails": "fix it: no submission can be judged",
    "author_forks": "do not start processes there",
    "author_memory": "make the case smaller, or set requires: {memory_mib: N} in warpboard.yml",
    "not_inspected": "check it yourself, or make the case smaller",
    "generator_random": "draw everything from a generator that the seed initialises",
    "generator_fixed": "derive the data from the seed, or a cached answer passes",
    "generator_shapes": "derive sizes from the case alone",
    "entropy_low": "derive more of it from the seed",
    "input_support": "draw from a continuous distribution, or answers can be guessed",
    "input_constant": "derive it from the seed, unless it is meant to be constant",
    "reference_random": "make it depend on its data alone",
    "reference_writes": "clone what it changes",
    "reference_nan": "generate inputs for which it is defined",
    "answer_fixed": "make it depend on the random data, or a cached answer passes",
    "answer_constant": "make it depend on the random data, or nobody needs to compute it",
    "check_refuses": "fix the check, or widen its tolerance to what rounding needs",
    "check_raises": "return what is wrong: an exception counts as the problem's fault",
    "check_writes": "clone what it changes",
    "check_takes_nan": "compare so that a NaN is wrong, as in not (error <= bound).all()",
    "check_takes_zeros": "tighten the tolerance: it must be below the size of the answer",
    "check_takes_constant": "tighten the tolerance, or let inputs change the answer more",
    "check_takes_unwritten": "compare every element of every output",
    "check_takes_shape": "compare the shapes first",
    "check_takes_dtype": "compare the dtypes first",
    "check_takes_rounded": "use the tolerance of the reference's dtype, or set answers: strict",
    "check_takes_input": "compare with the reference's answer",
    "check_takes_cached": "compare with the reference's answer to the data that was passed",
    "budget": "make its cases smaller, or its budget larger",
}

# The form of problems in C++, whose functions trust the sizes they are given.
NATIVE = "native"
# If a generator has only a few different inputs, this many draws contain two equal ones.
_DRAWS = 6
_DRAW_S_MAX = 0.05
_TINY = 16
_USUAL_IN_TINY_CASES = ("answer_constant", "answer_fixed", "entropy_low")

# An author's code may replace os._exit.
_EXIT = os._exit

T = TypeVar("T")


@dataclass
class _Note:
    """One code at one level: where it was noted first, and in which cases."""

    where: str
    text: str
    places: set[str] = field(default_factory=set)
    is_timed: bool = False


class Notes:
    """Findings by code. A soft finding is an error if a timed case has it, or every case."""

    def __init__(self) -> None:
        self._notes: dict[tuple[str, str], _Note] = {}
        self._cases: set[str] = set()
        # For the report: see `InspectReport`.
        self.untried: list[str] = []
        self.shares: dict[str, dict[str, LazyShare]] = {}

    def begin(self, where: str) -> None:
        """Record that a case is inspected."""
        self._cases.add(where)

    def add(self, code: str, level: str, where: str, text: str) -> None:
        """Note an error or a warning that counts in any case."""
        note = self._notes.setdefault((code, level), _Note(where, text))
        note.places.add(where)

    def add_soft(self, code: str, where: str, text: str, *, is_timed: bool) -> None:
        """Note what one small case may well have, but no timed one."""
        self.add(code, _SOFT, where, text)
        note = self._notes[code, _SOFT]
        if is_timed and not note.is_timed:
            note.where, note.text, note.is_timed = where, text, True

    def findings(self) -> list[Finding]:
        """Return one finding for each code and level, errors first."""
        notes = {key: note for key, note in self._notes.items() if key[1] != _SOFT}
        for (code, level), note in self._notes.items():
            if level == _SOFT:
                is_error = note.is_timed or note.places >= self._cases
                notes.setdefault((code, ERROR if is_error else WARNING), note)
        findings = []
        for (code, level), note in sorted(notes.items(), key=lambda item: item[0][1] != ERROR):
            others = len(note.places) - 1
            also = f" (and {others} more cases)" if others else ""
            findings.append(make_finding(code, level, note.where, f"{note.text[:500]}{also}"))
        return findings


def describe_case(stage: str, case: Case) -> str:
    """Name a case so that the author recognises it."""
    return f"{stage}: {case.name}"


def make_finding(code: str, level: str, place: str, text: str) -> Finding:
    """Return one finding, within the size limits of a report."""
    fix = FIXES.get(code, "")
    message = make_printable(f"{text}: {fix}" if fix else text)
    return Finding(code, level, make_printable(place)[:_WHERE_CHARS_MAX], message[:_TEXT_CHARS_MAX])


class ProcessLeftBehind(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The author's code left a process behind."""


class _CheckRejected(Exception):  # noqa: N818
    """The check of one rank rejected its answer, which ends all ranks."""


class WatchedAuthor:
    """An author's code whose calls must not leave a process behind.

    For a case of several ranks, data and answers are lists with one item per rank.
    """

    def __init__(self, author: AuthorCode) -> None:
        self._author = author

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """Generate the data of a case. Raises ProblemFault, MemoryShortage, ProcessLeftBehind."""
        author, ranks = self._author, case.ranks
        if ranks == 1:
            return call_watched(lambda: author.data(case, seed, rank))
        return call_watched(lambda: [author.data(case, seed, each) for each in range(ranks)])

    def answer(self, case: Case, data: Any) -> Any:
        """Return the reference's answer. Raises the same errors as `data`."""
        author, ranks = self._author, case.ranks
        if ranks == 1:
            return call_watched(lambda: author.answer(case, data))
        return call_watched(
            lambda: author.each(case, ranks, lambda rank: author.answer(case, data[rank]))
        )

    def complaint(self, case: Case, data: Any, output: Any) -> str | None:
        """Return what the check says is wrong, for several ranks what one of them says.

        Raises the same errors as `data`.
        """
        author = self._author
        if case.ranks == 1:
            return call_watched(lambda: author.complaint(case, data, output))

        def require_accepted(rank: int) -> None:
            if complaint := author.complaint(case, data[rank], output[rank]):
                raise _CheckRejected(f"rank {rank}: {complaint}")

        try:
            call_watched(lambda: author.each(case, case.ranks, require_accepted))
        except _CheckRejected as rejection:
            return str(rejection)
        return None


def call_watched(call: Callable[[], T]) -> T:
    """Return the result of a call. Raises its errors and ProcessLeftBehind."""
    pid = os.getpid()
    try:
        result = call()
    finally:
        if os.getpid() != pid:
            # This is the child of a fork; its parent already reports the result.
            _EXIT(0)
        if _has_children():
            raise ProcessLeftBehind
    return result


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@dataclass(frozen=True)
class GeneratedData:
    """What a generator made of a seed: all data, the part it drew, and the inputs in that part."""

    all_data: FlatValue
    part: FlatValue
    input_indices: tuple[int, ...]


@dataclass(frozen=True)
class InspectedInputs:
    """The data of two seeds; `is_fixed` if they are equal. `generate_s` is for one generation.

    `again` is generated from the first seed once more, with other content in uninitialised memory;
    `unsteady` are the tensors that differ then.
    """

    first: GeneratedData
    second: GeneratedData
    again: GeneratedData
    generate_s: float
    is_fixed: bool
    unsteady: tuple[int, ...]

    @property
    def one(self) -> FlatValue:
        """All data of the first seed."""
        return self.first.all_data

    @property
    def other(self) -> FlatValue:
        """All data of the second seed."""
        return self.second.all_data


@dataclass(frozen=True)
class InspectedCase:
    """One case, its shape, and where its findings are noted.

    `until` is an instant of the monotonic clock: what would end later is skipped. `clock` measures
    how long a call took; on a processor it is CPU time, because other processes run there too.
    """

    author: WatchedAuthor
    case: Case
    form: str
    shape: Shape
    notes: Notes
    where: str
    is_timed: bool
    until: float
    clock: Callable[[], float]

    @property
    def is_tiny(self) -> bool:
        """Whether it is a test of so few elements that it shows nothing about randomness."""
        count = sum(math.prod(leaf.shape) for leaf in self.shape.inputs)
        return count < _TINY and not self.is_timed

    def add(self, code: str, level: str, text: str) -> None:
        """Note what is wrong in any case."""
        self.notes.add(code, level, self.where, text)

    def add_soft(self, code: str, text: str) -> None:
        """Note what a small case may well have, and a tiny one must."""
        if not (self.is_tiny and code in _USUAL_IN_TINY_CASES):
            self.notes.add_soft(code, self.where, text, is_timed=self.is_timed)

    def add_untried(self, text: str) -> None:
        """Note that not every lazy answer was tried."""
        self.notes.add("not_inspected", WARNING, self.where, text)
        if self.is_timed:
            self.notes.untried.append(self.case.name)

    def complaint(self, data: FlatValue, output: FlatValue) -> str | None:
        """Return what the check says is wrong with an output. Raises ProblemFault."""
        inputs, answer = data.rebuild(data.tensors), output.rebuild(output.tensors)
        return self.author.complaint(self.case, inputs, answer)


def inspect_inputs(subject: InspectedCase) -> InspectedInputs | None:
    """Inspect the data of two seeds; None if their structures differ.

    Raises ProblemFault if there is no data.
    """
    began = subject.clock()
    first = _generate_data(subject, 0)
    generate_s = subject.clock() - began
    second, again = _generate_data(subject, 1), _generate_data(subject, 0, ONES)
    if not all(have_same_forms(first.all_data, data.all_data) for data in (second, again)):
        subject.add("generator_shapes", ERROR, "two seeds give data of two forms")
        return None
    is_fixed = _are_same_inputs(first, second)
    if is_fixed:
        takes = "seed" in subject.case.args
        text = "two seeds give one input, bit for bit" if takes else "it takes no seed"
        subject.add_soft("generator_fixed", text)
    tensors = enumerate(zip(first.all_data.tensors, again.all_data.tensors, strict=True))
    unsteady = tuple(index for index, pair in tensors if not have_same_bits(*pair))
    if first.all_data.scalars != again.all_data.scalars:
        unsteady = (-1,)
    return InspectedInputs(first, second, again, generate_s, is_fixed, unsteady)


def _are_same_inputs(first: GeneratedData, second: GeneratedData) -> bool:
    """Return whether two seeds drew the same inputs; the content of buffers does not count."""
    has_same_scalars = first.part.scalars == second.part.scalars
    pairs = [
        (first.part.tensors[index], second.part.tensors[index]) for index in first.input_indices
    ]
    return has_same_scalars and all(have_same_bits(*pair) for pair in pairs)


def _generate_data(subject: InspectedCase, call: int, byte: int = ZEROS) -> GeneratedData:
    """Return the data of a seed; `byte` fills uninitialised memory."""
    name, bits = subject.case.name, subject.shape.seed_bits
    seed = derive_seed(bytes(KEY_BYTES), "inspect", name, call, bits)
    with fill_uninitialised(byte):
        data = subject.author.data(subject.case, seed)
    flat_data = flatten_copy(data)
    if subject.form != "kernelbench":
        return GeneratedData(flat_data, flat_data, subject.shape.input_indices)
    part = flatten_copy(data["inputs"])
    return GeneratedData(flat_data, part, tuple(range(len(part.tensors))))


def inspect_entropy(
    subject: InspectedCase,
    looked: InspectedInputs,
    outputs: Collection[int],
    *,
    is_same_answer: bool,
) -> None:
    """Note whether a seed determines the data, and how hard the data is to guess.

    `outputs` are the tensors that share memory with the answer; their initial content may be
    anything. So may any other tensor's if the answer is the same for `looked.again`
    (`is_same_answer`). Raises ProblemFault.
    """
    may_differ = {
        *outputs,
        *set(range(len(looked.one.tensors))).difference(subject.shape.input_indices),
    }
    if is_same_answer:
        may_differ.update(index for index in looked.unsteady if index >= 0)
        outputs = {*outputs, *looked.unsteady}
    if not may_differ.issuperset(looked.unsteady):
        text = "one seed, used again after another, gives other data"
        subject.add("generator_random", ERROR, text)
    elif not looked.is_fixed:
        _inspect_parts(subject, looked.first, looked.second, outputs)
        if looked.generate_s <= _DRAW_S_MAX:
            _inspect_repeats(subject, looked)


def _inspect_parts(
    subject: InspectedCase, first: GeneratedData, second: GeneratedData, outputs: Collection[int]
) -> None:
    bits = estimate_entropy_bits(first.part, second.part, first.input_indices)
    if bits < ENTROPY_BITS_MIN:
        subject.add_soft("entropy_low", f"about {bits:.0f} random bits, of at least 64")
    fixed = find_constant_inputs(first.part, second.part, first.input_indices)
    for index in fixed:
        if index not in outputs and not subject.is_tiny:
            text = f"{describe_tensor(first.part, index)} does not depend on the seed"
            subject.add("input_constant", WARNING, text)
    descriptions, is_all = find_few_valued_inputs(
        first.part, [index for index in first.input_indices if index not in fixed]
    )
    if descriptions and is_all:
        subject.add_soft("input_support", descriptions[0])
    elif descriptions:
        subject.add("input_support", WARNING, descriptions[0])


def _inspect_repeats(subject: InspectedCase, looked: InspectedInputs) -> None:
    """Note if few seeds give equal inputs: then cached answers would be right."""
    earlier = [looked.first, looked.second]
    for call in range(2, _DRAWS):
        fresh = _generate_data(subject, call)
        if any(_are_same_inputs(fresh, known) for known in earlier):
            subject.add_soft("entropy_low", f"of {call + 1} seeds two give one input, bit for bit")
            return
        earlier.append(fresh)
