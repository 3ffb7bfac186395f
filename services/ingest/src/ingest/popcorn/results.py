"""Run results in the client's form: `runs[]`, protocol keys, FullResult and profiles.

A hidden stage shows only whether it passed: no spec, no message, no output.
"""

import base64
import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from harness.vocabulary import MODES, STAGES
from ingest.popcorn.conversions import instant, job_status, seconds, terminal_text
from ingest.popcorn.dependencies import ProfileOptions
from ingest.popcorn.response_models import (
    Compilation,
    EvalResult,
    FullResult,
    ProfileMetadata,
    Protocol,
    PublicMode,
    StageRun,
)
from shared.api.cases import Case
from shared.api.submissions import File, FullSubmission
from shared.events import HARNESS_CODE

NS_PER_US = 1000.0
# Our statistic (in microseconds) for each key of the client.
TIMES = {"mean": "mean_us", "std": "sd_us", "err": "se_us", "best": "best_us", "worst": "worst_us"}
MESSAGE_LENGTH_MAX = 2000
# The first and the last line of a compiler log.
COMMAND_PREFIX = "$ "
EXIT_LINE = re.compile(r"exit code ([1-9]\d{0,2})\b")

TRACE_BYTES_MAX = 20_000_000
REPORT_BYTES_MAX = 200_000
_PROFILE_FILE = re.compile(r"profile-(\d+)-([A-Za-z0-9._-]+)\Z")
# The files of ncu, the names under which the client looks for them in a zip, and the files that
# people read, best first.
NCU_NAMES = ("ncu-details.txt", "ncu-details.csv", ".ncu-rep", "ncu.txt", "ncu.csv")
ARCHIVE_NAMES = {"ncu.txt": "ncu-details.txt", "ncu.csv": "ncu-details.csv"}
REPORT_NAMES = ("ncu-details.txt", "ncu.txt", "table.txt")
# A fixed date, so that equal files make equal zips.
_ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)


class Stage(NamedTuple):
    """A stage that was reached: its public name, its cases, and whether it passed."""

    ours: str
    mode: PublicMode
    is_hidden: bool
    cases: Sequence[Case]
    is_passed: bool


def public_stages(submission: FullSubmission) -> list[Stage]:
    """Return the stages that the newest run reached, in order; empty until it has ended."""
    reached: list[Stage] = []
    _, *judged = MODES[submission.mode].stages if submission.is_over else ("build",)
    for our_stage in judged:
        mode = STAGES[our_stage].public_mode or MODES[submission.mode].public_mode
        cases = [case for case in submission.cases if case.stage == our_stage]
        if not cases and submission.stage not in (our_stage, "build"):
            continue
        is_passed = bool(cases) and all(case.verdict == "passed" for case in cases)
        reached.append(
            Stage(
                our_stage, cast("PublicMode", mode), STAGES[our_stage].is_hidden, cases, is_passed
            )
        )
        if not is_passed:
            break
    return reached


def stage_runs(submission: FullSubmission) -> list[StageRun]:
    """Return the client's `runs`: one for each stage, without a result for the hidden one."""
    runs: list[StageRun] = []
    for stage in public_stages(submission):
        is_scored = stage.mode == "leaderboard" and job_status(submission).status == "succeeded"
        run: StageRun = {
            "start_time": instant(submission.started_at),
            "end_time": instant(submission.ended_at),
            "mode": stage.mode,
            "secret": stage.is_hidden,
            "runner": submission.gpu,
            "score": seconds(submission.score_us) if is_scored else None,
            "passed": stage.is_passed,
        }
        if not stage.is_hidden:
            run["result"] = protocol_keys(stage)
        runs.append(run)
    return runs


def protocol_keys(stage: Stage) -> Protocol:
    """Return the keys of the public protocol (problems.md 9); times in nanoseconds."""
    prefix = "test" if stage.mode == "test" else "benchmark"
    cases = [case for case in stage.cases if not case.is_hidden]
    keys: Protocol = {f"{prefix}-count": len(cases)}
    for index, case in enumerate(cases):
        case_keys = _checked_keys(case) if prefix == "test" else _timed_keys(case)
        case_keys = {"spec": terminal_text(case.name)} | case_keys
        keys |= {f"{prefix}.{index}.{key}": value for key, value in case_keys.items()}
    return keys | {"check": "pass" if stage.is_passed else "fail"}


def _checked_keys(case: Case) -> dict[str, Any]:
    is_passed = case.verdict == "passed"
    keys = {"status": "pass" if is_passed else "fail"}
    if case.message:
        keys["message" if is_passed else "error"] = terminal_text(case.message, MESSAGE_LENGTH_MAX)
    return keys


def _timed_keys(case: Case) -> dict[str, Any]:
    if case.verdict != "passed":
        error = terminal_text(case.message or case.verdict, MESSAGE_LENGTH_MAX)
        return {"status": "fail", "error": error}
    if case.time_us is None:
        return {}
    statistics = {"mean_us": case.time_us} | dict(case.statistics)
    return {"runs": case.samples} | {
        key: statistics[name] * NS_PER_US
        for key, name in TIMES.items()
        if name in statistics and math.isfinite(statistics[name])
    }


def full_result(submission: FullSubmission) -> FullResult:
    """Return the FullResult (problems.md 13) of an ended submission, without hidden stages."""
    status, environment = job_status(submission), submission.environment
    gpu_runtime: Literal["CUDA", "ROCm"] = "ROCm" if submission.gpu.startswith("MI") else "CUDA"
    return {
        "success": status.status == "succeeded",
        "error": status.error or "",
        "system": {
            "gpu": submission.gpu,
            "device_count": 1,
            "cpu": environment.get("cpu", ""),
            "runtime": "CPU" if submission.gpu == "CPU" else gpu_runtime,
            "platform": environment.get("platform", ""),
            "torch": environment.get("torch", ""),
            "hostname": submission.agent or "",
        },
        "runs": {
            stage.mode: stage_result(submission, stage)
            for stage in public_stages(submission)
            if not stage.is_hidden and stage.ours != "profile"
        },
    }


def stage_result(submission: FullSubmission, stage: Stage) -> EvalResult:
    """Return the EvalResult (problems.md 13) of a stage; ranked runs show no output."""
    took_s = submission.took_s
    return {
        "start": instant(submission.started_at),
        "end": instant(submission.ended_at),
        "compilation": _compilation(submission) if submission.stage == "build" else None,
        "run": {
            "success": stage.is_passed or bool(stage.cases),
            "passed": stage.is_passed,
            "command": "",
            "stdout": "" if submission.mode == "ranked" else _visible_output(submission),
            "stderr": "",
            "exit_code": 0 if stage.is_passed else 1,
            "duration": took_s if took_s and math.isfinite(took_s) else 0.0,
            "result": protocol_keys(stage),
        },
        "profile": None,
    }


def _compilation(submission: FullSubmission) -> Compilation:
    """Return a failed build; command and exit code are the first and last lines of its log."""
    lines = _visible_output(submission).splitlines() or [""]
    command = lines[0].removeprefix(COMMAND_PREFIX) if lines[0].startswith(COMMAND_PREFIX) else ""
    exit_match = EXIT_LINE.match(lines[-1]) if command else None
    return {
        "nvcc_found": True,
        "nvcc_version": "",
        "success": False,
        "command": terminal_text(command, MESSAGE_LENGTH_MAX),
        "stdout": "",
        "stderr": terminal_text(submission.reason or "", MESSAGE_LENGTH_MAX),
        "exit_code": int(exit_match[1]) if exit_match else 1,
    }


def _visible_output(submission: FullSubmission) -> str:
    """Return head and tail of a run's output."""
    if not submission.log_tail:
        return submission.log_head
    return f"{submission.log_head}\n[...]\n{submission.log_tail}"


def render_report(submission: FullSubmission) -> str:
    """Return the summary of an ended submission that the client prints."""
    status = job_status(submission)
    lines = [f"Submission {submission.number} on {submission.gpu}: {status.status}"]
    if status.error:
        return f"{lines[0]}\n{status.error}"
    for stage in public_stages(submission):
        name = f"{stage.mode} (hidden)" if stage.is_hidden else stage.mode
        lines.append(f"  {name}: {'passed' if stage.is_passed else 'failed'}")
    score = seconds(submission.score_us) if submission.is_eligible else None
    return "\n".join(lines if score is None else [*lines, f"Score: {score:.9g} s"])


def files_by_case(submission: FullSubmission) -> dict[int, list[File]]:
    """Return the files of a profile by case index."""
    files_by_index: dict[int, list[File]] = {}
    for file in submission.files:
        if match := _PROFILE_FILE.match(file.name):
            files_by_index.setdefault(int(match[1]), []).append(file)
    return files_by_index


def archive_name(number: int, index: int) -> str:
    """Return the name of a case's zip.

    >>> archive_name(12, 0)
    'profile-12-0.zip'
    """
    return f"profile-{number}-{index}.zip"


def build_archive(files: Sequence[File], contents: Mapping[str, bytes]) -> bytes:
    """Return the files of a case as a zip; ncu's text and table get the client's names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as folder:
        for file in files:
            match = _PROFILE_FILE.match(file.name)
            name = f"{match[1]}-{ARCHIVE_NAMES.get(match[2], match[2])}" if match else file.name
            entry = zipfile.ZipInfo(name, _ARCHIVE_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            folder.writestr(entry, contents[file.name])
    return buffer.getvalue()


def profile_result(
    submission: FullSubmission,
    contents: Mapping[str, bytes],
    links: Mapping[int, str],
    options: ProfileOptions,
) -> FullResult:
    """Return the FullResult of a profile: `profile.N` with report and trace for each case.

    `contents` maps names to files; cases in `links` are too large and get a download URL. If the
    options name one case, it is the only one.
    """
    result: FullResult = {**full_result(submission), "runs": {}}
    specs: list[str] = []
    files_by_index = files_by_case(submission)
    stages = (stage for stage in public_stages(submission) if stage.ours == "profile")
    for stage in stages:
        for index, case in enumerate(stage.cases):
            files, url = files_by_index.get(index, []), links.get(index)
            run = stage_result(
                submission, stage._replace(cases=[case], is_passed=case.verdict == "passed")
            )
            if (report := contents.get(_report_name(files))) is not None:
                text = report[:REPORT_BYTES_MAX].decode("utf-8", "replace")
                run["run"]["result"]["benchmark.0.report"] = _base64(text.encode())
            run["profile"] = {
                "profiler": _profiler_name(submission, files),
                "trace": "" if url or not files else _base64(build_archive(files, contents)),
                "download_url": url,
            }
            result["runs"][f"profile.{(options.benchmark_index or 0) + index}"] = run
            specs.append(terminal_text(case.name))
    result["profile_metadata"] = _profile_metadata(submission, specs, options)
    return result


def _profile_metadata(
    submission: FullSubmission, specs: Sequence[str], options: ProfileOptions
) -> ProfileMetadata:
    """Return what was profiled and how, with a fingerprint of all of it."""
    facts: dict[str, Any] = {
        "problem": submission.problem,
        "problem_version": submission.problem_version,
        "source_sha256": submission.source_digest or "",
        "harness_sha256": submission.environment.get(HARNESS_CODE, ""),
        "benchmarks": list(specs),
        "capture_options": options.given,
    }
    text = json.dumps(facts, sort_keys=True)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    return cast("ProfileMetadata", facts | {"config_sha256": fingerprint})


def _report_name(files: Sequence[File]) -> str:
    """Return the name of the file of a case that people read, or ""."""
    names = (file.name for end in REPORT_NAMES for file in files if file.name.endswith(end))
    return next(names, "")


def _profiler_name(submission: FullSubmission, files: Sequence[File]) -> str:
    if any(file.name.endswith(NCU_NAMES) for file in files):
        return "Nsight-Compute"
    return "rocPROF" if submission.gpu.startswith("MI") else "torch.profiler"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
