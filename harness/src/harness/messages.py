"""What goes into a run and what comes out: plain values, and their JSON.

A problem reaches the harness as a folder with `manifest.json` and the files it names; the manifest
is the problem version that `shared.problems` compiles, and its keys are listed in `harness.problem`.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

MODES = ("test", "benchmark", "ranked")
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
    "skipped",
)


@dataclass(frozen=True)
class RunRequest:
    """One submission, one problem, one mode.

    `problem` is a folder with manifest.json and its files, `source` the submitted file's path,
    `out` an existing empty folder that receives samples.json and log.txt.
    `key` (64 hex digits) repeats an earlier run with the same inputs; None draws a new one.
    """

    problem: str
    source: str
    mode: str
    out: str
    device: str = "cpu"
    key: str | None = None


@dataclass(frozen=True)
class Started:
    """The supervisor is up; `key_commit` is the SHA-256 of the run's key."""

    harness: str
    level: str
    tier: str
    key_commit: str
    environment: dict[str, str]


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
class CaseReport:
    """How one case ended. Units: microseconds for one call; the interval has 95 % confidence."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    is_hidden: bool = False
    time_us: float | None = None
    interval_us: tuple[float, float] | None = None
    samples: int = 0


@dataclass(frozen=True)
class RunReport:
    """The end of a run: a verdict on the submission, or a failure that is not its fault.

    With `failure_code` set ("supervisor", "problem_fault", "sandbox") there is no verdict ("").
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


Message = Started | Progress | StageFinished | RunReport
_KINDS = {kind.__name__: kind for kind in (Started, Progress, StageFinished, RunReport)}


def to_line(message: Message | RunRequest) -> str:
    """One line of JSON, newline included."""
    return json.dumps({type(message).__name__: asdict(message)}, allow_nan=False) + "\n"


def from_line(line: str) -> Message:
    """The message in a line. Errors: ValueError for anything but one known message."""
    try:
        ((name, body),) = json.loads(line).items()
        return _from_body(_KINDS[name], body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a message of the supervisor: {line[:200]!r}") from error


def _from_body(kind: Any, body: dict[str, Any]) -> Message:
    if kind is RunReport:
        body["cases"] = [_case(case) for case in body["cases"]]
    message: Message = kind(**body)
    return message


def _case(body: dict[str, Any]) -> CaseReport:
    if body["interval_us"] is not None:
        low, high = body["interval_us"]
        body["interval_us"] = (low, high)
    return CaseReport(**body)
