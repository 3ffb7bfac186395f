"""One case under inspection: the author's functions, asked so that nothing they do goes unseen."""

import os
import time
from collections.abc import Callable
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
    same_forms,
    taken,
)
from harness.supervisor.inspect_notes import ERROR, WARNING, Notes
from harness.supervisor.structure import Flat

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
class Looked:
    """The data of two seeds; `is_fixed` if they are one. Units: seconds of one generation."""

    one: Flat
    other: Flat
    generate_s: float
    is_fixed: bool


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
    if not same_forms(one.whole, other.whole) or not same_forms(one.whole, again.whole):
        subject.add("generator_shapes", ERROR, "two seeds give data of two forms")
        return None
    is_random = not is_same(one.whole, again.whole)
    if is_random:
        subject.add("generator_random", ERROR, "one seed, asked again after another, gives others")
    is_fixed = is_same(one.drawn, other.drawn)
    if is_fixed:
        named = "two seeds give one input" if "seed" in subject.case.args else "it takes no seed"
        subject.soft("generator_fixed", f"{named}, bit for bit")
    elif not is_random:
        _look_at_entropy(subject, one, other)
        if generate_s <= _DRAW_S_MAX:
            _look_for_twins(subject, one, other)
    return Looked(one.whole, other.whole, generate_s, is_fixed)


@dataclass(frozen=True)
class _Data:
    """What a generator made of a seed: all of it, the part that it drew, the inputs in that."""

    whole: Flat
    drawn: Flat
    shown: tuple[int, ...]


def _drawn(subject: Subject, call: int) -> _Data:
    seed = seed_of(bytes(KEY_BYTES), "inspect", subject.case.name, call, subject.shape.seed_bits)
    data = subject.author.data(subject.case, seed)
    whole = taken(data)
    drawn = inputs_of(subject.form, data)
    if drawn is data:
        return _Data(whole, whole, subject.shape.shown)
    part = taken(drawn)
    return _Data(whole, part, tuple(range(len(part.tensors))))


def _look_at_entropy(subject: Subject, one: _Data, other: _Data) -> None:
    bits = entropy_bits(one.drawn, other.drawn, one.shown)
    # A case of a few elements cannot hold more, and is there to show that they are right.
    is_tiny = sum(one.drawn.tensors[index].numel() for index in one.shown) < _TINY
    if bits < ENTROPY_BITS_MIN and (subject.is_timed or not is_tiny):
        subject.soft("entropy_low", f"about {bits:.0f} random bits, of at least 64")
    for name in constants(one.drawn, other.drawn, one.shown):
        subject.add("input_constant", WARNING, f"{name} does not depend on the seed")
    few, is_all = few_values(one.drawn, one.shown)
    if few and is_all:
        subject.soft("input_support", few[0])
    elif few:
        subject.add("input_support", WARNING, few[0])


def _look_for_twins(subject: Subject, one: _Data, other: _Data) -> None:
    """Seeds of which two have one input are too few to keep answers from being kept."""
    seen = [one.drawn, other.drawn]
    for call in range(2, _DRAWS):
        fresh = _drawn(subject, call).drawn
        if any(is_same(fresh, old) for old in seen):
            subject.soft("entropy_low", f"of {call + 1} seeds two give one input, bit for bit")
            return
        seen.append(fresh)
