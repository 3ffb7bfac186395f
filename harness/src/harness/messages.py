"""What goes into a run and what comes out: plain values, and their JSON.

A problem reaches the harness as a folder with `manifest.json` and the files it names; the
manifest is the problem version that `shared.problems` compiles; `harness.problem` lists its keys.
"""

import json
import types
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_args, get_origin

from harness.inspection import Finding, InspectReport, InspectRequest

VERSION = "2"
LEVELS = ("none", "weak", "medium", "strong")
LAUNCHERS = ("zygote", "bubblewrap")
MODES = ("test", "benchmark", "profile", "ranked")
DUEL = "duel"
SIDES = ("A", "B")
WINNERS = (*SIDES, "equal")
STAGES = {
    "test": ("build", "check"),
    "benchmark": ("build", "check", "time"),
    "profile": ("build", "check", "profile"),
    "ranked": ("build", "check", "hidden_check", "time"),
    # What no participant asks for: every case, judged and not timed, for who wrote the problem.
    "verify": ("build", "check", "timed_check"),
    # Two submissions: each is built and checked, then they are timed in alternation.
    DUEL: ("build", "check", "hidden_check", DUEL),
}
FAILURE_CODES = ("supervisor", "problem_fault", "sandbox", "device", "noisy", "memory")
# What the supervisor's process ends with when something beneath it would not die. No line of it
# says so, for an author's code could say that, too.
LEFT_BEHIND = 70
# Its first line: it can take a run.
READY = "ready"
LINE_BYTES_MAX = 2 * 1024 * 1024
VERDICTS = (
    "passed",
    "wrong_answer",
    "late_write",
    "protocol",
    "timed_out",
    "out_of_memory",
    "output_limit",
    "crashed",
    "compile_error",
    "import_error",
    "suspicious",
    "skipped",
)
# How far a time can be trusted, beside its verdict.
CLASSES = (
    "ok",
    "noisy",
    "trend",
    "bimodal",
    "host_sync",
    "launch_bound",
    "handshake_bound",
    "in_process",
)


@dataclass(frozen=True)
class RunRequest:
    """One submission, one problem, one mode.

    `problem` is a folder with manifest.json and its files, `source` the submitted file's path,
    `out` an existing empty folder that receives samples.json.gz, log.txt and the artefacts.
    `key` (64 hex digits) repeats an earlier run with the same inputs; None draws a new one.
    `level_min` refuses, as a failure `sandbox`, to run on a machine that isolates less. `gpus` are
    the numbers of the GPUs of the ranks, in order, of those that this machine shows, from 0 on;
    without any they have the first ones. `case` is the only timed case to be profiled, from 1 on;
    0 is every one. In mode `duel`, `rival` is the path of the file that `source` is timed against.
    """

    problem: str
    source: str
    mode: str
    out: str
    device: str = "cpu"
    key: str | None = None
    level_min: str = "none"
    gpus: list[int] = field(default_factory=list)
    case: int = 0
    rival: str = ""


@dataclass(frozen=True)
class Started:
    """The supervisor is up; `key_commit` is the SHA-256 of the run's key.

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
    """A case is about to be run: `done` of `total` cases of this stage are over."""

    stage: str
    case: str
    done: int
    total: int


@dataclass(frozen=True)
class StageFinished:
    """A stage is over, with the first verdict in it that is not `passed`, else `passed`."""

    stage: str
    verdict: str
    took_s: float
    cases: int


@dataclass(frozen=True)
class Mismatch:
    """One wrong element of a public case, told as text: its index, what came, what was due."""

    index: str
    got: str
    expected: str


@dataclass(frozen=True)
class Artefact:
    """A file in the run's `out` folder beside the log and the samples."""

    name: str
    media: str
    bytes: int


@dataclass(frozen=True)
class CaseReport:
    """How one case ended. Units: microseconds for one call; the interval has 95 % confidence.

    `process_us` is the value of each fresh process, from which a score is made process by process;
    `error` is the standard error of ln(time_us), with `freedom` degrees of freedom; `null_us` are
    p10, median and p90 of calls with nothing in them; `grade` is one of CLASSES; `statistics` says
    more of the samples (mean_us, median_us, best_us, worst_us, p95_us ...).
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
    fraction: times closer than these allow are tied. `has_left` asks for another supervisor, for a
    process of the submission lives on beneath this one. In mode `duel` the verdict is that of both
    submissions, or of the one that failed, and `duel` says which.
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


Request = RunRequest | InspectRequest
Message = Started | Progress | StageFinished | RunReport | InspectReport
_KINDS = {
    kind.__name__: kind for kind in (Started, Progress, StageFinished, RunReport, InspectReport)
}
_REQUESTS = {kind.__name__: kind for kind in (RunRequest, InspectRequest)}


def failed(code: str, reason: str, took_s: float = 0.0) -> RunReport:
    """The report of a run that ended without a verdict; `code` is one of FAILURE_CODES."""
    return RunReport("", "", reason, took_s, "", failure_code=code)


def unanswered(
    request: Request, code: str, reason: str, took_s: float = 0.0
) -> RunReport | InspectReport:
    """What a request ends with that found nothing out; `code` is one of FAILURE_CODES."""
    if isinstance(request, InspectRequest):
        return InspectReport([], took_s, code, reason)
    return failed(code, reason, took_s)


def to_line(message: Message | Request) -> str:
    """One line of JSON, newline included."""
    return json.dumps({type(message).__name__: asdict(message)}, allow_nan=False) + "\n"


def request_from_line(line: str) -> Request:
    """The request in a line. Errors: ValueError for anything else."""
    try:
        ((name, body),) = json.loads(line).items()
        request: Request = _checked(_REQUESTS[name](**body))
        return request
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a request for a run: {line[:200]!r}") from error


def from_line(line: str) -> Message:
    """The message in a line. Errors: ValueError for anything but one known message."""
    try:
        ((name, body),) = json.loads(line).items()
        return _from_body(_KINDS[name], body)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"not a message of the supervisor: {line[:200]!r}") from error


def _from_body(kind: Any, body: dict[str, Any]) -> Message:
    if kind is RunReport:
        body["cases"] = [_case(case) for case in body["cases"]]
        body["artefacts"] = [_checked(Artefact(**one)) for one in body["artefacts"]]
        body["duel"] = _duel(body["duel"])
        _require_one_ending(body["verdict"], body["failure_code"])
    if kind is InspectReport:
        body["findings"] = [_checked(Finding(**one)) for one in body["findings"]]
    message: Message = _checked(kind(**body))
    return message


def _case(body: dict[str, Any]) -> CaseReport:
    if body["interval_us"] is not None:
        low, high = body["interval_us"]
        body["interval_us"] = (low, high)
    body["mismatches"] = [_checked(Mismatch(**one)) for one in body["mismatches"]]
    case: CaseReport = _checked(CaseReport(**body))
    if case.verdict not in VERDICTS:
        raise ValueError(f"no such verdict: {case.verdict!r}")
    return case


def _duel(body: dict[str, Any] | None) -> DuelReport | None:
    if body is None:
        return None
    body["pairs_us"] = [(one, other) for one, other in body["pairs_us"]]
    if body["interval"] is not None:
        low, high = body["interval"]
        body["interval"] = (low, high)
    duel: DuelReport = _checked(DuelReport(**body))
    if duel.winner not in (*WINNERS, "") or duel.failed not in (*SIDES, ""):
        raise ValueError(f"no such end of a duel: {duel.winner!r}, {duel.failed!r}")
    return duel


def _require_one_ending(verdict: str, failure_code: str) -> None:
    is_judged = verdict in VERDICTS and failure_code == ""
    if not is_judged and (verdict != "" or failure_code not in FAILURE_CODES):
        raise ValueError(f"no such ending: {verdict!r}, {failure_code!r}")


def _checked(message: Any) -> Any:
    for item in fields(message):
        if not _fits(getattr(message, item.name), item.type):
            raise TypeError(f"{type(message).__name__}.{item.name} is not {item.type}")
    return message


def _fits(value: Any, kind: Any) -> bool:
    """Whether a decoded value is what a field's annotation says.

    >>> _fits(None, float | None), _fits({"a": "b"}, dict[str, float]), _fits(True, int)
    (True, False, False)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is types.UnionType:
        return any(_fits(value, one) for one in inner)
    if origin is None:
        return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not isinstance(value, origin):
        return False
    if origin is dict:
        return all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    return all(_fits(one, inner[0]) for one in value)
