"""Check problems on this machine: inspect their own code and run each of their solutions."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shared.api.submissions import SubmissionRequest
from shared.clock import now
from shared.errors import Refused
from shared.presentation.report_parts import ProgressText
from shared.presentation.responses import Run, parse_response
from shared.problems.report import CheckReport, Finding, read_report
from warpboard.context import AppContext
from warpboard.domain import checks
from warpboard.domain.checks import CheckResult
from warpboard.domain.exit_codes import FAILED, OK
from warpboard.domain.solutions import (
    HERE,
    Sample,
    Solutions,
    Trial,
    hide_gpu_verdict,
    needed_gpus,
    sample_code,
    trial_table,
)
from warpboard.files import ProblemFiles, load_contest, load_problem, load_solutions
from warpboard.local_run import LocalHarness
from warpboard.screen import ShowProgress

# Checks every case; times do not matter here.
MODE = "verify"
# Increase this when checks change, so that earlier reports no longer count.
EDITION = 3
_NATIVE_START = ".cu"
_MODELS = "kernelbench"
_AS_ANSWER = b"\n\nModelNew = Model\n"


async def check(
    context: AppContext, paths: Sequence[Path], gpus: tuple[str, ...], *, is_strict: bool
) -> int:
    """Compile each problem, inspect its code and run its solutions; return 1 if anything is wrong.

    With `is_strict` warnings are errors. Raises Refused for an invalid contest file, and Failed.
    """
    folders: list[Path] = []
    for path in paths:
        folders += [Path(entry.directory) for entry in load_contest(path)] or [path]
    results: list[CheckResult] = []
    async with context.harness.warm() as harness:
        for folder in folders:
            try:
                problem = load_problem(folder, None, gpus)
            except Refused as refused:
                finding = checks.refusal_finding(refused)
                result = CheckResult(folder.name, str(folder), (finding,))
            else:
                result = await examine_problem(context, harness, folder, problem)
            if is_strict:
                result = replace(result, findings=checks.promote_warnings(result.findings))
            results.append(result)
            if not context.as_json:
                context.show(None, [result.sentence, *(f"  {line}" for line in result.lines)])
    # Of several problems, only unexpected ends are listed by file.
    trials = [trial for result in results for trial in result.trials]
    if len(results) > 1:
        trials = [trial for trial in trials if trial.is_shown and not trial.is_expected]
    tables = [checks.summary_table(results)] if len(results) > 1 else []
    tables += [trial_table(trials)] if trials else []
    context.show(checks.document(results), tables)
    return OK if all(result.is_good for result in results) else FAILED


async def examine_problem(
    context: AppContext, harness: LocalHarness, folder: Path, problem: ProblemFiles
) -> CheckResult:
    """Check a problem that compiles, and store the report. Raises Failed."""
    began = time.monotonic()
    solutions = _load_solutions(folder, problem)
    with context.screen.live([problem.slug]) as show:
        examination = _Examination(harness, show, problem)
        findings, trials = await examination.run(solutions)
    code = harness.code()
    report = checks.build_report(
        problem.digest,
        f"{code['version']} {code['digest'][:16]}",
        findings,
        trials,
        at=now(),
        needed_mib=examination.memory_mib,
    )
    if all(finding.code != "machine" for finding in findings):
        key = _report_key(problem, solutions, code["digest"])
        context.reports.keep(key, report.model_dump_json())
    result = _build_result(folder, problem, report)
    return replace(result, trials=tuple(trials), took_s=time.monotonic() - began)


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
    """Return the stored solutions; a model that is its own reference counts as one."""
    solutions = load_solutions(folder, problem.slug)
    if solutions.correct or problem.parse_manifest().get("form") != _MODELS:
        return solutions
    text = problem.version_files["reference.py"] + _AS_ANSWER
    return replace(solutions, correct=(Sample("reference.py", text),))


def _report_key(problem: ProblemFiles, solutions: Solutions, harness_digest: str) -> str:
    files = [
        [kind, sample.name, hashlib.sha256(sample.source).hexdigest()]
        for kind, samples in (("correct", solutions.correct), ("wrong", solutions.wrong))
        for sample in samples
    ]
    key_parts = json.dumps([EDITION, problem.digest, harness_digest, files])
    return hashlib.sha256(key_parts.encode()).hexdigest()


class _Examination:
    """The check of one problem, part by part."""

    def __init__(self, harness: LocalHarness, show: ShowProgress, problem: ProblemFiles) -> None:
        self._harness = harness
        self._show = show
        self._problem = problem
        self._manifest: Any = problem.parse_manifest()
        self.memory_mib = 0

    async def run(self, solutions: Solutions) -> tuple[list[Finding], list[Trial]]:
        """Return the findings, and how the solutions ended. Raises Failed."""
        findings = [
            checks.create_finding("schema_warning", "warning", "its files", warning)
            for warning in self._problem.warnings
        ]
        self._show_progress("its own code", 0, 1)
        answer = await self._harness.inspect(self._problem)
        inspected, gpus = checks.inspection_findings(answer), self._manifest["gpus"]
        self.memory_mib = checks.memory_mib(answer, gpus)
        findings += checks.soften_findings(inspected, gpus)
        if checks.is_broken(inspected):
            # The solutions would fail or hang like the problem's own code.
            return findings, []
        samples = [(sample, True) for sample in solutions.correct]
        samples += [(sample, False) for sample in solutions.wrong]
        trials = []
        for index, (sample, must_pass) in enumerate(samples):
            self._show_progress(sample.name, index, len(samples))
            trials.append(await self._run_trial(sample, must_pass=must_pass))
        names = [baseline["file"] for baseline in self._manifest.get("baselines", ())]
        for name in dict.fromkeys(names):
            # A baseline has the path that the problem gives it.
            baseline = Sample(name, self._problem.files[name])
            trials.append(await self._run_baseline(baseline, solutions.correct, trials))
        findings += checks.trial_findings(trials)
        for name in sorted(set(self._manifest["templates"].values())):
            findings += await self._check_template(name)
        return findings, trials

    async def _run_trial(self, sample: Sample, *, must_pass: bool) -> Trial:
        slug, gpus = self._problem.slug, self._manifest["gpus"]
        if needed := needed_gpus(sample):
            reason = f"needs a GPU: {', '.join(needed)}"
            return Trial(slug, sample.name, must_pass, "", reason, is_shown=False)
        run, failure = await self._run_file(sample, MODE)
        verdict, reason = run.verdict or "", run.reason or ""
        trial = Trial(slug, sample.name, must_pass, verdict, reason, failure=failure)
        return trial if HERE in gpus else hide_gpu_verdict(trial, gpus)

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
        self._show_progress(baseline.name, 0, 1)
        return replace(await self._run_trial(baseline, must_pass=True), is_baseline=True)

    async def _check_template(self, name: str) -> list[Finding]:
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
        answer = await self._harness.run(self._problem, request)
        return parse_response(answer, Run), answer.get("failure_code", "")

    def _show_progress(self, part: str, done: int, total: int) -> None:
        progress = ProgressText("checking", done, total, estimate=f": {part}")
        self._show(self._problem.slug, progress)
