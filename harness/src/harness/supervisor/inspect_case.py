"""One case under inspection: the author's functions, asked so that nothing they do goes unseen."""

import math
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.problem import Case
from harness.supervisor.author import Author
from harness.supervisor.fresh_memory import ONES, ZEROS, filled
from harness.supervisor.inputs import KEY_BYTES, Shape, seed_of
from harness.supervisor.inspect_data import (
    ENTROPY_BITS_MIN,
    constants,
    entropy_bits,
    few_values,
    inputs_of,
    named,
    same_bits,
    same_forms,
    taken,
)
from harness.supervisor.inspect_notes import ERROR, WARNING, Notes
from harness.supervisor.structure import Flat

# The form of what is written in C++, whose functions trust the sizes that they are given.
NATIVE = "native"
# So many draws of one of a few inputs hold two that are equal.
_DRAWS = 6
_DRAW_S_MAX = 0.05
_TINY = 16
_NATURAL = ("answer_constant", "answer_fixed", "entropy_low")

# An author's code may put another in its place.
_EXIT = os._exit

T = TypeVar("T")


class Forked(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The author's code left a process behind."""


class _Refused(Exception):  # noqa: N818
    """The check of one rank says no, which is an end for all of them."""


class Watched:
    """An author whose calls may leave no process.

    Of a case of several ranks data and answers are lists, one for each rank.
    """

    def __init__(self, author: Author) -> None:
        self._author = author

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """The data of a case. Errors: ProblemFault; MemoryShortage; Forked."""
        author = self._author
        if case.ranks == 1:
            return watched(lambda: author.data(case, seed, rank))
        return watched(lambda: [author.data(case, seed, one) for one in range(case.ranks)])

    def answer(self, case: Case, data: Any) -> Any:
        """The reference's answer. Errors: as data."""
        author = self._author
        if case.ranks == 1:
            return watched(lambda: author.answer(case, data))
        return self._each(case, lambda rank: author.answer(case, data[rank]))

    def complaint(self, case: Case, data: Any, output: Any) -> str | None:
        """What the check says, of several ranks that of one that says no. Errors: as data."""
        author = self._author
        if case.ranks == 1:
            return watched(lambda: author.complaint(case, data, output))

        def judged(rank: int) -> None:
            if said := author.complaint(case, data[rank], output[rank]):
                raise _Refused(f"rank {rank}: {said}")

        try:
            self._each(case, judged)
        except _Refused as refused:
            return str(refused)
        return None

    def _each(self, case: Case, work: Callable[[int], T]) -> list[T]:
        return watched(lambda: self._author.each(case, case.ranks, work))


def watched(call: Callable[[], T]) -> T:
    """What a call answers. Errors: its own; Forked."""
    here = os.getpid()
    try:
        found = call()
    finally:
        if os.getpid() != here:
            # The other half of a fork: what it would say has been said already.
            _EXIT(0)
        if _has_children():
            raise Forked
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@dataclass(frozen=True)
class Drawn:
    """What a generator made of a seed: all of it, the part that it drew, the inputs in that."""

    whole: Flat
    part: Flat
    shown: tuple[int, ...]


@dataclass(frozen=True)
class Looked:
    """The data of two seeds; `is_fixed` if they are one. Units: seconds of one generation.

    `again` is made by the first seed once more, with another content of uninitialised memory;
    `unsteady` are the tensors that it has otherwise.
    """

    first: Drawn
    second: Drawn
    again: Drawn
    generate_s: float
    is_fixed: bool
    unsteady: tuple[int, ...]

    @property
    def one(self) -> Flat:
        """All of the first."""
        return self.first.whole

    @property
    def other(self) -> Flat:
        """All of the second."""
        return self.second.whole


@dataclass(frozen=True)
class Subject:
    """One case, what was found out of its shape, and where notes on it are taken.

    `until` is an instant of the monotonic clock: what would end after it is left out. `clock`
    tells how long a call took; on a processor by what it used, since others use it, too.
    """

    author: Watched
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
        """Whether it is a test of so few elements that it shows nothing of how they are drawn."""
        count = sum(math.prod(leaf.shape) for leaf in self.shape.inputs)
        return count < _TINY and not self.is_timed

    def add(self, code: str, level: str, text: str) -> None:
        """Notes what is wrong in any case."""
        self.notes.add(code, level, self.where, text)

    def soft(self, code: str, text: str) -> None:
        """Notes what a small case may well have, and a tiny one must."""
        if not (self.is_tiny and code in _NATURAL):
            self.notes.soft(code, self.where, text, is_timed=self.is_timed)

    def complaint(self, data: Flat, output: Flat) -> str | None:
        """What the check says of an output. Errors: ProblemFault."""
        given, shown = data.rebuild(data.tensors), output.rebuild(output.tensors)
        return self.author.complaint(self.case, given, shown)


def looked(subject: Subject) -> Looked | None:
    """The data of two seeds, and what is wrong with it; None where they have not one form.

    Errors: ProblemFault, where there is none.
    """
    began = subject.clock()
    one = _drawn(subject, 0)
    generate_s = subject.clock() - began
    other, again = _drawn(subject, 1), _drawn(subject, 0, ONES)
    if not all(same_forms(one.whole, drawn.whole) for drawn in (other, again)):
        subject.add("generator_shapes", ERROR, "two seeds give data of two forms")
        return None
    is_fixed = _is_one(one, other)
    if is_fixed:
        takes = "seed" in subject.case.args
        text = "two seeds give one input, bit for bit" if takes else "it takes no seed"
        subject.soft("generator_fixed", text)
    return Looked(one, other, again, generate_s, is_fixed, _unsteady(one, again))


def _is_one(some: Drawn, other: Drawn) -> bool:
    """Whether two seeds drew the same inputs; what buffers hold is noise."""
    is_like = some.part.scalars == other.part.scalars
    pairs = [(some.part.tensors[index], other.part.tensors[index]) for index in some.shown]
    return is_like and all(same_bits(*pair) for pair in pairs)


def _unsteady(one: Drawn, again: Drawn) -> tuple[int, ...]:
    if one.whole.scalars != again.whole.scalars:
        return (-1,)
    tensors = enumerate(zip(one.whole.tensors, again.whole.tensors, strict=True))
    return tuple(index for index, pair in tensors if not same_bits(*pair))


def _drawn(subject: Subject, call: int, byte: int = ZEROS) -> Drawn:
    """The data of a seed; `byte` is what uninitialised memory holds."""
    seed = seed_of(bytes(KEY_BYTES), "inspect", subject.case.name, call, subject.shape.seed_bits)
    with filled(byte):
        data = subject.author.data(subject.case, seed)
    whole = taken(data)
    drawn = inputs_of(subject.form, data)
    if drawn is data:
        return Drawn(whole, whole, subject.shape.shown)
    part = taken(drawn)
    return Drawn(whole, part, tuple(range(len(part.tensors))))


def look_at_entropy(
    subject: Subject, looked: Looked, outputs: Collection[int], *, is_same_answer: bool
) -> None:
    """Whether a seed gives data once for all, and how hard it is to guess.

    `outputs` are the tensors that the answer lies in: what they hold before may be anything. So
    may any other tensor, if the answer is the same (`is_same_answer`) for `looked.again`.

    Errors: ProblemFault.
    """
    free = {*outputs, *set(range(len(looked.one.tensors))).difference(subject.shape.shown)}
    if is_same_answer:
        free.update(index for index in looked.unsteady if index >= 0)
        outputs = {*outputs, *looked.unsteady}
    if not free.issuperset(looked.unsteady):
        text = "one seed, asked again after another, gives others"
        subject.add("generator_random", ERROR, text)
    elif not looked.is_fixed:
        _look_at_chance(subject, looked, outputs)


def _look_at_chance(subject: Subject, looked: Looked, outputs: Collection[int]) -> None:
    _look_at_parts(subject, looked.first, looked.second, outputs)
    if looked.generate_s <= _DRAW_S_MAX:
        _look_for_twins(subject, looked)


def _look_at_parts(subject: Subject, one: Drawn, other: Drawn, outputs: Collection[int]) -> None:
    bits = entropy_bits(one.part, other.part, one.shown)
    if bits < ENTROPY_BITS_MIN:
        subject.soft("entropy_low", f"about {bits:.0f} random bits, of at least 64")
    fixed = constants(one.part, other.part, one.shown)
    for index in fixed:
        if index not in outputs and not subject.is_tiny:
            text = f"{named(one.part, index)} does not depend on the seed"
            subject.add("input_constant", WARNING, text)
    few, is_all = few_values(one.part, [index for index in one.shown if index not in fixed])
    if few and is_all:
        subject.soft("input_support", few[0])
    elif few:
        subject.add("input_support", WARNING, few[0])


def _look_for_twins(subject: Subject, looked: Looked) -> None:
    """Seeds of which two have one input are too few to keep answers from being kept."""
    seen = [looked.first, looked.second]
    for call in range(2, _DRAWS):
        fresh = _drawn(subject, call)
        if any(_is_one(fresh, old) for old in seen):
            subject.soft("entropy_low", f"of {call + 1} seeds two give one input, bit for bit")
            return
        seen.append(fresh)
