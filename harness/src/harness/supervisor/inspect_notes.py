"""What an inspection notes on the way, and the findings that come of it: one for each code."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.inspection import Finding
from harness.problem import Case
from harness.supervisor.verdict import printable

ERROR, WARNING = "error", "warning"
_TEXT_CHARS_MAX = 900
_WHERE_CHARS_MAX = 200

# What each finding asks the author to do.
MENDS: Mapping[str, str] = {
    "author_fails": "mend it: no submission can be judged",
    "author_forks": "start no process there",
    "author_memory": "make the case smaller, or say requires: {memory_mib: N} in warpboard.yml",
    "not_inspected": "look at it yourself, or make the case smaller",
    "generator_random": "draw with a generator that the seed sets, from nothing else",
    "generator_fixed": "draw the data by the seed, or an answer that was kept passes",
    "generator_shapes": "let sizes follow from the case alone",
    "entropy_low": "draw more of it by the seed",
    "input_support": "draw from a continuous distribution, or an answer can be had in short",
    "input_constant": "draw it by the seed, if it is to be anything else",
    "reference_random": "let it use nothing but its data",
    "reference_writes": "let it clone what it changes",
    "reference_nan": "keep its inputs where it is defined",
    "answer_fixed": "let it depend on what is drawn, or an answer that was kept passes",
    "answer_constant": "let it depend on what is drawn, or nobody need compute it",
    "check_refuses": "mend the check, or widen its tolerance to what rounding needs",
    "check_raises": "let it return what is wrong: an exception is taken for the problem's fault",
    "check_writes": "let it clone what it changes",
    "check_takes_nan": "compare so that a NaN is wrong, as in not (error <= bound).all()",
    "check_takes_zeros": "tighten the tolerance: it must be below what the answer amounts to",
    "check_takes_unwritten": "compare every element of every output",
    "check_takes_shape": "compare the shapes first",
    "check_takes_dtype": "compare the dtypes first",
    "check_takes_rounded": "let the tolerance follow the reference's dtype, or say answers: strict",
    "check_takes_input": "compare with the reference's answer",
    "check_takes_cached": "compare with the reference's answer to the data that came",
    "budget": "make its cases smaller, or its budget larger",
}


@dataclass
class _Noted:
    """One code at one level: where it was seen first, and how often."""

    where: str
    text: str
    places: set[str] = field(default_factory=set)
    is_timed: bool = False


class Notes:
    """Findings by code. A soft one is an error where a timed case has it, or every case."""

    def __init__(self) -> None:
        self._noted: dict[tuple[str, str], _Noted] = {}
        self._soft: dict[str, _Noted] = {}
        self._seen: set[str] = set()

    def begin(self, where: str) -> None:
        """A case is looked at."""
        self._seen.add(where)

    def add(self, code: str, level: str, where: str, text: str) -> None:
        """What is an error, or a warning, wherever it is."""
        noted = self._noted.setdefault((code, level), _Noted(where, text))
        noted.places.add(where)

    def soft(self, code: str, where: str, text: str, *, is_timed: bool) -> None:
        """What one small case may well have, and no timed one."""
        noted = self._soft.setdefault(code, _Noted(where, text))
        noted.places.add(where)
        if is_timed and not noted.is_timed:
            noted.where, noted.text, noted.is_timed = where, text, True

    def findings(self) -> list[Finding]:
        """One for each code and level, errors first."""
        found = dict(self._noted)
        for code, noted in self._soft.items():
            is_error = noted.is_timed or noted.places >= self._seen
            found.setdefault((code, ERROR if is_error else WARNING), noted)
        ordered = sorted(found.items(), key=lambda one: one[0][1] != ERROR)
        return [_finding(code, level, noted) for (code, level), noted in ordered]


def where(stage: str, case: Case) -> str:
    """A case as an author finds it again.

    >>> where("tests", Case("size=4 seed=7", {}))
    'tests: size=4 seed=7'
    """
    return f"{stage}: {case.name}"


def finding(code: str, level: str, place: str, text: str) -> Finding:
    """One finding, within the bounds of a report."""
    mend = MENDS.get(code, "")
    said = printable(f"{text}: {mend}" if mend else text)
    return Finding(code, level, printable(place)[:_WHERE_CHARS_MAX], said[:_TEXT_CHARS_MAX])


def _finding(code: str, level: str, noted: _Noted) -> Finding:
    others = len(noted.places) - 1
    also = f" (and {others} more cases)" if others else ""
    return finding(code, level, noted.where, f"{noted.text[:500]}{also}")
