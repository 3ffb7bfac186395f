"""One case under inspection: the author's functions, asked so that nothing they do goes unseen."""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from harness.problem import Case, ProblemFault
from harness.supervisor.author import Author
from harness.supervisor.inputs import KEY_BYTES, Shape, seed_of
from harness.supervisor.inspect_data import (
    ENTROPY_BITS_MIN,
    constants,
    entropy_bits,
    few_values,
    inputs_of,
    is_same,
    named,
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
_ALLOCATION = ("can't allocate memory", "Cannot allocate memory", "bad_alloc", "out of memory")

T = TypeVar("T")


class Forked(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """The author's code left a process behind."""


class Greedy(Exception):  # noqa: N818
    """The author's code asked for more memory than there is."""


class Watched:
    """An author whose calls may leave no process, and who is told apart when memory was short."""

    def __init__(self, author: Author) -> None:
        self._author = author

    def data(self, case: Case, seed: int, rank: int = 0) -> Any:
        """A rank's data of a case. Errors: ProblemFault; Forked; Greedy."""
        return watched(lambda: self._author.data(case, seed, rank))

    def answer(self, case: Case, data: Any) -> Any:
        """The reference's answer. Errors: as data."""
        return watched(lambda: self._author.answer(case, data))

    def complaint(self, case: Case, data: Any, output: Any) -> str | None:
        """What the check says. Errors: as data."""
        return watched(lambda: self._author.complaint(case, data, output))


def watched(call: Callable[[], T]) -> T:
    """What a call answers. Errors: its own; Forked; Greedy."""
    here = os.getpid()
    try:
        found = call()
    except ProblemFault as fault:
        if here == os.getpid() and _is_short(fault.__cause__):
            raise Greedy(str(fault)) from fault
        raise
    finally:
        if os.getpid() != here:
            # The other half of a fork: what it would say has been said already.
            os._exit(0)
        if _has_children():
            raise Forked
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _is_short(cause: BaseException | None) -> bool:
    return isinstance(cause, MemoryError) or any(one in str(cause) for one in _ALLOCATION)


@dataclass(frozen=True)
class Drawn:
    """What a generator made of a seed: all of it, the part that it drew, the inputs in that."""

    whole: Flat
    part: Flat
    shown: tuple[int, ...]


@dataclass(frozen=True)
class Looked:
    """The data of two seeds; `is_fixed` if they are one. Units: seconds of one generation."""

    first: Drawn
    second: Drawn
    generate_s: float
    is_fixed: bool
    is_random: bool

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

    `until` is an instant of the monotonic clock: what would end after it is left out.
    """

    author: Watched
    case: Case
    form: str
    shape: Shape
    notes: Notes
    where: str
    is_timed: bool
    until: float

    def add(self, code: str, level: str, text: str) -> None:
        """Notes what is wrong in any case."""
        self.notes.add(code, level, self.where, text)

    def soft(self, code: str, text: str) -> None:
        """Notes what a small case may well have."""
        self.notes.soft(code, self.where, text, is_timed=self.is_timed)

    def complaint(self, data: Flat, output: Flat) -> str | None:
        """What the check says of an output. Errors: ProblemFault."""
        given, shown = data.rebuild(data.tensors), output.rebuild(output.tensors)
        return self.author.complaint(self.case, given, shown)


def looked(subject: Subject) -> Looked | None:
    """The data of two seeds, and what is wrong with it; None where they have not one form.

    Errors: ProblemFault, where there is none.
    """
    began = time.monotonic()
    one = _drawn(subject, 0)
    generate_s = time.monotonic() - began
    other, again = _drawn(subject, 1), _drawn(subject, 0)
    if not all(same_forms(one.whole, drawn.whole) for drawn in (other, again)):
        subject.add("generator_shapes", ERROR, "two seeds give data of two forms")
        return None
    is_random = not is_same(one.whole, again.whole)
    if is_random:
        subject.add("generator_random", ERROR, "one seed, asked again after another, gives others")
    is_fixed = is_same(one.part, other.part)
    if is_fixed:
        takes = "seed" in subject.case.args
        text = "two seeds give one input, bit for bit" if takes else "it takes no seed"
        subject.soft("generator_fixed", text)
    return Looked(one, other, generate_s, is_fixed, is_random)


def _drawn(subject: Subject, call: int) -> Drawn:
    seed = seed_of(bytes(KEY_BYTES), "inspect", subject.case.name, call, subject.shape.seed_bits)
    data = subject.author.data(subject.case, seed)
    whole = taken(data)
    drawn = inputs_of(subject.form, data)
    if drawn is data:
        return Drawn(whole, whole, subject.shape.shown)
    part = taken(drawn)
    return Drawn(whole, part, tuple(range(len(part.tensors))))


def look_at_entropy(subject: Subject, looked: Looked, outputs: Collection[int]) -> None:
    """How hard the data is to guess; `outputs` are its tensors that the answer lies in.

    Errors: ProblemFault.
    """
    if looked.is_fixed or looked.is_random:
        return
    _look_at_parts(subject, looked.first, looked.second, outputs)
    if looked.generate_s <= _DRAW_S_MAX:
        _look_for_twins(subject, looked)


def _look_at_parts(subject: Subject, one: Drawn, other: Drawn, outputs: Collection[int]) -> None:
    bits = entropy_bits(one.part, other.part, one.shown)
    # A case of a few elements cannot hold more, and is there to show that they are right.
    is_tiny = sum(one.part.tensors[index].numel() for index in one.shown) < _TINY
    if bits < ENTROPY_BITS_MIN and (subject.is_timed or not is_tiny):
        subject.soft("entropy_low", f"about {bits:.0f} random bits, of at least 64")
    fixed = constants(one.part, other.part, one.shown)
    for index in fixed:
        if index not in outputs:
            text = f"{named(one.part, index)} does not depend on the seed"
            subject.add("input_constant", WARNING, text)
    few, is_all = few_values(one.part, [index for index in one.shown if index not in fixed])
    if few and is_all:
        subject.soft("input_support", few[0])
    elif few:
        subject.add("input_support", WARNING, few[0])


def _look_for_twins(subject: Subject, looked: Looked) -> None:
    """Seeds of which two have one input are too few to keep answers from being kept."""
    seen = [looked.first.part, looked.second.part]
    for call in range(2, _DRAWS):
        fresh = _drawn(subject, call).part
        if any(is_same(fresh, old) for old in seen):
            subject.soft("entropy_low", f"of {call + 1} seeds two give one input, bit for bit")
            return
        seen.append(fresh)
