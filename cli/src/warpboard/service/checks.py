"""Check problems on this machine: inspect their own code and run each of their solutions."""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.vocabulary import CPU_TYPE
from shared.api.fields import parse_response
from shared.api.submissions import Progress, SubmissionRequest
from shared.clock import now
from shared.errors import Refused
from shared.presentation.outcome import Run
from shared.presentation.report_parts import ProgressText, run_progress
from shared.problems import flashinfer
from shared.problems.kernelbench import AS_ANSWER
from shared.problems.report import CheckReport, Finding, read_report
from warpboard.context import AppContext
from warpboard.domain import checks
from warpboard.domain.checks import (
    CheckResult,
    Sample,
    Solutions,
    Trial,
    hide_gpu_verdict,
    needed_gpus,
    sample_code,
    trial_table,
)
from warpboard.domain.output import FAILED, OK, REFUSED, Table
from warpboard.files import (
    FileStates,
    ProblemFiles,
    list_problems,
    load_problem,
    load_solutions,
    read_file_states,
)
from warpboard.local_run import LocalHarness
from warpboard.service.ranked_sizes import inspect_ranked_sizes

# Checks every case; times do not matter here.
MODE = "verify"
# How often `watch` looks for changed files.
POLL_S = 0.5
# Increase this when checks change, so that earlier reports no longer count.
EDITION = 5
_NATIVE_START = ".cu"
_MODELS = "kernelbench"


async def check(
    context: AppContext, paths: Sequence[Path], gpus: tuple[str, ...], *, is_strict: bool
) -> int:
    """Compile each problem, inspect its code and run its solutions; return 1 if anything is wrong.

    With `is_strict` warnings are errors. Raises Refused for an invalid contest file, and Failed.
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

    An invalid contest file is reported like an invalid problem.
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
        examination = _Examination(harness, partial(show, problem.slug), problem, place)
        findings, trials = await examination.run(solutions)
    tested_gpus = checks.tested_gpus(trials, problem.gpus)
    findings += checks.untested_findings(findings, tested_gpus, problem.gpus)
    code = harness.code()
    report = checks.build_report(
        problem.digest,
        f"{code['version']} {code['digest'][:16]}",
        findings,
        trials,
        at=now(),
        needed_mib=examination.memory_mib,
        tested_gpus=tested_gpus,
    )
    if all(finding.code != "machine" for finding in findings):
        key = _report_key(problem, solutions, code["digest"])
        context.reports.keep(key, report.model_dump_json())
    result = _build_result(folder, problem, report)
    return replace(result, trials=tuple(trials), took_s=time.monotonic() - began)


async def find_faults(
    harness: LocalHarness, problem: ProblemFiles, solutions: Solutions
) -> list[Finding]:
    """Check a problem with these solutions, and return its findings only. Raises Failed."""
    findings, _ = await _Examination(harness, lambda _: None, problem, "").run(solutions)
    return findings


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
    """Return the stored solutions; a model, or the reference of a definition, counts as one."""
    solutions = load_solutions(folder, problem.slug)
    if solutions.correct:
        return solutions
    if problem.parse_manifest().get("form") == _MODELS:
        text = problem.version_files["reference.py"] + AS_ANSWER
    elif flashinfer.CODE in problem.version_files:
        text = flashinfer.reference_solution(problem.version_files[flashinfer.CODE])
    else:
        return solutions
    return replace(solutions, correct=(Sample("reference.py", text),))


def _report_key(problem: ProblemFiles, solutions: Solutions, harness_digest: str) -> str:
    files = [
        [kind, sample.name, hashlib.sha256(sample.source).hexdigest()]
        for kind, samples in (("correct", solutions.correct), ("wrong", solutions.wrong))
        for sample in samples
    ]
    key_parts = json.dumps([EDITION, problem.digest, problem.gpus, harness_digest, files])
    return hashlib.sha256(key_parts.encode()).hexdigest()


class _Examination:
    """The check of one problem, part by part."""

    def __init__(
        self,
        harness: LocalHarness,
        show: Callable[[ProgressText], None],
        problem: ProblemFiles,
        place: str,
    ) -> None:
        self._harness = harness
        self._sentence = f"checking{place}"
        self._show = show
        self._problem = problem
        self._manifest: Any = problem.parse_manifest()
        self.memory_mib = 0
        self._files_done = self._files_total = 0

    async def run(self, solutions: Solutions) -> tuple[list[Finding], list[Trial]]:
        """Return the findings, and how the solutions ended. Raises Failed."""
        findings = [
            checks.create_finding("schema_warning", "warning", "its files", warning)
            for warning in self._problem.warnings
        ]
        self._show(ProgressText(self._sentence, estimate=": its own code"))
        answer = await self._harness.inspect(self._problem, self._show_inspection)
        inspected, gpus = checks.inspection_findings(answer), self._problem.gpus
        self.memory_mib = checks.memory_mib(answer, gpus)
        findings += checks.soften_findings(inspected, gpus)
        findings += await inspect_ranked_sizes(
            self._harness, self._problem, answer, self._show_inspection
        )
        if checks.is_broken(inspected):
            # The solutions would fail or hang like the problem's own code.
            return findings, []
        samples = [(sample, True) for sample in solutions.correct]
        samples += [(sample, False) for sample in solutions.wrong]
        # Those of a model or a definition are written from it, and it is a correct solution.
        named = [item["file"] for item in self._manifest.get("baselines", ())]
        baselines = [name for name in dict.fromkeys(named) if name in self._problem.files]
        templates = sorted(set(self._manifest["templates"].values()))
        # And the yardstick.
        self._files_total = len(samples) + len(baselines) + len(templates) + 1
        trials = []
        for sample, must_pass in samples:
            self._show_file(sample.name)
            trials.append(await self._run_trial(sample, must_pass=must_pass))
        for name in baselines:
            self._show_file(name)
            # A baseline has the path that the problem gives it.
            baseline = Sample(name, self._problem.files[name])
            trials.append(await self._run_baseline(baseline, solutions.correct, trials))
        findings += checks.trial_findings(trials)
        for name in templates:
            self._show_file(name)
            findings += await self._check_template(name)
        if not any(finding.level == "error" for finding in findings):
            findings += await self._check_yardstick(solutions.correct, trials)
        return findings, trials

    async def _run_trial(self, sample: Sample, *, must_pass: bool) -> Trial:
        slug, gpus = self._problem.slug, self._problem.gpus
        if needed := needed_gpus(sample):
            reason = f"needs a GPU: {', '.join(needed)}"
            return Trial(slug, sample.name, must_pass, "", reason, is_shown=False)
        run, failure = await self._run_file(sample, MODE)
        verdict, reason = run.verdict or "", run.reason or ""
        trial = Trial(slug, sample.name, must_pass, verdict, reason, failure=failure)
        return trial if CPU_TYPE in gpus else hide_gpu_verdict(trial, gpus)

    async def _run_baseline(
        self, baseline: Sample, correct: Sequence[Sample], trials: Sequence[Trial]
    ) -> Trial:
        """Run a baseline; one that is also a correct solution reuses that result."""
        for sample, trial in zip(correct, trials, strict=False):
            if (sample_code(sample), needed_gpus(sample)) == (
                sample_code(baseline),
                needed_gpus(baseline),
            ):
                return replace(trial, file=baseline.name, is_baseline=True)
        return replace(await self._run_trial(baseline, must_pass=True), is_baseline=True)

    async def _check_template(self, name: str) -> list[Finding]:
        """Check a template; templates in CUDA are skipped on a machine without a GPU."""
        if name.endswith(_NATIVE_START) and self._manifest.get("lang", "py") == "py":
            return []
        sample = Sample(name, self._problem.version_files[name])
        if needed_gpus(sample):
            return []
        run, _ = await self._run_file(sample, "test")
        findings = checks.template_findings(name, run.verdict or "", run.reason or "")
        return checks.soften_findings(findings, self._problem.gpus)

    async def _check_yardstick(
        self, correct: Sequence[Sample], trials: Sequence[Trial]
    ) -> list[Finding]:
        """Time a correct solution that has passed, with the yardstick beside it."""
        solution = next(
            (sample for sample, trial in zip(correct, trials, strict=False) if trial.has_passed),
            None,
        )
        if solution is None or "main" in self._manifest:
            return []
        self._show_file("the yardstick")
        request = SubmissionRequest(solution.name, solution.source, self._problem.slug, "benchmark")
        answer = await self._harness.run(self._problem, request)
        findings = checks.yardstick_findings(answer, solution.name)
        return checks.soften_findings(findings, self._problem.gpus)

    async def _run_file(self, sample: Sample, mode: str) -> tuple[Run, str]:
        """Run a file; return its end and the harness's failure code, if it has no verdict."""
        request = SubmissionRequest(sample.name, sample.source, self._problem.slug, mode)
        answer = await self._harness.run(self._problem, request)
        return parse_response(answer, Run), answer.get("failure_code", "")

    async def _show_inspection(self, progress: Progress) -> None:
        part = f": its own code, {run_progress(progress).sentence}"
        self._show(ProgressText(self._sentence, progress.done, progress.total, estimate=part))

    def _show_file(self, name: str) -> None:
        """Show that a file of the problem is about to run."""
        total = self._files_total
        part = f": file {self._files_done + 1} of {total}: {name}"
        self._show(ProgressText(self._sentence, self._files_done, total, estimate=part))
        self._files_done += 1
