"""Check problems on this machine: inspect their own code and run each of their solutions."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.api.submissions import Progress, SubmissionRequest
from shared.clock import now
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.responses import Run, parse_response
from shared.problems.report import CheckReport, Finding, read_report
from warpboard.domain import checks
from warpboard.domain import solutions as solutions_service
from warpboard.domain.checks import CheckResult
from warpboard.domain.exit_codes import FAILED, OK
from warpboard.domain.solutions import HERE, Sample, Solutions, Trial, needed_gpus, sample_code
from warpboard.domain.tables import Table
from warpboard.screen import LiveProgress
from warpboard.service.compilation import (
    ProblemOptions,
    parse_manifest,
    problem_digest,
)
from warpboard.service.context import AppContext
from warpboard.service.ports import Disk, Harness, LocalRunTerms, ProblemFiles

# Checks every case; times do not matter here.
MODE = "verify"
# Increase this when checks change, so that earlier reports no longer count.
EDITION = 3
_NATIVE_START = ".cu"
_MODELS = "kernelbench"
_AS_ANSWER = b"\n\nModelNew = Model\n"


async def check(context: AppContext, options: ProblemOptions) -> int:
    """Compile each problem, inspect its code and run its solutions; return 1 if anything is wrong.

    Raises Refused for an invalid contest file, and Failed.
    """
    folders: list[Path] = []
    for path in options.folders:
        folders += [Path(entry.directory) for entry in context.disk.contest(path)] or [path]
    results: list[CheckResult] = []
    async with context.harness.warm() as warm:
        warm_context = replace(context, load_harness=lambda: warm)
        for folder in folders:
            result = await _check_folder(warm_context, folder, options)
            if options.is_strict:
                result = replace(result, findings=checks.promote_warnings(result.findings))
            results.append(result)
            if not context.as_json:
                context.show(None, [result.sentence, *(f"  {line}" for line in result.lines)])
    context.show(checks.document(results), _summary_tables(results))
    return OK if all(result.is_good for result in results) else FAILED


async def examine_problem(context: AppContext, folder: Path, problem: ProblemFiles) -> CheckResult:
    """Check a problem that compiles, and store the report. Raises Failed."""
    began = time.monotonic()
    solutions = _load_solutions(context.disk, folder, problem)
    with context.screen.live([problem.slug]) as live:
        examination = _Examination(context.harness, live, problem)
        findings, trial_results = await examination.run(solutions)
    code = context.harness.code()
    about = {"digest": problem_digest(problem), "harness": _harness(code)}
    report = checks.build_report(about, findings, trial_results, now(), examination.memory_mib)
    if all(finding.code != "machine" for finding in findings):
        context.reports.keep(_report_key(problem, solutions, code), report.model_dump_json())
    result = _build_result(folder, problem, report)
    return replace(result, trials=tuple(trial_results), took_s=time.monotonic() - began)


def load_known_check(
    context: AppContext, folder: Path, problem: ProblemFiles
) -> CheckResult | None:
    """Return an earlier check of the same version, harness and solutions.

    After an error the problem is checked again: a busy machine may have been the reason.
    """
    solutions = _load_solutions(context.disk, folder, problem)
    text = context.reports.found(_report_key(problem, solutions, context.harness.code()))
    if text is None:
        return None
    try:
        report = read_report(text)
    except Refused:
        return None
    is_valid = report.is_clean and report.digest == problem_digest(problem)
    return _build_result(folder, problem, report) if is_valid else None


async def _check_folder(context: AppContext, folder: Path, options: ProblemOptions) -> CheckResult:
    try:
        problem = context.disk.problem(folder, None, options.gpus)
    except Refused as refused:
        return CheckResult(folder.name, str(folder), (checks.refusal_finding(refused),))
    return await examine_problem(context, folder, problem)


def _build_result(folder: Path, problem: ProblemFiles, report: CheckReport) -> CheckResult:
    return CheckResult(
        problem.slug,
        str(folder),
        tuple(report.findings),
        report,
        files=len(problem.version_files),
        ranking_by=problem.ranking_by,
    )


def _summary_tables(results: list[CheckResult]) -> Iterator[Table]:
    """Yield one problem by file; of several, the summary and the unexpected ends."""
    trial_results = [trial for result in results for trial in result.trials]
    if len(results) > 1:
        yield checks.summary_table(results)
        trial_results = [
            trial for trial in trial_results if trial.is_shown and not trial.is_expected
        ]
    if trial_results:
        yield solutions_service.trial_table(trial_results)


def _load_solutions(disk: Disk, folder: Path, problem: ProblemFiles) -> Solutions:
    """Return the stored solutions; a model that is its own reference counts as one."""
    solutions = disk.samples(folder, problem.slug)
    if solutions.correct or parse_manifest(problem).get("form") != _MODELS:
        return solutions
    text = problem.version_files["reference.py"] + _AS_ANSWER
    return replace(solutions, correct=(Sample("reference.py", text),))


def _harness(code: Mapping[str, Any]) -> str:
    return f"{code['version']} {code['digest'][:16]}"


def _report_key(problem: ProblemFiles, solutions: Solutions, code: Mapping[str, Any]) -> str:
    """Return a digest of everything on which a report depends."""
    pairs = [*(("correct", sample) for sample in solutions.correct)]
    pairs += [("wrong", sample) for sample in solutions.wrong]
    files = [
        [kind, sample.name, hashlib.sha256(sample.source).hexdigest()] for kind, sample in pairs
    ]
    key_parts = json.dumps([EDITION, problem_digest(problem), code["digest"], files])
    return hashlib.sha256(key_parts.encode()).hexdigest()


class _Examination:
    """The check of one problem, part by part."""

    def __init__(self, harness: Harness, live: LiveProgress, problem: ProblemFiles) -> None:
        self._harness = harness
        self._live = live
        self._problem = problem
        self._manifest = parse_manifest(problem)
        self.memory_mib = 0

    async def run(self, solutions: Solutions) -> tuple[list[Finding], list[Trial]]:
        """Return the findings, and how the solutions ended. Raises Failed."""
        warnings = self._problem.warnings
        findings = [
            checks.create_finding("schema_warning", "warning", "its files", x) for x in warnings
        ]
        self._show_progress("its own code", 0, 1)
        answer = await self._harness.inspect(self._problem)
        inspected, gpus = checks.inspection_findings(answer), self._manifest["gpus"]
        self.memory_mib = checks.memory_mib(answer, gpus)
        findings += checks.soften_findings(inspected, gpus)
        if checks.is_broken(inspected):
            # The solutions would fail or hang like the problem's own code.
            return findings, []
        trial_results = await self._run_trials(solutions)
        trial_results += [
            await self._run_baseline(baseline, solutions, trial_results)
            for baseline in self._list_baselines()
        ]
        findings += checks.trial_findings(trial_results)
        for name in sorted(set(self._manifest["templates"].values())):
            findings += await self._check_template(name)
        return findings, trial_results

    async def _run_trials(self, solutions: Solutions) -> list[Trial]:
        samples = [(solution, True) for solution in solutions.correct]
        samples += [(solution, False) for solution in solutions.wrong]
        trial_results = []
        for index, (sample, must_pass) in enumerate(samples):
            self._show_progress(sample.name, index, len(samples))
            trial_results.append(await self._run_trial(sample, must_pass=must_pass))
        return trial_results

    async def _run_trial(self, sample: Sample, *, must_pass: bool) -> Trial:
        slug = self._problem.slug
        if gpus := needed_gpus(sample):
            reason = f"needs a GPU: {', '.join(gpus)}"
            return Trial(slug, sample.name, must_pass, "", reason, is_shown=False)
        run, failure = await self._run_file(sample, MODE)
        verdict, reason = run.verdict or "", run.reason or ""
        trial = Trial(slug, sample.name, must_pass, verdict, reason, failure=failure)
        gpus = self._manifest["gpus"]
        return trial if HERE in gpus else solutions_service.hide_gpu_verdict(trial, gpus)

    def _list_baselines(self) -> list[Sample]:
        """Return the baselines under the paths that the problem gives them."""
        names = [baseline["file"] for baseline in self._manifest.get("baselines", ())]
        return [Sample(name, self._problem.files[name]) for name in dict.fromkeys(names)]

    async def _run_baseline(
        self, baseline: Sample, solutions: Solutions, trial_results: list[Trial]
    ) -> Trial:
        """Run a baseline; one that is also a correct solution reuses that result."""
        for sample, trial in zip(solutions.correct, trial_results, strict=False):
            if sample_code(sample) == sample_code(baseline) and needed_gpus(sample) == needed_gpus(
                baseline
            ):
                return replace(trial, file=baseline.name, is_baseline=True)
        self._show_progress(baseline.name, 0, 1)
        return replace(await self._run_trial(baseline, must_pass=True), is_baseline=True)

    async def _check_template(self, name: str) -> Sequence[Finding]:
        """Check a template; templates in CUDA are skipped on a machine without a GPU."""
        if name.endswith(_NATIVE_START) and self._manifest.get("lang", "py") == "py":
            return []
        sample = Sample(name, self._problem.version_files[name])
        if needed_gpus(sample):
            return []
        self._show_progress(name, 0, 1)
        run, _ = await self._run_file(sample, "test")
        findings = checks.template_findings(name, run.verdict or "", run.reason or "")
        return checks.soften_findings(findings, self._manifest["gpus"])

    async def _run_file(self, sample: Sample, mode: str) -> tuple[Run, str]:
        """Run a file; return its end and the harness's failure code, if it has no verdict."""
        request = SubmissionRequest(sample.name, sample.source, self._problem.slug, mode)
        answer = await self._harness.run(self._problem, request, _ignore_progress, LocalRunTerms())
        return parse_response(answer, Run), answer.get("failure_code", "")

    def _show_progress(self, part: str, done: int, total: int) -> None:
        progress = ProgressText("checking", done, total, estimate=f": {part}")
        self._live.show(self._problem.slug, progress)


async def _ignore_progress(_: Progress) -> None:
    """Ignore the progress of a single solution, which ends too soon to show it."""
