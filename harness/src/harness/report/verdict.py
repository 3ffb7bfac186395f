"""How cases end for a submission, in the closed vocabulary of verdicts, and what it printed."""

import itertools
import json
import re
import signal
from collections.abc import Sequence
from dataclasses import replace

from harness.report.messages import CaseReport, Mismatch

TEXT_CHARS_MAX = 2000
# As JSON a character takes up to 12 bytes; the texts of all cases must fit one report.
_TEXT_BYTES_MAX = 6000

_VERDICTS_BY_KIND = {
    "compile_error": "compile_error",
    "import_error": "import_error",
    "exception": "crashed",
    "output": "wrong_answer",
    "memory": "out_of_memory",
}

# Characters that move a terminal's cursor or change the writing direction.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

KEPT_BYTES = 32 * 1024
REPORTED_BYTES = 8 * 1024
OUTPUT_BYTES_MAX = 1024 * 1024


class CaseFailed(Exception):  # noqa: N818  (STYLE.md, section 3: an outcome, not an error)
    """A case ended with another verdict than passed; `is_last` if the worker is unusable now."""

    def __init__(self, verdict: str, message: str, *, is_last: bool = True) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = make_printable(message)
        self.is_last = is_last
        self.wrong = 0
        self.mismatches: list[Mismatch] = []


def worker_failure(kind: str, text: str) -> CaseFailed:
    """Return the failure that a worker reported; the worker stays usable."""
    return CaseFailed(_VERDICTS_BY_KIND[kind], text, is_last=False)


def status_failure(status: int) -> CaseFailed:
    """Return the failure for a worker's exit status; a negative status is a signal."""
    if status >= 0:
        return CaseFailed("crashed", f"the process exited with code {status}")
    names = {item.value: item.name for item in signal.Signals}
    return CaseFailed("crashed", f"the process was killed by {names.get(-status, -status)}")


def make_printable(text: str) -> str:
    r"""Limit a text and escape every control character except tab and line break.

    >>> make_printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    shortened = text[:TEXT_CHARS_MAX]
    escaped = "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in shortened)
    sizes = itertools.accumulate(len(json.dumps(c)) - 2 for c in escaped[:TEXT_CHARS_MAX])
    return escaped[: sum(size <= _TEXT_BYTES_MAX for size in sizes)]


def escape_controls(data: bytes) -> bytes:
    r"""Escape the control characters of a text file that a terminal would obey.

    >>> escape_controls(b"a\x1b[2Jb\n\x9b")
    b'a\\x1b[2Jb\n\xef\xbf\xbd'
    """
    text = data.decode(errors="replace")
    return _CONTROL.sub(lambda match: _escape(match[0]), text).encode()


def failed_case_report(case: str, stage: str, failure: CaseFailed) -> CaseReport:
    """Report a case that failed."""
    wrong, mismatches = failure.wrong, failure.mismatches
    report = CaseReport(case, stage, failure.verdict, failure.message)
    return replace(report, wrong=wrong, mismatches=mismatches)


def hide_details(case: CaseReport) -> CaseReport:
    """Reduce the report of a hidden case to its verdict."""
    return replace(case, message="", is_hidden=True, wrong=0, mismatches=[])


def first_failed(cases: Sequence[CaseReport]) -> CaseReport | None:
    """Return the first case that did not pass; a skipped case always follows another one."""
    return next((case for case in cases if case.verdict != "passed"), None)


def describe_outcome(case: CaseReport | None) -> str:
    """Describe for people why a run ended as it did.

    >>> describe_outcome(CaseReport("size=4", "check", "wrong_answer", "2 of 16 values differ"))
    'check ended with wrong_answer on size=4: 2 of 16 values differ'
    """
    if case is None:
        return "every case passed"
    place = "a hidden case" if case.is_hidden else case.name
    location = f" on {place}" if place else ""
    detail = f": {case.message}" if case.message else ""
    return f"{case.stage} ended with {case.verdict}{location}{detail}"


def _escape(character: str) -> str:
    # Not with a codec: one that was never used before would be imported from a closed folder.
    return ascii(character)[1:-1]


class OutputLog:
    """A bounded record of an unbounded stream."""

    def __init__(self) -> None:
        self.bytes = 0
        self._head = b""
        self._tail = b""

    @property
    def is_over(self) -> bool:
        """Whether a run printed more than it may."""
        return self.bytes > OUTPUT_BYTES_MAX

    def add(self, chunk: bytes) -> None:
        """Append the next bytes of the stream."""
        self.bytes += len(chunk)
        room = KEPT_BYTES - len(self._head)
        self._head += chunk[:room]
        self._tail = (self._tail + chunk[room:])[-KEPT_BYTES:]

    def whole(self) -> str:
        """Return everything kept, with a line where something is left out."""
        left_out = self.bytes - len(self._head) - len(self._tail)
        gap = f"\n[{left_out} bytes are left out here]\n" if left_out else ""
        return self._head.decode(errors="replace") + gap + self._tail.decode(errors="replace")

    def ends(self) -> tuple[str, str]:
        """Return the first and last 8 KiB; the second is empty if the first holds everything."""
        if self.bytes <= REPORTED_BYTES:
            return self._head.decode(errors="replace"), ""
        kept_bytes = self._head + self._tail
        start = max(REPORTED_BYTES, len(kept_bytes) - REPORTED_BYTES)
        head, tail = kept_bytes[:REPORTED_BYTES], kept_bytes[start:]
        return head.decode(errors="replace"), tail.decode(errors="replace")
