"""Check problems on this machine: inspect their own code and run each of their solutions."""

import asyncio
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.vocabulary import CPU_DEVICE
from shared.api.submissions import Progress
from shared.checks.examination import Machine, add_reference, check_progress, examine
from shared.checks.findings import MACHINE_FINDING
from shared.checks.problem_files import ProblemFiles, Solutions
from shared.clock import now
from shared.errors import Refused
from shared.problem_versions import load_problem
from shared.problems.report import CheckReport, Finding, read_report
from warpboard.context import AppContext
from warpboard.domain import checks
from warpboard.domain.checks import CheckResult, trial_table
from warpboard.domain.output import FAILED, OK, REFUSED, Table
from warpboard.files import (
    FileStates,
    list_problems,
    load_solutions,
    read_file_states,
)
from warpboard.local_run import LocalHarness

# How often `watch` looks for changed files.
POLL_S = 0.5
# Increase this when checks change, so that earlier reports no longer count.
EDITION = 6


async def check(
    context: AppContext, paths: Sequence[Path], gpus: tuple[str, ...], *, is_strict: bool
) -> int:
    """Compile each problem, inspect its code and run its solutions; return 1 if anything is wrong.

    With `is_strict` warnings are errors. Raises Refused for an invalid competition file, and
    Failed.
    """
    async with context.harness.warm() as harness:
        results = await _check_paths(context, harness, paths, gpus, is_strict=is_strict)
    context.show(checks.document(results), _result_tables(results))
    return _exit_code(results)


async def watch(
    context: AppContext, paths: Sequence[Path], gpus: tuple[str, ...], *, is_strict: bool
) -> int:
    """Check as `check` does, and again whenever a file changes, until this is cancelled.

    Return the exit code of the last check; cancelled before the first has ended, raise
    CancelledError. Raises Failed.
    """
    code: int | None = None
    task = asyncio.current_task()
    async with context.harness.warm() as harness:
        try:
            while True:
                # A file that changes during the check is checked again.
                states = read_file_states(paths)
                code = await _check_once(context, harness, paths, gpus, is_strict=is_strict)
                context.screen.note("waiting for changes; Ctrl-C ends")
                changes = await _wait_for_changes(paths, states)
                context.screen.note(f"{changes}: checking again")
        except asyncio.CancelledError:
            if code is None or task is None:
                raise
            task.uncancel()
    return code


async def _check_once(
    context: AppContext,
    harness: LocalHarness,
    paths: Sequence[Path],
    gpus: tuple[str, ...],
    *,
    is_strict: bool,
) -> int:
    """Check the problems and print the results; return the exit code.

    An invalid competition file is reported like an invalid problem.
    """
    try:
        results = await _check_paths(context, harness, paths, gpus, is_strict=is_strict)
    except Refused as refused:
        context.screen.note(f"error: {refused.reason}")
        return REFUSED
    if context.as_json:
        context.screen.json_line(checks.document(results))
    else:
        context.show(None, _result_tables(results))
    return _exit_code(results)


async def _wait_for_changes(paths: Sequence[Path], states: FileStates) -> str:
    """Wait until files differ from these states and stay the same for a moment; describe it."""
    previous = states
    while True:
        await asyncio.sleep(POLL_S)
        current = read_file_states(paths)
        if current == previous != states:
            return checks.changes_text(states, current)
        previous = current


async def _check_paths(
    context: AppContext,
    harness: LocalHarness,
    paths: Sequence[Path],
    gpus: tuple[str, ...],
    *,
    is_strict: bool,
) -> list[CheckResult]:
    """Check the problems of all paths, and print a line for each and its findings."""
    results: list[CheckResult] = []
    folders = list_problems(paths)
    for index, folder in enumerate(folders):
        try:
            problem = load_problem(folder, None, gpus)
        except Refused as refused:
            finding = checks.refusal_finding(refused)
            result = CheckResult(folder.resolve().name, str(folder), (finding,))
        else:
            place = f" problem {index + 1} of {len(folders)}" if len(folders) > 1 else ""
            result = await examine_problem(context, harness, folder, problem, place)
        if is_strict:
            result = replace(result, findings=checks.promote_warnings(result.findings))
        results.append(result)
        if not context.as_json:
            context.show(None, [result.sentence, *(f"  {line}" for line in result.lines)])
    return results


def _result_tables(results: Sequence[CheckResult]) -> list[Table]:
    # Of several problems, only unexpected ends are listed by file.
    trials = [trial for result in results for trial in result.trials]
    if len(results) > 1:
        trials = [trial for trial in trials if trial.is_shown and not trial.is_expected]
    tables = [checks.summary_table(results)] if len(results) > 1 else []
    return tables + ([trial_table(trials)] if trials else [])


def _exit_code(results: Sequence[CheckResult]) -> int:
    return OK if all(result.is_good for result in results) else FAILED


async def examine_problem(
    context: AppContext, harness: LocalHarness, folder: Path, problem: ProblemFiles, place: str = ""
) -> CheckResult:
    """Check a problem that compiles, and store the report. Raises Failed.

    `place` is shown with the progress, such as " problem 2 of 5".
    """
    began = time.monotonic()
    solutions = _load_solutions(folder, problem)
    with context.screen.live([problem.slug]) as show:

        async def show_progress(progress: Progress) -> None:
            show(problem.slug, check_progress(progress, f"checking{place}"))

        examined = await examine(harness, problem, solutions, show_progress)
    code = harness.code()
    machine = Machine(f"{code['version']} {code['digest'][:16]}", CPU_DEVICE, harness.gpu)
    report = examined.report(problem, machine, now())
    if all(finding.code != MACHINE_FINDING for finding in report.findings):
        key = _report_key(problem, solutions, code["digest"])
        context.reports.keep(key, report.model_dump_json())
    result = _build_result(folder, problem, report)
    return replace(result, trials=tuple(examined.trials), took_s=time.monotonic() - began)


async def find_faults(
    harness: LocalHarness, problem: ProblemFiles, solutions: Solutions
) -> list[Finding]:
    """Check a problem with these solutions, and return its findings only. Raises Failed."""

    async def ignore_progress(_: Progress) -> None:
        """Show nothing."""

    return (await examine(harness, problem, solutions, ignore_progress)).findings


def load_known_check(
    context: AppContext, folder: Path, problem: ProblemFiles
) -> CheckResult | None:
    """Return an earlier check of the same version, harness and solutions.

    After an error the problem is checked again: a busy machine may have been the reason.
    """
    solutions = _load_solutions(folder, problem)
    key = _report_key(problem, solutions, context.harness.code()["digest"])
    text = context.reports.found(key)
    try:
        report = None if text is None else read_report(text)
    except Refused:
        return None
    is_valid = report is not None and report.is_clean and report.digest == problem.digest
    return _build_result(folder, problem, report) if report and is_valid else None


def _build_result(folder: Path, problem: ProblemFiles, report: CheckReport) -> CheckResult:
    return CheckResult(
        problem.slug,
        str(folder),
        tuple(report.findings),
        report,
        files=len(problem.version_files),
        ranking_by=problem.ranking_by,
    )


def _load_solutions(folder: Path, problem: ProblemFiles) -> Solutions:
    """Return the stored solutions, or the reference where it counts as one."""
    return add_reference(problem, load_solutions(folder, problem.slug))


def _report_key(problem: ProblemFiles, solutions: Solutions, harness_digest: str) -> str:
    files = [[path, hashlib.sha256(data).hexdigest()] for path, data in solutions.files.items()]
    key_parts = json.dumps([EDITION, problem.digest, problem.gpus, harness_digest, files])
    return hashlib.sha256(key_parts.encode()).hexdigest()
