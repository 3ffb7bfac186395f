"""The check of one problem, part by part, in the harness of the machine that checks it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from harness.vocabulary import CPU_TYPE
from shared.api.fields import JsonObject, parse_response
from shared.api.submissions import Progress, SubmissionRequest
from shared.checks import findings as found
from shared.checks.findings import Trial, hide_gpu_verdict, needed_gpus, sample_code
from shared.checks.harness_port import CheckHarness, ShowProgress
from shared.checks.problem_files import ProblemFiles, Sample, Solutions
from shared.checks.ranked_sizes import inspect_ranked_sizes
from shared.errors import Refused
from shared.presentation.outcome import Run
from shared.presentation.report_parts import ProgressText, run_progress
from shared.problems import flashinfer
from shared.problems.kernelbench import AS_ANSWER
from shared.problems.report import CheckReport, Finding
from shared.problems.sources import REFERENCE
from shared.source_files import check_files

# Checks every case; times do not matter here.
MODE = "verify"
# The stages of a check's progress: the inspection of the problem's own code, then its files.
INSPECT, FILES = "inspect", "files"
_NATIVE_START = ".cu"
_MODELS = "kernelbench"
_TASK_FILES = frozenset({"task.yml", "task.yaml"})
# What a submission to a problem in one C++ file gets already includes that file.
_NATIVE_REFERENCE = b"""\
#include "task.h"

output_t custom_kernel(input_t data) { return ref_kernel(data); }
"""


def add_reference(problem: ProblemFiles, solutions: Solutions) -> Solutions:
    """Return the solutions of a problem, of which the first correct one may be its reference.

    That is so for a model, for a definition, and for a reference in one file. A task directory
    needs a solution of its own.
    """
    if solutions.correct:
        return solutions
    manifest = problem.parse_manifest()
    if manifest.get("form") == _MODELS:
        text = problem.version_files[REFERENCE] + AS_ANSWER
    elif flashinfer.CODE in problem.version_files:
        text = flashinfer.reference_solution(problem.version_files[flashinfer.CODE])
    elif _TASK_FILES & problem.files.keys():
        return solutions
    elif manifest["lang"] == "cu":
        sample = Sample("reference.cu", _NATIVE_REFERENCE)
        return replace(solutions, correct=(sample,))
    else:
        return replace(solutions, correct=(Sample(REFERENCE, is_reference=True),))
    return replace(solutions, correct=(Sample(REFERENCE, text),))


def check_progress(progress: Progress, sentence: str = "checking") -> ProgressText:
    """Describe the progress of a check.

    >>> step = Progress(stage="files", case="a.py", done=0, total=2, stages=[])
    >>> check_progress(step).estimate
    ': file 1 of 2: a.py'
    """
    if progress.stage == FILES:
        part = f": file {progress.done + 1} of {progress.total}: {progress.case}"
    else:
        part = ": its own code"
        part += f", {run_progress(progress).sentence}" if progress.total else ""
    return ProgressText(sentence, progress.done, progress.total, estimate=part)


@dataclass(frozen=True)
class Examined:
    """What a check found, and how the problem's solutions ended."""

    findings: list[Finding]
    trials: list[Trial]
    memory_mib: int

    def report(self, problem: ProblemFiles, machine: "Machine", at: datetime) -> CheckReport:
        """Return the report on this version, checked on this machine."""
        tested = found.tested_gpus(self.trials, problem.gpus, machine.gpu)
        untested = found.untested_findings(self.findings, tested, problem.gpus)
        return found.build_report(
            problem.digest,
            machine.harness,
            [*self.findings, *untested],
            self.trials,
            device=machine.device,
            at=at,
            needed_mib=self.memory_mib,
            tested_gpus=tested,
        )


@dataclass(frozen=True)
class Machine:
    """The machine of a check: the harness with its code, the device, and the GPU type."""

    harness: str
    device: str
    gpu: str


async def examine(
    harness: CheckHarness, problem: ProblemFiles, solutions: Solutions, show: ShowProgress
) -> Examined:
    """Check a problem that compiles. Raises Failed."""
    examination = _Examination(harness, problem, show)
    findings, trials = await examination.run(add_reference(problem, solutions))
    return Examined(findings, trials, examination.memory_mib)


def slow_examination(limit_s: float) -> Examined:
    """Return the result of a check that was ended because it took too long."""
    text = f"its check took more than {limit_s:.0f} s: make its cases smaller"
    return Examined([found.create_finding("check_slow", "error", found.OWN_CODE, text)], [], 0)


class _Examination:
    """The check of one problem, part by part."""

    def __init__(self, harness: CheckHarness, problem: ProblemFiles, show: ShowProgress) -> None:
        self._harness = harness
        self._problem = problem
        self._show = show
        self._manifest: Any = problem.parse_manifest()
        self.memory_mib = 0
        self._files_done = self._files_total = 0

    async def run(self, solutions: Solutions) -> tuple[list[Finding], list[Trial]]:
        """Return the findings, and how the solutions ended. Raises Failed."""
        findings = [
            found.create_finding("schema_warning", "warning", "its files", warning)
            for warning in self._problem.warnings
        ]
        await self._show(Progress(stage=INSPECT, case="", done=0, total=0, stages=[]))
        answer = await self._harness.inspect(self._problem, self._show)
        inspected = found.inspection_findings(answer)
        if self._is_on_processor:
            self.memory_mib = found.memory_mib(answer, self._problem.gpus)
        findings += self._soften(inspected)
        findings += await inspect_ranked_sizes(self._harness, self._problem, answer, self._show)
        if found.is_broken(inspected):
            # The solutions would fail or hang like the problem's own code.
            return findings, []
        faults = [
            found.create_finding(
                "solution_files", "error", f"solutions/{kind}/{sample.name}", reason
            )
            for kind, samples in (("correct", solutions.correct), ("wrong", solutions.wrong))
            for sample in samples
            if (reason := self._find_fault(sample))
        ]
        if faults:
            return [*findings, *faults], []
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
            await self._show_file(sample.name)
            trials.append(await self._run_trial(sample, must_pass=must_pass))
        for name in baselines:
            await self._show_file(name)
            # A baseline has the path that the problem gives it.
            baseline = Sample(name, self._problem.files[name])
            trials.append(await self._run_baseline(baseline, solutions.correct, trials))
        # The author of a reference alone has nowhere to put a wrong solution.
        is_alone = any(sample.is_reference for sample in solutions.correct)
        findings += found.trial_findings(trials, needs_wrong=not is_alone)
        for name in templates:
            await self._show_file(name)
            findings += await self._check_template(name)
        if not any(finding.level == "error" for finding in findings):
            findings += await self._check_yardstick(solutions.correct, trials)
        return findings, trials

    def _find_fault(self, sample: Sample) -> str:
        """Return why nobody could submit these files, "" if they could."""
        files_max = self._manifest.get("source_files_max", 1)
        try:
            check_files(sample.name, sample.others, files_max, self._problem.version_files)
        except Refused as refused:
            return refused.reason
        return ""

    async def _run_trial(self, sample: Sample, *, must_pass: bool) -> Trial:
        slug, gpus = self._problem.slug, self._problem.gpus
        if needed := needed_gpus(sample, self._harness.gpu):
            reason = f"needs a GPU: {', '.join(needed)}"
            return Trial(slug, sample.name, must_pass, "", reason, is_shown=False)
        run, failure = await self._run_file(sample, MODE)
        verdict, reason = run.verdict or "", run.reason or ""
        trial = Trial(slug, sample.name, must_pass, verdict, reason, failure=failure)
        return trial if self._harness.gpu in gpus else hide_gpu_verdict(trial, gpus)

    async def _run_baseline(
        self, baseline: Sample, correct: Sequence[Sample], trials: Sequence[Trial]
    ) -> Trial:
        """Run a baseline; one that is also a correct solution reuses that result."""
        for sample, trial in zip(correct, trials, strict=False):
            if not sample.others and (sample_code(sample), needed_gpus(sample)) == (
                sample_code(baseline),
                needed_gpus(baseline),
            ):
                return replace(trial, file=baseline.name, is_baseline=True)
        return replace(await self._run_trial(baseline, must_pass=True), is_baseline=True)

    async def _check_template(self, name: str) -> list[Finding]:
        """Check a template; templates in CUDA are skipped on a machine without a GPU."""
        is_cuda = name.endswith(_NATIVE_START) and self._is_on_processor
        if is_cuda and self._manifest.get("lang", "py") == "py":
            return []
        sample = Sample(name, self._problem.version_files[name])
        if needed_gpus(sample, self._harness.gpu):
            return []
        run, _ = await self._run_file(sample, "test")
        findings = found.template_findings(name, run.verdict or "", run.reason or "")
        return self._soften(findings)

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
        await self._show_file("the yardstick")
        answer = await self._run_sample(solution, "benchmark")
        findings = found.yardstick_findings(answer, solution.name)
        return self._soften(findings)

    async def _run_file(self, sample: Sample, mode: str) -> tuple[Run, str]:
        """Run a file; return its end and the harness's failure code, if it has no verdict."""
        answer = await self._run_sample(sample, mode)
        return parse_response(answer, Run), answer.get("failure_code", "")

    async def _run_sample(self, sample: Sample, mode: str) -> JsonObject:
        name = sample.name.rpartition("/")[2]
        request = SubmissionRequest(
            name, sample.source, self._problem.slug, mode, others=sample.others
        )
        return await self._harness.run(self._problem, request, is_reference=sample.is_reference)

    @property
    def _is_on_processor(self) -> bool:
        return self._harness.gpu == CPU_TYPE

    def _soften(self, findings: Sequence[Finding]) -> list[Finding]:
        is_here = self._harness.gpu in self._problem.gpus
        return list(findings) if is_here else found.soften_findings(findings)

    async def _show_file(self, name: str) -> None:
        """Show that a file of the problem is about to run."""
        index, total = self._files_done, self._files_total
        await self._show(Progress(stage=FILES, case=name, done=index, total=total, stages=[]))
        self._files_done += 1
