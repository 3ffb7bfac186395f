"""What a run came to, in the client's shapes: `runs[]`, protocol keys, FullResult.

A hidden run has nothing but whether it passed: no spec, no message, no output.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from ingest.popcorn.result_shapes import Compilation, EvalResult, FullResult, Protocol, System
from ingest.popcorn.seen import Case, Shown
from ingest.popcorn.shapes import PublicMode, RunPolled
from ingest.popcorn.standing import standing
from ingest.popcorn.words import MODES, instant, plain, seconds

# By our mode: the public name of each of our stages, in order, and whether it is hidden.
STAGES: dict[str, tuple[tuple[str, PublicMode, bool], ...]] = {
    "test": (("check", "test", False),),
    "benchmark": (("check", "test", False), ("time", "benchmark", False)),
    "profile": (("check", "test", False), ("profile", "profile", False)),
    "ranked": (
        ("check", "test", False),
        ("hidden_check", "test", True),
        ("time", "leaderboard", False),
    ),
}
PUBLIC_MODES = {ours: theirs for theirs, ours in MODES.items()}
NS_PER_US = 1000.0
# By the client's key: our statistic, in microseconds.
TIMES = {
    "mean": "mean_us",
    "std": "sd_us",
    "err": "se_us",
    "best": "best_us",
    "worst": "worst_us",
}
MESSAGE_LENGTH_MAX = 2000
# How the log of what was compiled begins, and how it ends.
COMMAND = "$ "
ENDED = re.compile(r"exit code ([1-9]\d{0,2})\b")


class Stage(NamedTuple):
    """A stage that was reached: its public name, its cases, and whether all of it passed."""

    ours: str
    mode: PublicMode
    is_hidden: bool
    cases: Sequence[Case]
    is_passed: bool


def stages(seen: Shown) -> list[Stage]:
    """The stages that a submission's newest run reached, in order; none before it is over."""
    if not seen.is_over:
        return []
    found = []
    for ours, mode, is_hidden in STAGES.get(seen.mode, ()):
        cases = [case for case in seen.cases if case.stage == ours]
        if not cases and seen.stage not in (ours, "build"):
            continue
        passed = bool(cases) and all(case.verdict == "passed" for case in cases)
        found.append(Stage(ours, mode, is_hidden, cases, passed))
        if not passed:
            break
    return found


def runs(seen: Shown) -> list[RunPolled]:
    """The client's `runs`: one for each stage, the hidden one without a result."""
    return [_run(seen, stage) for stage in stages(seen)]


def _run(seen: Shown, stage: Stage) -> RunPolled:
    is_scored = stage.mode == "leaderboard" and standing(seen).status == "succeeded"
    said: RunPolled = {
        "start_time": instant(seen.started_at),
        "end_time": instant(seen.ended_at),
        "mode": stage.mode,
        "secret": stage.is_hidden,
        "runner": seen.gpu,
        "score": seconds(seen.score_us) if is_scored else None,
        "passed": stage.is_passed,
    }
    if not stage.is_hidden:
        said["result"] = protocol(stage)
    return said


def protocol(stage: Stage) -> Protocol:
    """The keys of the public protocol (problems.md 9); counts are integers, times nanoseconds."""
    kind = "test" if stage.mode == "test" else "benchmark"
    said: Protocol = {f"{kind}-count": len(stage.cases)}
    for index, case in enumerate(stage.cases):
        told = _checked(case) if kind == "test" else _timed(case)
        said |= {f"{kind}.{index}.{key}": value for key, value in told.items()}
    return said | {"check": "pass" if stage.is_passed else "fail"}


def _checked(case: Case) -> dict[str, Any]:
    said = {"spec": plain(case.name), "status": "pass" if case.verdict == "passed" else "fail"}
    if not case.message:
        return said
    key = "message" if case.verdict == "passed" else "error"
    return said | {key: plain(case.message, MESSAGE_LENGTH_MAX)}


def _timed(case: Case) -> dict[str, Any]:
    said: dict[str, Any] = {"spec": plain(case.name)}
    if case.verdict != "passed":
        error = plain(case.message or case.verdict, MESSAGE_LENGTH_MAX)
        return said | {"status": "fail", "error": error}
    if case.time_us is None:
        return said
    known = {"mean_us": case.time_us} | dict(case.statistics)
    times = {
        key: known[name] * NS_PER_US
        for key, name in TIMES.items()
        if name in known and math.isfinite(known[name])
    }
    return said | {"runs": case.samples} | times


def full_result(seen: Shown) -> FullResult:
    """FullResult (problems.md 13) of a submission that is over; a hidden stage is not in it."""
    now = standing(seen)
    public = [stage for stage in stages(seen) if not stage.is_hidden and stage.ours != "profile"]
    return {
        "success": now.status == "succeeded",
        "error": now.error or "",
        "system": _system(seen),
        "runs": {stage.mode: evaluated(seen, stage, protocol(stage)) for stage in public},
    }


def evaluated(seen: Shown, stage: Stage, result: Protocol) -> EvalResult:
    """EvalResult (problems.md 13) of one stage; output is said where nothing hidden wrote it."""
    stdout = "" if seen.mode == "ranked" else output(seen)
    said: EvalResult = {
        "start": instant(seen.started_at),
        "end": instant(seen.ended_at),
        "compilation": None,
        "run": {
            "success": stage.is_passed or bool(stage.cases),
            "passed": stage.is_passed,
            "command": "",
            "stdout": stdout,
            "stderr": "",
            "exit_code": 0 if stage.is_passed else 1,
            "duration": seen.took_s if seen.took_s and math.isfinite(seen.took_s) else 0.0,
            "result": result,
        },
        "profile": None,
    }
    if seen.stage == "build":
        said["compilation"] = _compilation(seen)
    return said


def _compilation(seen: Shown) -> Compilation:
    """A build that failed; command and exit code are its log's first line and its last."""
    lines = output(seen).splitlines() or [""]
    command = lines[0].removeprefix(COMMAND) if lines[0].startswith(COMMAND) else ""
    ended = ENDED.match(lines[-1]) if command else None
    return {
        "nvcc_found": True,
        "nvcc_version": "",
        "success": False,
        "command": plain(command, MESSAGE_LENGTH_MAX),
        "stdout": "",
        "stderr": plain(seen.reason or "", MESSAGE_LENGTH_MAX),
        "exit_code": int(ended[1]) if ended else 1,
    }


def output(seen: Shown) -> str:
    """Head and tail of what a run printed."""
    if not seen.log_tail:
        return seen.log_head
    return f"{seen.log_head}\n[...]\n{seen.log_tail}"


def _system(seen: Shown) -> System:
    told = seen.environment
    others: Literal["CUDA", "ROCm"] = "ROCm" if seen.gpu.startswith("MI") else "CUDA"
    return {
        "gpu": seen.gpu,
        "device_count": 1,
        "cpu": told.get("cpu", ""),
        "runtime": "CPU" if seen.gpu == "CPU" else others,
        "platform": told.get("platform", ""),
        "torch": told.get("torch", ""),
        "hostname": seen.agent or "",
    }


def report(seen: Shown) -> str:
    """What the client prints of an ended submission, in a few lines."""
    now = standing(seen)
    head = f"Submission {seen.number} on {seen.gpu}: {now.status}"
    if now.error:
        return f"{head}\n{now.error}"
    score = seconds(seen.score_us) if seen.is_eligible else None
    lines = [head] + [_line(stage) for stage in stages(seen)]
    return "\n".join(lines if score is None else [*lines, f"Score: {score:.9g} s"])


def _line(stage: Stage) -> str:
    name = f"{stage.mode} (hidden)" if stage.is_hidden else stage.mode
    return f"  {name}: {'passed' if stage.is_passed else 'failed'}"
