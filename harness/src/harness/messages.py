"""The requests and reports of runs and inspections: plain values, their JSON, and verdicts.

A problem reaches the harness as a folder with `manifest.json` and the files it names; the
manifest is the problem version that `shared.problems` compiles; `harness.problem` lists its keys.
"""

import itertools
import json
import math
import re
import signal
import types
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple, get_args, get_origin

from harness.inspections import InspectReport, InspectRequest
from harness.vocabulary import CPU_DEVICE, FAILURE_CODES, PASSED, SIDES, VERDICTS, WINNERS

VERSION = "2"
# The supervisor's exit status if a process beneath it could not be killed. It is not a message,
# because an author's code could forge one.
LEFT_BEHIND = 70
# The supervisor's first line; the line that ends the current run; its answer once that is gone.
READY, CANCEL, CANCELLED = "ready", "cancel", "cancelled"
LINE_BYTES_MAX = 2 * 1024 * 1024


@dataclass(frozen=True)
class RunRequest:
    """One submission, one problem, one mode.

    `problem` is a folder with manifest.json and its files, `source` the submitted file's path, or
    "" for the reference of a problem in Python. `others` are the paths of its other files, relative
    to the folder of `source`. `out` is an existing empty folder that receives samples.json.gz,
    log.txt and the artefacts.
    `key` (64 hex digits) repeats an earlier run with the same inputs; None draws a new one. On a
    machine with less isolation than `level_min` the run fails with code `sandbox`. `gpus` are the
    numbers of the ranks' GPUs, in order, among those of this machine, from 0; if empty, ranks get
    the first ones. `case` is the only timed case to profile, from 1; 0 means every one. ncu
    captures only kernels that `ncu_kernel_name` matches, as their `ncu_kernel_name_base`, and
    `ncu_launch_count` of them; "" and 0 mean its defaults. In mode `duel`, `rival` is the path of
    the file that `source` is timed against, with `rival_others`.

    `yardstick_us` are the frozen times of the yardstick by timed case; for other cases, times are
    in units of the yardstick's own time in this run. Timing stops at `precision`, the half width
    of the 95 % interval as a fraction; 0 means the mode's default. `best_us` is the participant's
    best score: a ranked run that cannot be faster stops after its first process; 0 means none. A
    ranked run waits up to `quiet_wait_s` while the machine has more runnable threads than cores,
    and then fails as `noisy`; with 0 it is timed at once and graded `noisy`.

    With `is_shared` a run in mode `test` may use the process of an earlier run of the same problem,
    in which the problem is already loaded and the device open. It leaves no records.
    """

    problem: str
    source: str
    mode: str
    out: str
    device: str = CPU_DEVICE
    key: str | None = None
    level_min: str = "none"
    gpus: list[int] = field(default_factory=list)
    case: int = 0
    rival: str = ""
    ncu_kernel_name: str = ""
    ncu_kernel_name_base: str = ""
    ncu_launch_count: int = 0
    yardstick_us: dict[str, float] = field(default_factory=dict)
    precision: float = 0.0
    best_us: float = 0.0
    quiet_wait_s: float = 0.0
    is_shared: bool = False
    others: list[str] = field(default_factory=list)
    rival_others: list[str] = field(default_factory=list)

    @property
    def files(self) -> "SubmittedFiles":
        """The files of the submission; the reference of a problem has none."""
        return SubmittedFiles(self.source, tuple(self.others))

    @property
    def rival_files(self) -> "SubmittedFiles":
        """The files of the rival of a duel."""
        return SubmittedFiles(self.rival, tuple(self.rival_others))


class SubmittedFiles(NamedTuple):
    """A submission on disk: the path of its entry, and its other files relative to that folder."""

    entry: str
    others: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """The paths of all files, the entry first."""
        folder = self.entry.rpartition("/")[0]
        return [self.entry, *(f"{folder}/{name}" for name in self.others)]


@dataclass(frozen=True)
class Accepted:
    """The supervisor has loaded the problem of a run, whose budgets allow `budgets_s` seconds."""

    budgets_s: float


@dataclass(frozen=True)
class Started:
    """The supervisor has started a run; `key_commit` is the SHA-256 of the run's key.

    `missing` names the walls that this machine cannot build, the reason why `level` is not strong.
    """

    harness: str
    level: str
    tier: str
    key_commit: str
    environment: dict[str, str]
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """A case is about to run: `done` of `total` cases of this stage are over."""

    stage: str
    case: str
    done: int
    total: int


@dataclass(frozen=True)
class StageFinished:
    """A stage is over, with its first verdict other than `passed`, else `passed`."""

    stage: str
    verdict: str
    took_s: float
    cases: int


@dataclass(frozen=True)
class Mismatch:
    """One wrong element of a public case, as text: its index, the actual and the expected value."""

    index: str
    got: str
    expected: str


@dataclass(frozen=True)
class Artefact:
    """A file in the run's `out` folder besides the log and the samples."""

    name: str
    media: str
    bytes: int


@dataclass(frozen=True)
class CaseReport:
    """How one case ended. Units: microseconds per call; the interval has 95 % confidence.

    `process_us` is the value of each fresh process, from which a score is made process by process;
    `error` is the standard error of ln(time_us), with `freedom` degrees of freedom; `null_us` are
    p10, median and p90 of empty calls; `grade` is one of GRADES; `statistics` are more figures of
    the samples (mean_us, median_us, best_us, worst_us, p95_us ...). `time_us` is the measured ratio
    to the yardstick multiplied by `yardstick_us`, the yardstick's own time; None if the case was
    timed alone. `weight` is that of a timed case in the score.
    """

    name: str
    stage: str
    verdict: str
    message: str = ""
    is_hidden: bool = False
    time_us: float | None = None
    interval_us: tuple[float, float] | None = None
    samples: int = 0
    dropped: int = 0
    process_us: list[float] = field(default_factory=list)
    error: float | None = None
    freedom: int = 0
    null_us: list[float] = field(default_factory=list)
    grade: str = ""
    statistics: dict[str, float] = field(default_factory=dict)
    wrong: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    yardstick_us: float | None = None
    weight: float = 1.0


@dataclass(frozen=True)
class Composition:
    """What produced an answer, and `doubts`: why a moderator must review it under the policy."""

    shares: dict[str, float] = field(default_factory=dict)
    operators: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DuelReport:
    """How a duel ended: `winner` is one of WINNERS, "" if the side `failed` did not pass.

    A is the request's `source`, B its `rival`. `ratio` is the time of A over that of B with its
    95 % interval; `pairs_us` are the scores of A and B of each pair of blocks, in microseconds,
    of which `round_pairs` in a row come from the same processes.
    """

    winner: str
    failed: str = ""
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    pairs_us: list[tuple[float, float]] = field(default_factory=list)
    round_pairs: int = 0


@dataclass(frozen=True)
class RunReport:
    """The end of a run: a verdict on the submission, or a failure that is not its fault.

    With `failure_code` set (one of FAILURE_CODES) there is no verdict (""). `tie_us` is what a
    cheat could hide of the handshake, and `sigma_run` the machine's own run-to-run deviation as a
    fraction: times closer than these allow are tied. With `has_left`, a process of the submission
    is still alive beneath the supervisor, which must be replaced. In mode `duel` the verdict is
    that of both submissions, or of the one that failed, and `duel` says which. `stopped` says in
    words why a ranked run stopped early, "" if it did not. `metrics` are those that the problem
    declares, and `over_limit` says which of them are out of bounds.
    """

    verdict: str
    stage: str
    reason: str
    took_s: float
    key: str
    cases: list[CaseReport] = field(default_factory=list)
    log_head: str = ""
    log_tail: str = ""
    log_bytes: int = 0
    usage: dict[str, float] = field(default_factory=dict)
    failure_code: str = ""
    artefacts: list[Artefact] = field(default_factory=list)
    sigma_run: float = 0.0
    tie_us: float = 0.0
    has_left: bool = False
    duel: DuelReport | None = None
    composition: Composition | None = None
    stopped: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    over_limit: str = ""


Request = RunRequest | InspectRequest
Message = Accepted | Started | Progress | StageFinished | RunReport | InspectReport
_MESSAGE_TYPES = {kind.__name__: kind for kind in get_args(Message)}
_REQUEST_TYPES = {kind.__name__: kind for kind in get_args(Request)}


def failed_run(code: str, reason: str, took_s: float = 0.0) -> RunReport:
    """Return the report of a run without a verdict; `code` is one of FAILURE_CODES."""
    return RunReport("", "", reason, took_s, "", failure_code=code)


def failed_request(
    request: Request, code: str, reason: str, took_s: float = 0.0
) -> RunReport | InspectReport:
    """Return the report of a request that found nothing; `code` is one of FAILURE_CODES."""
    if isinstance(request, InspectRequest):
        return InspectReport([], took_s, code, reason)
    return failed_run(code, reason, took_s)


def to_line(message: Message | Request) -> str:
    """Return one line of JSON, including the newline."""
    return json.dumps({type(message).__name__: asdict(message)}, allow_nan=False) + "\n"


def request_from_line(line: str) -> Request:
    """Return the request in a line. Raises ValueError for anything else."""
    try:
        ((name, body),) = json.loads(line).items()
        request: Request = _decode(body, _REQUEST_TYPES[name])
        return request
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a request for a run: {line[:200]!r}") from error


def from_line(line: str) -> Message:
    """Return the message in a line. Raises ValueError for anything but one known message."""
    try:
        ((name, body),) = json.loads(line).items()
        message: Message = _decode(body, _MESSAGE_TYPES[name])
        return message
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"not a message of the supervisor: {line[:200]!r}") from error


def _decode(value: Any, kind: Any) -> Any:
    """Return a value of JSON as the type of an annotation; a bool is not an int.

    Raises AttributeError, KeyError, TypeError or ValueError if it is not one.
    """
    return _find_decoder(kind)(value)


@cache
def _find_decoder(kind: Any) -> Callable[[Any], Any]:
    """Return what decodes a type: looking at an annotation takes longer than decoding a value."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _record_decoder(kind)
    if origin is types.UnionType:
        decode_some = _find_decoder(inner[0])
        return lambda value: None if value is None else decode_some(value)
    if origin is tuple:
        parts = [_find_decoder(part) for part in inner]
        return lambda value: tuple(decode(item) for item, decode in zip(value, parts, strict=True))
    if origin is list:
        return _list_decoder(kind, _find_decoder(inner[0]))
    if origin is dict:
        decode_item = _find_decoder(inner[1])
        return lambda value: {name: decode_item(item) for name, item in value.items()}
    return _scalar_decoder(kind)


def _record_decoder(kind: Any) -> Callable[[Any], Any]:
    types_by_name: dict[str, Any] = {item.name: item.type for item in fields(kind)}
    decoders = {name: _find_decoder(item) for name, item in types_by_name.items()}

    def decode(value: Any) -> Any:
        record = kind(**{name: decoders[name](item) for name, item in value.items()})
        _require_possible(record)
        return record

    return decode


def _list_decoder(kind: Any, decode_item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if isinstance(value, list):
            return [decode_item(item) for item in value]
        raise _wrong_type(value, kind)

    return decode


def _scalar_decoder(kind: Any) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if isinstance(value, kind) and (kind is bool or type(value) is not bool):
            return value
        raise _wrong_type(value, kind)

    return decode


def _wrong_type(value: Any, kind: Any) -> TypeError:
    return TypeError(f"{value!r:.100} is not {kind}")


def _require_possible(record: Any) -> None:
    """Raise ValueError for a record that only something else than the harness would send."""
    if isinstance(record, RunRequest):
        _require_possible_request(record)
    if isinstance(record, CaseReport):
        _require_possible_case(record)
    if isinstance(record, DuelReport) and (
        record.winner not in (*WINNERS, "") or record.failed not in (*SIDES, "")
    ):
        raise ValueError(f"impossible result of a duel: {record.winner!r}, {record.failed!r}")
    if isinstance(record, RunReport):
        _require_possible_ending(record)


def _require_possible_case(case: CaseReport) -> None:
    if case.verdict not in VERDICTS:
        raise ValueError(f"unknown verdict: {case.verdict!r}")
    if case.yardstick_us is not None:
        _require_time("yardstick_us", case.yardstick_us)
    if not 0 < case.weight < math.inf:
        raise ValueError(f"weight is {case.weight}, expected a finite number over 0")


def _require_possible_ending(report: RunReport) -> None:
    has_verdict = report.verdict in VERDICTS and not report.failure_code
    has_failed = not report.verdict and report.failure_code in FAILURE_CODES
    if not has_verdict and not has_failed:
        raise ValueError(f"impossible ending: {report.verdict!r}, {report.failure_code!r}")
    if report.stopped and report.verdict != PASSED:
        raise ValueError(f"only a passed run stops early, not {report.verdict!r}")


def _require_possible_request(request: RunRequest) -> None:
    for name in (*request.others, *request.rival_others):
        if {"", ".", ".."} & {*name.split("/")} or "\0" in name:
            raise ValueError(f"{name!r} is no path within the submission's folder")
    for case, time_us in request.yardstick_us.items():
        _require_time(f"yardstick_us of {case}", time_us)
    if not 0 <= request.precision < 1:
        raise ValueError(f"precision is {request.precision}, expected a fraction under 1")
    for name in ("best_us", "quiet_wait_s"):
        value = getattr(request, name)
        if not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}, expected a finite number from 0")


def _require_time(name: str, time_us: float) -> None:
    if not 0 < time_us < math.inf:
        raise ValueError(f"{name} is {time_us}, expected a finite number over 0")


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
    """Reduce the report of a hidden case to its verdict, and to the time that the score needs."""
    return replace(
        case,
        message="",
        is_hidden=True,
        samples=0,
        dropped=0,
        null_us=[],
        statistics={},
        wrong=0,
        mismatches=[],
    )


def first_failed(cases: Sequence[CaseReport]) -> CaseReport | None:
    """Return the first case that did not pass; a skipped case always follows another one."""
    return next((case for case in cases if case.verdict != PASSED), None)


def describe_outcome(case: CaseReport | None) -> str:
    """Describe for people why a run ended as it did.

    >>> describe_outcome(CaseReport("size=4", "check", "wrong_answer", "2 of 16 values differ"))
    'check failed (wrong_answer) on size=4: 2 of 16 values differ'
    """
    if case is None:
        return "every case passed"
    place = "a hidden case" if case.is_hidden else case.name
    location = f" on {place}" if place else ""
    detail = f": {case.message}" if case.message else ""
    return f"{case.stage} failed ({case.verdict}){location}{detail}"


def _escape(character: str) -> str:
    # Not with a codec: one that was never used before would be imported from a closed folder.
    return ascii(character)[1:-1]
