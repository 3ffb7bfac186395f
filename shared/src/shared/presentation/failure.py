"""What failed in a run: one error with its place in the file, equal failures folded, what to do."""

import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile
from typing import NamedTuple

import msgspec

from shared.api.cases import Case
from shared.endings import AGENTS_LOST
from shared.presentation.outcome import AnyRun, printed_lines, shorten_line
from shared.presentation.units import (
    TRACEBACK,
    count_text,
    escape_control_characters,
    one_line,
    shorten_floats,
)
from shared.run_values import Mismatch

ERROR_LINES_MAX = 16
MESSAGE_LINES_MAX = 6
FRAMES_MAX = 6
OUTPUT_LINES_MAX = 8
MISMATCHES_MAX = 5
CASE_NAMES_MAX = 3
VALUE_CHARS_MAX = 60
PASSED_OR_SKIPPED = ("passed", "skipped")
COMPILE_ERROR, IMPORT_ERROR, WRONG_ANSWER = "compile_error", "import_error", "wrong_answer"
CRASHED, POLICY = "crashed", "policy"
INFRA_FAILED = "infra_failed"

# Python's frame, or a fault handler's, which has no comma.
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<function>.+))?$')
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_GAP = "[…]"
_CODE_INDENT = "    "
# Before the line of the error.
MARK = "  > "
_CARET = re.compile(r"[ ]*(?P<mark>[~^]+)[ ~^]*$")
# g++ and clang name file:line:column, nvcc file(line).
_COMPILER_PLACE = re.compile(
    r"^(?P<file>[^\s:()]+)(?::(?P<line>\d+):(?:(?P<column>\d+):)?|\((?P<other_line>\d+)\):) "
    r"(?:\w+ )?error\b",
    re.MULTILINE,
)
_POLICY_PLACE = re.compile(r"line (?P<line>\d+): ")
# What Python's fault handler prints is read by the harness, and is the error.
_FAULT_DUMP = re.compile(r"^Fatal Python error: .*", re.MULTILINE | re.DOTALL)
# The folders of a system header are those of the agent's host.
_FOLDERS = re.compile(r"(?<![\w./])/(?:[\w.+@-]+/)+")
_NUMBER = re.compile(r"-?(?:\d+(?:[.,]\d+)*(?:e[+-]?\d+)?|\b(?:nan|inf)\b)")


class Place(NamedTuple):
    """A line of the submitted file, and a column if it is known; both count from 1."""

    line: int
    column: int | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run failed.

    `message` are the first lines of the one error, with a compiler's carets; `trace` are its other
    lines: the participant's own frames, the innermost first, or more errors of a compiler.
    `error_line` and `error_column` are its place in the submitted file. `cases` says how many cases
    failed in this way. `printed` is the end of the output, under a heading.
    """

    message: list[str]
    trace: list[str]
    cases: str
    next_step: str
    error_line: int | None = None
    error_column: int | None = None
    wrong: int = 0
    mismatches: list[Mismatch] = []
    printed: list[str] = []

    @property
    def callers(self) -> list[str]:
        """The trace without the marked line, for a surface that marks it in the source itself."""
        if not self.trace[1:] or not self.trace[1].startswith(MARK):
            return self.trace
        return list(dropwhile(lambda line: line.startswith(_CODE_INDENT), self.trace[2:]))

    @property
    def error(self) -> list[str]:
        """All lines of the error, and the first wrong elements as a table."""
        return [*self.message, *self.trace, *_mismatch_table(self.mismatches)]


class _Error(NamedTuple):
    """What is read of an error's text: its message, its other lines, and its place."""

    message: list[str]
    trace: list[str]
    place: Place | None = None


class _Frame(NamedTuple):
    file: str
    line: int
    function: str
    code: list[str]

    @property
    def lines(self) -> list[str]:
        """The place and its code."""
        function = f", in {self.function}" if self.function else ""
        return [f"  {_base_name(self.file)}:{self.line}{function}", *self.code]


class _Exception(NamedTuple):
    """An exception: the lines of its message, and its frames, the outermost first."""

    message: list[str]
    frames: list[_Frame]


def describe_failure(run: AnyRun, source: str = "") -> Failure | None:
    """Return why a run failed; None if it passed. The column needs the source."""
    verdict = _verdict(run)
    if verdict == "passed":
        return None
    case = first_failing(run.cases)
    message, trace, place = _read_error(_error_text(run, case), verdict, source)
    mismatches = list(case.mismatches[:MISMATCHES_MAX]) if case else []
    if case and mismatches:
        message = [line for line in message if not _is_in_table(line, case.mismatches)]
        if not any("differ" in line for line in message):
            verb = "differs" if case.wrong == 1 else "differ"
            message.append(f"{count_text(case.wrong, 'element')} {verb} by more than rounding")
    return Failure(
        message=message,
        trace=trace,
        cases=_cases_text(run.cases, case) if case else "",
        next_step=_next_step(verdict, message, place, run.stage or ""),
        error_line=place.line if place else None,
        error_column=place.column if place else None,
        wrong=case.wrong if case else 0,
        mismatches=[_shorten_mismatch(mismatch) for mismatch in mismatches],
        printed=[] if verdict == COMPILE_ERROR else _printed(run),
    )


def _printed(run: AnyRun) -> list[str]:
    """Return the end of the output without what the error says."""
    head, tail = (_FAULT_DUMP.sub("", text) for text in (run.log_head, run.log_tail))
    return printed_lines(
        msgspec.structs.replace(run, log_head=head, log_tail=tail), OUTPUT_LINES_MAX
    )


def failure_lines(failure: Failure | None) -> list[str]:
    """Return a failure as lines of text; none without one."""
    if failure is None:
        return []
    cases = [failure.cases] if failure.cases else []
    return [*failure.error, *cases, failure.next_step, *failure.printed]


def _mismatch_table(mismatches: Sequence[Mismatch]) -> list[str]:
    if not mismatches:
        return []
    rows = [("index", "expected", "got")]
    rows += [(item.index, item.expected, item.got) for item in mismatches]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    return [f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]}" for row in rows]


def _verdict(run: AnyRun) -> str:
    outcome = getattr(run, "outcome", None)
    if getattr(run, "code", "") == AGENTS_LOST:
        return AGENTS_LOST
    if outcome in (INFRA_FAILED, "cancelled"):
        return str(outcome)
    return run.verdict or outcome or INFRA_FAILED


def first_failing(cases: Iterable[Case]) -> Case | None:
    """Return the first case that did not pass, public cases first."""
    failing = [case for case in cases if case.verdict not in PASSED_OR_SKIPPED]
    return min(failing, key=lambda case: case.is_hidden, default=None)


def _error_text(run: AnyRun, case: Case | None) -> str:
    """Return the text of the error alone: the first failing case's, else that of the run."""
    if case is not None and case.message and run.stage == case.stage:
        return case.message
    reason = run.reason or ""
    name = "a hidden case" if case and case.is_hidden else case.name if case else ""
    for ending in (f" on {name}", ""):
        prefix = f"{run.stage} failed ({run.verdict}){ending}"
        if reason == prefix:
            return ""
        if reason.startswith(f"{prefix}: "):
            return reason.removeprefix(f"{prefix}: ")
    return reason


def _read_error(text: str, verdict: str, source: str) -> _Error:
    """Read the text of an error, in which the place is that in the submitted file."""
    text = escape_control_characters(text)
    if verdict == POLICY and (match := _POLICY_PLACE.match(text)):
        return _read_policy(text.splitlines(), Place(int(match["line"])))
    if place := _compiler_place(text):
        return _split_compiler(_FOLDERS.sub("", text).splitlines(), place)
    exceptions = _parse_traceback(text)
    if not any(each.frames for each in exceptions):
        # A linker names folders, too, and no line.
        lines = (_FOLDERS.sub("", text) if verdict == COMPILE_ERROR else text).splitlines()
        if verdict == WRONG_ANSWER:
            lines = [shorten_floats(line) for line in lines]
        return _Error(_first_lines(lines, ERROR_LINES_MAX), [])
    *causes, (message, frames) = exceptions
    own_file = next(each.frames[0].file for each in exceptions if each.frames)
    own = [frame for frame in frames if frame.file == own_file]
    trace = [line for frame in own[: -FRAMES_MAX - 1 : -1] for line in frame.lines]
    if own and own[-1].code:
        trace[1] = _mark(trace[1])
    trace += [f"  … {len(own) - FRAMES_MAX} more frames"] if len(own) > FRAMES_MAX else []
    if frames and frames[-1].file != own_file:
        trace.append(f"  raised in {frames[-1].lines[0].strip()}")
    for cause in reversed(causes):
        where = f" ({cause.frames[-1].lines[0].strip()})" if cause.frames else ""
        trace.append(f"  after {(cause.message or ['an exception'])[0]}{where}")
    is_a_file = not own_file.startswith("<")
    place = Place(own[-1].line, _column(own[-1], source)) if own and is_a_file else None
    return _Error(_first_lines(message, MESSAGE_LINES_MAX), list(map(shorten_line, trace)), place)


def _read_policy(lines: Sequence[str], place: Place) -> _Error:
    """Read what a file uses and may not: each finding is above its line of the source."""
    finding, *others = lines
    marked = [_mark(others[0]), *others[1:]] if others else []
    return _Error(_first_lines([finding, *marked], ERROR_LINES_MAX), [], place)


def _mark(code: str) -> str:
    """Mark a line of code in the text of an error."""
    return MARK + code.removeprefix(_CODE_INDENT)


def _split_compiler(lines: Sequence[str], place: Place) -> _Error:
    r"""Divide a compiler's output: its first error with the marked code, and all other lines.

    >>> output = ["k.cpp: In f:", "k.cpp:3:5: error: oops", "  3 | x", "    | ^", "other"]
    >>> _split_compiler(output, Place(3, 5))[:2]
    (['k.cpp:3:5: error: oops', '  3 | x', '    | ^'], ['k.cpp: In f:', 'other'])
    """
    begin = next(index for index, line in enumerate(lines) if _COMPILER_PLACE.match(line))
    end = begin + 1
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    message = _first_lines(lines[begin:end], MESSAGE_LINES_MAX)
    return _Error(message, _first_lines([*lines[:begin], *lines[end:]], ERROR_LINES_MAX), place)


def _compiler_place(text: str) -> Place | None:
    """Return the place of the first error of a compiler.

    >>> _compiler_place("k.cpp:3:5: error: oops"), _compiler_place("k.cu(7): error: oops")
    (Place(line=3, column=5), Place(line=7, column=None))
    """
    match = _COMPILER_PLACE.search(text)
    if match is None:
        return None
    column = match["column"]
    return Place(int(match["line"] or match["other_line"]), int(column) if column else None)


def _parse_traceback(text: str) -> list[_Exception]:
    """Return the exceptions of a traceback, the last one last.

    The message follows the frames; only that of a signal comes before them.
    """
    exceptions = [_Exception([], [])]
    has_ended = False
    for line in text.splitlines():
        message, frames = exceptions[-1]
        frame = None if has_ended else _FRAME.match(line)
        if line == TRACEBACK:
            if message or frames:
                exceptions.append(_Exception([], []))
            has_ended = False
        elif line in _CHAINED or line.strip() == _GAP or (frames and not line.strip()):
            continue
        elif frame:
            frames.append(_Frame(frame["file"], int(frame["line"]), frame["function"] or "", []))
        elif frames and line.startswith((_CODE_INDENT, "  [")) and not has_ended:
            frames[-1].code.append(line)
        else:
            message.append(line)
            has_ended = bool(frames)
    return exceptions


def _column(frame: _Frame, source: str) -> int | None:
    """Return the column of a frame's mark; the traceback leaves out the indentation."""
    lines = source.splitlines()
    if frame.line > len(lines):
        return None
    indent = len(lines[frame.line - 1]) - len(lines[frame.line - 1].lstrip())
    caret = next((match for line in frame.code if (match := _CARET.match(line))), None)
    offset = caret.start("mark") - len(_CODE_INDENT) if caret else 0
    return indent + max(offset, 0) + 1


def _base_name(file: str) -> str:
    """Return a file without the folders of the agent's host.

    >>> _base_name("/home/a/lib/torch/functional.py"), _base_name("torch/functional.py")
    ('functional.py', 'torch/functional.py')
    """
    return file.rpartition("/")[2] if file.startswith("/") else file


def _first_lines(lines: Iterable[str], lines_max: int) -> list[str]:
    short_lines = [shorten_line(line) for line in lines]
    more = len(short_lines) - lines_max
    return (
        [*short_lines[:lines_max], f"… {count_text(more, 'more line')}"]
        if more > 0
        else short_lines
    )


def _cases_text(cases: Sequence[Case], first: Case) -> str:
    """Say how many cases of a stage failed in the same way as the first one, and which."""
    if first.is_hidden:
        return "a hidden case, of which nothing else is shown"
    in_stage = [case for case in cases if case.stage == first.stage and not case.is_hidden]
    failing = [case for case in in_stage if case.verdict not in PASSED_OR_SKIPPED]
    equal = [case for case in failing if is_same_failure(case, first)]
    text = f"{len(equal)} of {count_text(len(in_stage), 'case')}"
    if len(equal) < len(in_stage) or len(in_stage) == 1:
        names = [one_line(case.name, VALUE_CHARS_MAX) for case in equal]
        more = f" and {len(names) - CASE_NAMES_MAX} more" if len(names) > CASE_NAMES_MAX else ""
        text += f": {', '.join(names[:CASE_NAMES_MAX])}{more}"
    skipped = sum(case.verdict == "skipped" for case in in_stage)
    others = len(failing) - len(equal)
    text += f"; {others} failed in another way" if others else ""
    return text + (f"; {skipped} did not run" if skipped else "")


def case_error(case: Case) -> str:
    """Return the first line of what a case says of its error; "" if it says nothing."""
    return "".join(_read_error(case.message, case.verdict, "").message[:1])


def is_same_failure(case: Case, other: Case) -> bool:
    """Return whether two cases failed in the same way."""
    return _failure_key(case) == _failure_key(other)


def _failure_key(case: Case) -> tuple[str, str, Place | None]:
    """Return what equal failures have in common: figures of a message differ by the case's size."""
    error = _read_error(case.message, case.verdict, "")
    return case.verdict, _NUMBER.sub("#", "".join(error.message[:1])), error.place


def _is_in_table(line: str, mismatches: Iterable[Mismatch]) -> bool:
    """Return whether a line of a message names the place and both values of a mismatch."""
    short = shorten_floats(line)
    return any(
        all(
            part in short
            for part in (
                mismatch.index.strip("[]"),
                shorten_floats(mismatch.got),
                shorten_floats(mismatch.expected),
            )
        )
        for mismatch in mismatches
    )


def _shorten_mismatch(mismatch: Mismatch) -> Mismatch:
    r"""Shorten the values, but not so much that they look equal.

    >>> _shorten_mismatch(Mismatch(index="[3]", got="1.2345678806304932", expected="1.5"))
    Mismatch(index='[3]', got='1.2346', expected='1.5')
    """
    index, got, expected = (
        one_line(text, VALUE_CHARS_MAX)
        for text in (mismatch.index, mismatch.got, mismatch.expected)
    )
    got, _, expected = shorten_floats(f"{got}\t{expected}").partition("\t")
    return Mismatch(index=index, got=got, expected=expected)


_NEXT_STEPS = {
    "timed_out": "Look for a loop that does not end, or make the call faster: it may take 20 times "
    "as long as the reference, and at least 5 s.",
    "out_of_memory": "Allocate less memory: all that one call uses must fit the limit of a run.",
    "output_limit": "Remove what prints in each call: a run may print 1 MiB.",
    "late_write": "Wait for every thread and stream that writes the output before you return.",
    "protocol": "Return from custom_kernel, and leave the open files of the process alone.",
    "policy": "Replace what is named above by code of your own: this problem does not allow it.",
    "suspicious": "You need not do anything: a moderator looks at the run and decides.",
    "cancelled": "Submit it again if you want a result.",
    INFRA_FAILED: "The platform failed, not your file: submit it again.",
    AGENTS_LOST: "Look for what may stop a whole machine, such as unlimited memory, before you "
    "submit it again.",
}


def _next_step(verdict: str, error: Sequence[str], place: Place | None, stage: str) -> str:
    """Return one sentence on what to do next."""
    if verdict in _NEXT_STEPS:
        return _NEXT_STEPS[verdict]
    if stage == "hidden_check":
        return "Try other shapes and values than those of the public cases, such as odd sizes."
    if verdict == WRONG_ANSWER:
        return _answer_step(error)
    return _crash_step(verdict, "\n".join(error), f"line {place.line}" if place else "")


def _answer_step(error: Sequence[str]) -> str:
    first = error[0] if error else ""
    if "returned" in first:
        return "Return the shape and the dtype of the reference."
    if "NaN" in first or "never written" in first:
        return "Write every element of the output, and look for a division by zero."
    return "Compare your kernel with the reference on this case, first at the elements above."


def _crash_step(verdict: str, error: str, line: str) -> str:
    """Return what to do about a file that does not run, or that ends its process."""
    if "killed by" in error:
        where = f" in {line}" if line else ""
        return f"Check the sizes, strides and pointers that compiled code gets{where}."
    if "exited with" in error or "called exit" in error:
        return "Return from custom_kernel instead of ending the process."
    if "ModuleNotFoundError" in error:
        return f"Remove the import in {line or 'your file'}: agents have no such module."
    if "defines no" in error:
        return "Define the function that is named above at the top level of your file."
    verb = "Fix" if verdict in (COMPILE_ERROR, IMPORT_ERROR, CRASHED) else "Look at"
    return f"{verb} {line or 'this error'}, then submit the file again."
