"""A run by a problem's own program in the sandbox: the compatibility mode.

The submission shares a process with what judges and times it. So its tier is G0, as for every
clock that a submission can reach, and its times rank only if an operator allows it. The submission
may also have written all that the program reports through POPCORN_FD: lines of `key: value`.
"""

import base64
import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness import messages
from harness.build import teams
from harness.build.plan import adapt_tools, read_memory
from harness.build.teams import IMPORT, Machine, StageBudget, WorkerSetup, WorkerTeams
from harness.check.inputs import derive_seed, measure_available_memory
from harness.devices.access import find_device_access
from harness.devices.device import describe_machine, reserve_core, split_cores
from harness.messages import (
    Artefact,
    CaseFailed,
    CaseReport,
    Progress,
    RunRequest,
    failed_case_report,
    make_printable,
    status_failure,
)
from harness.problem import Case, ProblemFault, RunDirectory
from harness.supervisor.run import Run, Tell
from harness.vocabulary import MODES, STAGES

LINES_BYTES_MAX = 4 * 1024 * 1024
# Exit codes of a correct program whose problem is at fault; a submission can use them too.
EXIT_CODES_OF_THE_PROBLEM = {
    2: "it does not understand its arguments",
    111: "it found no descriptor",
    113: "it could not read the cases",
}
EXIT_WRONG = 112
EXIT_CUDA = 110

_LINE = re.compile(r"([a-z-]+(?:\.[0-9]{1,4}\.[a-z]+)?): (.*)")
_Z_95 = 1.96
# Values outside this range are not times, and may not fit a report.
_TIME_US_MIN, _TIME_US_MAX = 1e-6, 1e12

_FIGURES = ("runs", "mean", "std", "err", "best", "worst")

TIER = "G0"
_OLDEST_ARCHITECTURE = "compute_75"
_CHUNK_BYTES = 64 * 1024
_STATUS_BYTES_MAX = 16
_DRAIN_S = 10.0
_SEED_BITS = 31


def parse_lines(data: bytes) -> dict[str, str]:
    r"""Return the lines by key; lines of another form are ignored.

    Raises CaseFailed `protocol` if a key occurs twice: the second could be the submission's.

    >>> parse_lines(b"test-count: 1\ntest.0.status: pass\nnonsense\n")
    {'test-count': '1', 'test.0.status': 'pass'}
    """
    if len(data) > LINES_BYTES_MAX:
        raise CaseFailed("output_limit", f"more than {LINES_BYTES_MAX} bytes were reported")
    values: dict[str, str] = {}
    for line in data.decode(errors="replace").splitlines():
        if not (match := _LINE.fullmatch(line)):
            continue
        if match[1] in values:
            raise CaseFailed("protocol", f"the key {match[1]!r} was reported twice")
        values[match[1]] = match[2]
    return values


def format_cases(cases: Sequence[Case]) -> str:
    r"""Format cases as such a program reads them, one per line.

    >>> format_cases([Case("", {"size": 4, "kind": "flat", "on": 1})])
    'size: 4; kind: flat; on: 1\n'
    """
    lines = ["; ".join(f"{key}: {value}" for key, value in case.args.items()) for case in cases]
    return "".join(f"{line}\n" for line in lines)


def make_case_reports(
    stage: str, cases: Sequence[Case], values: Mapping[str, str], status: int
) -> list[CaseReport]:
    """Report how each case ended, from the program's output and exit status.

    Raises CaseFailed if the program died, or exited with a status that blames itself. If that
    counted as the problem's fault, a submission could exit so and get its quota back for ever.
    Raises ProblemFault if it exited normally and reported an `error` but no wrong case, which means
    that the machine lacks a device. A submission can do this too: it gets its quota back, and no
    verdict.
    """
    if reason := EXIT_CODES_OF_THE_PROBLEM.get(status):
        message = f"the problem's own program ended with code {status}: {reason}"
        raise CaseFailed("crashed", f"{message}; if you did not end it, tell the problem's author")
    if status == EXIT_CUDA:
        raise CaseFailed("crashed", "a call of CUDA failed")
    if status not in (0, EXIT_WRONG):
        raise status_failure(status)
    prefix = "benchmark" if stage in ("time", "profile") else "test"
    reports = [_case_report(stage, case, prefix, index, values) for index, case in enumerate(cases)]
    if any(report.verdict == "wrong_answer" for report in reports):
        return reports
    if status == 0 and values.get("check") == "pass":
        return _require_all_passed(reports)
    if "error" in values:
        error = make_printable(values["error"])
        raise ProblemFault(f"the problem's own program could not judge: {error}")
    if values.get("check") == "fail" or status == EXIT_WRONG:
        raise CaseFailed("wrong_answer", "the problem's own check failed")
    raise CaseFailed("protocol", "it did not report how its check ended")


def extract_profiles(values: Mapping[str, str], count: int) -> dict[str, bytes]:
    """Return the report of each profiled case, by file name.

    In the program's base64, a `*` may stand for the `/`. Raises CaseFailed `protocol` if a report
    is not base64.

    >>> extract_profiles({"benchmark.0.report": "Pz8*"}, 1)
    {'profile-0-report.txt': b'???'}
    """
    profiles = {}
    for index in range(count):
        text = values.get(f"benchmark.{index}.report", "").replace("*", "/")
        try:
            profiles[f"profile-{index}-report.txt"] = base64.b64decode(text, validate=True)
        except ValueError:
            raise CaseFailed("protocol", f"the profile of case {index} is not base64") from None
    return profiles


def _require_all_passed(reports: list[CaseReport]) -> list[CaseReport]:
    for report in reports:
        if report.verdict != "passed":
            raise CaseFailed("protocol", f"it reported nothing about {report.name}")
    return reports


def _case_report(
    stage: str, case: Case, prefix: str, index: int, values: Mapping[str, str]
) -> CaseReport:
    key_prefix = f"{prefix}.{index}."
    if values.get(key_prefix + "status") == "fail":
        reason = values.get(key_prefix + "error", "the problem's own check failed")
        return failed_case_report(case.name, stage, CaseFailed("wrong_answer", reason))
    if stage == "profile":
        verdict = "passed" if key_prefix + "report" in values else "skipped"
        return CaseReport(case.name, stage, verdict)
    if prefix == "benchmark":
        return _timed_report(case, {key: values.get(key_prefix + key, "") for key in _FIGURES})
    if values.get(key_prefix + "status") == "pass":
        message = make_printable(values.get(key_prefix + "message", ""))
        return CaseReport(case.name, stage, "passed", message)
    return CaseReport(case.name, stage, "skipped")


def _timed_report(case: Case, values: Mapping[str, str]) -> CaseReport:
    """Report a time of the program: nanoseconds, taken in the submission's own process."""
    if not any(values.values()):
        return CaseReport(case.name, "time", "skipped")
    try:
        runs, *times = (float(values[key] or "nan") for key in _FIGURES)
    except ValueError:
        raise CaseFailed("protocol", f"a time of {case.name} is not a number") from None
    mean, std, err, best, worst = (time / 1000 for time in times)
    if not (_TIME_US_MIN <= mean <= _TIME_US_MAX and 1 <= runs < 1e9):
        reason = f"the time of {case.name} is out of range: {values['mean'][:40]!r}"
        raise CaseFailed("protocol", reason)
    std_error = err if 0 <= err <= _TIME_US_MAX else 0.0
    figures = {"mean_us": mean, "std_us": std, "best_us": best, "worst_us": worst}
    return CaseReport(
        case.name,
        "time",
        "passed",
        time_us=mean,
        interval_us=(mean - _Z_95 * std_error, mean + _Z_95 * std_error),
        samples=int(runs),
        process_us=[mean],
        error=std_error / mean,
        freedom=max(0, int(runs) - 1),
        grade="in_process",
        statistics={key: value for key, value in figures.items() if math.isfinite(value)},
    )


class ProgramRun(Run):
    """One run: each stage calls the program once in its own box."""

    def __init__(
        self, request: RunRequest, directory: RunDirectory, machine: Machine, tell: Tell
    ) -> None:
        super().__init__(request, directory, machine, tell)
        access = find_device_access(request.device, directory.problem.ranks, request.gpus)
        if request.device == "cpu":
            measure_available_memory(directory.problem, access.limits, self._machine.slots)
        # The GPU is not opened here, so this builds for the oldest; loading adapts the code.
        architecture = _OLDEST_ARCHITECTURE if request.device == "cuda" else ""
        build_tools = adapt_tools(machine.build_tools, architecture)
        cores, build_cores = reserve_core(machine.slot, machine.slots), list[int]()
        if request.device != "cpu":
            cores, build_cores = split_cores(cores, machine.slots - 1)
        adapted = replace(self._machine, build_tools=build_tools)
        setup = WorkerSetup(adapted, cores, access, tuple(build_cores))
        self.worker_teams = WorkerTeams(setup, directory, request.mode, 1, pause=self._give_way)
        self._program: tuple[int, ...] = ()

    def _describe_clock(self) -> tuple[str, dict[str, str]]:
        return TIER, describe_machine()

    def _run_stage(self, stage: str, budget: StageBudget) -> list[CaseReport]:
        mode = self._request.mode
        cases = self._problem.cases(stage, mode, self._request.case) if stage != "build" else ()
        if cases:
            self._report_progress(Progress(stage, cases[0].name, 0, len(cases)))
        try:
            reports = self._run_program(stage, cases, budget.left_s)
        except CaseFailed as failure:
            first = cases[0].name if cases else ""
            reports = [messages.failed_case_report(first, stage, failure)]
            reports += [CaseReport(skipped.name, stage, "skipped") for skipped in cases[1:]]
        return list(map(messages.hide_details, reports)) if STAGES[stage].is_hidden else reports

    def _run_program(self, stage: str, cases: Sequence[Case], limit_s: float) -> list[CaseReport]:
        scratch, name = self.worker_teams.scratch(), self._problem.submission
        order: dict[str, object] = {"scratch": scratch, "submission": name}
        if stage == "build":
            if self._problem.lang == "cu":
                self._program = teams.build_program(self.worker_teams, limit_s)
            else:
                self._hold_device()
                self._start_program(order | {"must_import": "yes"}, IMPORT, limit_s)
            return []
        seed = derive_seed(self._key, "popcorn", "", 0, _SEED_BITS)
        is_secret = self._request.mode == "ranked" and stage != "check"
        environment = {"POPCORN_SEED": str(seed)} if is_secret else {}
        if self._problem.ranks > 1:
            environment["POPCORN_GPUS"] = str(self._problem.ranks)
        mode = STAGES[stage].public_mode or MODES[self._request.mode].public_mode
        order |= {"mode": mode, "main": self._problem.main}
        order |= {"cases": format_cases(cases), "environment": environment}
        reported, status = self._start_program(order, f"the program in {stage}", limit_s)
        report = parse_lines(reported)
        reports = make_case_reports(stage, cases, report, status)
        if stage == "profile":
            # Nothing here parses these files.
            for name, data in extract_profiles(report, len(cases)).items():
                text = messages.escape_controls(data)
                self._directory.keep(name, text)
                self._artefacts.append(Artefact(name, "text/plain", len(text)))
        return reports

    def _start_program(
        self, order: dict[str, object], part: str, limit_s: float
    ) -> tuple[bytes, int]:
        """Return what the program reported and its exit status. Raises CaseFailed."""
        read_end, write_end = os.pipe()
        status_memory = os.memfd_create("ended", os.MFD_CLOEXEC)
        # Read the pipe while the program runs: a full pipe would block it.
        drain = _Drain(read_end)
        try:
            try:
                descriptors = (write_end, status_memory, *self._program)
                team = self.worker_teams.start_popcorn({"popcorn": order}, descriptors)
            finally:
                os.close(write_end)
            self.worker_teams.wait_until_ready(team, part, limit_s)
            team.end()
            drain.join(_DRAIN_S)
            status = read_memory(status_memory, _STATUS_BYTES_MAX)
        finally:
            os.close(status_memory)
        try:
            # The box reports it, so it is not trusted.
            return drain.data, int(status or b"0")
        except ValueError:
            raise CaseFailed("protocol", "the program's exit status is not a number") from None


class _Drain(threading.Thread):
    """Reads a pipe to its end and keeps at most LINES_BYTES_MAX + 1 bytes."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self.data = b""
        self.start()

    def run(self) -> None:
        while chunk := os.read(self._descriptor, _CHUNK_BYTES):
            room = LINES_BYTES_MAX + 1 - len(self.data)
            self.data += chunk[:room]
        os.close(self._descriptor)
