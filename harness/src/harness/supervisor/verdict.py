"""How things end for a submission, in the closed vocabulary of verdicts."""

import itertools
import json
import re
import signal
from collections.abc import Sequence
from dataclasses import asdict, replace

from harness.messages import CaseReport, Mismatch
from harness.timing.combination import CaseTime

TEXT_CHARS_MAX = 2000
# As JSON, where a character takes up to twelve: the texts of all cases must fit one report.
_TEXT_BYTES_MAX = 6000

_OF_KIND = {
    "compile_error": "compile_error",
    "import_error": "import_error",
    "exception": "crashed",
    "output": "wrong_answer",
    "memory": "out_of_memory",
}

# What moves a terminal's cursor, or turns the direction of what is read.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class CaseFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A case ended with a verdict other than passed; `is_last` if the worker is of no more use."""

    def __init__(self, verdict: str, message: str, *, is_last: bool = True) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = printable(message)
        self.is_last = is_last
        self.wrong = 0
        self.mismatches: list[Mismatch] = []


def of_failure(kind: str, text: str) -> CaseFailed:
    """What a worker's own word on its failure means; it still serves, and only harms itself."""
    return CaseFailed(_OF_KIND[kind], text, is_last=False)


def of_status(status: int) -> CaseFailed:
    """What the end of a worker's process means: negative is a signal, else an exit code."""
    if status >= 0:
        return CaseFailed("crashed", f"the process exited with code {status}")
    names = {item.value: item.name for item in signal.Signals}
    return CaseFailed("crashed", f"the process was killed by {names.get(-status, -status)}")


def printable(text: str) -> str:
    r"""Bounded, with every control character but tab and line break escaped.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    cut = text[:TEXT_CHARS_MAX]
    escaped = "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in cut)
    sizes = itertools.accumulate(len(json.dumps(c)) - 2 for c in escaped[:TEXT_CHARS_MAX])
    return escaped[: sum(size <= _TEXT_BYTES_MAX for size in sizes)]


def harmless(data: bytes) -> bytes:
    r"""A text file with its control characters shown instead of obeyed by a terminal.

    >>> harmless(b"a\x1b[2Jb\n\x9b")
    b'a\\x1b[2Jb\n\xef\xbf\xbd'
    """
    text = data.decode(errors="replace")
    return _CONTROL.sub(lambda found: _escaped(found[0]), text).encode()


def report(case: str, stage: str, failure: CaseFailed) -> CaseReport:
    """How a case ended that failed."""
    return CaseReport(
        name=case,
        stage=stage,
        verdict=failure.verdict,
        message=failure.message,
        wrong=failure.wrong,
        mismatches=failure.mismatches,
    )


def timed(case: str, floor_us: float, found: CaseTime, doubt: str = "") -> CaseReport:
    """How a timed case ended.

    Below its floor, or with a `doubt` of the device's, it is held until somebody has looked.
    """
    if found.time_us <= max(0.0, floor_us):
        doubt = f"{found.time_us:.4g} us is below the floor of {floor_us:.4g} us"
    return CaseReport(
        name=case,
        stage="time",
        verdict="suspicious" if doubt else "passed",
        message=doubt,
        **asdict(found),
    )


def hidden(case: CaseReport) -> CaseReport:
    """A report on a hidden case: its verdict alone."""
    return replace(case, message="", is_hidden=True, wrong=0, mismatches=[])


def first_failed(cases: Sequence[CaseReport]) -> CaseReport | None:
    """The first case that did not pass; a skipped one is never the first."""
    return next((case for case in cases if case.verdict != "passed"), None)


def sentence(case: CaseReport | None) -> str:
    """Why a run ended as it did, for people.

    >>> sentence(CaseReport("size=4", "check", "wrong_answer", "2 of 16 values differ"))
    'check ended with wrong_answer on size=4: 2 of 16 values differ'
    """
    if case is None:
        return "every case passed"
    place = "a hidden case" if case.is_hidden else case.name
    at = f" on {place}" if place else ""
    said = f": {case.message}" if case.message else ""
    return f"{case.stage} ended with {case.verdict}{at}{said}"


def _escaped(character: str) -> str:
    # Not by a codec: one that was never used before would have to be read from a closed folder.
    return ascii(character)[1:-1]
