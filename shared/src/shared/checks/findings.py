"""What a check finds: by its inspection, and by how a problem's own solutions end."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Literal

from harness.vocabulary import CPU_TYPE, PASSED, SKIPPED
from shared.api.fields import JsonObject
from shared.checks.problem_files import Sample
from shared.errors import Refused
from shared.presentation.units import one_line, time_text
from shared.problems.report import (
    FINDINGS_MAX,
    SOLUTIONS_MAX,
    TEXT_CHARS_MAX,
    CheckReport,
    Finding,
    SolutionFound,
)
from shared.problems.submission_file import read_directives
from shared.problems.warpboard_yml import MEMORY_MIB_MAX

# A solution that never ran does not show what the check detects.
NEVER_RAN = ("compile_error", "import_error")
# How a submission that is written for a GPU may end on the processor.
_OF_A_GPU = (*NEVER_RAN, "crashed", "timed_out", "out_of_memory")
_FAILURES_OF_A_GPU = ("problem_fault", "memory")
Kind = Literal["correct", "wrong", "baseline"]
# The code of a finding about the machine, which says nothing about the problem.
MACHINE_FINDING = "machine"
OWN_CODE = "the problem's own code"
# Codes that say little here about a problem for GPU types that this machine lacks.
_MACHINE_CODES = ("author_memory", "budget", "not_inspected", "yardstick_slow")
# Verdicts of a template that does not load, or does more than to be wrong.
_UNCLEAN_ENDS = (*NEVER_RAN, "timed_out", "out_of_memory", "output_limit", "suspicious")
# Codes of code that may fail only because it needs one of the problem's GPUs.
_GPU_CODES = ("author_fails", "template_fails", "yardstick_fails")
_FAULTS = {"problem_fault": "author_fails", "memory": "author_memory"}
_YARDSTICK = "the yardstick"
# A yardstick whose call takes longer makes runs long.
_YARDSTICK_US_MAX = 100_000.0
_YARDSTICK_RATIO_MAX = 100.0
_BROKEN = ("author_fails", "author_forks")
# These are programming mistakes on any machine.
_MISTAKES = ("SyntaxError(", "IndentationError(", "NameError(")
MIB = 1024**2
_WHERE_CHARS_MAX = 200

Level = Literal["error", "warning"]


def sample_code(sample: Sample) -> bytes:
    """Return a file without its directives.

    >>> sample_code(Sample("a.py", b"#!POPCORN leaderboard a\\nx = 1\\n"))
    b'x = 1\\n'
    """
    lines = sample.source.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith((b"#!POPCORN", b"//!POPCORN")))


def needed_gpus(sample: Sample, machine_gpu: str = CPU_TYPE) -> tuple[str, ...]:
    """Return the GPU types that a file names, none if this machine's is among them.

    Raises Refused for an invalid directive and names the file.

    >>> needed_gpus(Sample("a.py", b"#!POPCORN gpus H100 H200")), needed_gpus(Sample("b.py", b""))
    (('H100', 'H200'), ())
    """
    try:
        gpus = read_directives(sample.source.decode(errors="replace")).gpus
    except Refused as refused:
        raise Refused(refused.code, f"{sample.name}: {refused.reason}", refused.field) from refused
    return () if machine_gpu in gpus else gpus


@dataclass(frozen=True)
class Trial:
    """One solution that ran here; without a verdict the machine failed.

    A trial that is not shown proves nothing, because this machine lacks what `reason` names.
    `failure` is the harness's failure code where there is no verdict. A baseline must pass like a
    correct solution.
    """

    problem: str
    file: str
    must_pass: bool
    verdict: str
    reason: str = ""
    is_shown: bool = True
    failure: str = ""
    is_baseline: bool = False

    @property
    def kind(self) -> Kind:
        """The kind that its author declares."""
        if self.is_baseline:
            return "baseline"
        return "correct" if self.must_pass else "wrong"

    @property
    def has_passed(self) -> bool:
        """Whether it ran here and passed."""
        return self.is_shown and self.verdict == PASSED

    @property
    def is_expected(self) -> bool:
        """Whether it ended as it must; what never ran did not."""
        if self.must_pass:
            return self.verdict == PASSED
        return self.verdict not in ("", PASSED, *NEVER_RAN)


def hide_gpu_verdict(trial: Trial, gpus: Sequence[str]) -> Trial:
    """Hide a trial on the processor if only a missing GPU may explain its end.

    `gpus` are the GPU types of the problem.
    """
    doubtful = trial.verdict in _OF_A_GPU if trial.verdict else trial.failure in _FAILURES_OF_A_GPU
    if not trial.is_shown or not doubtful:
        return trial
    reason = f"the problem is for {', '.join(gpus)}, and it failed here: {trial.reason}"
    return replace(trial, reason=one_line(reason), is_shown=False)


def create_finding(code: str, level: Level, where: str, text: str) -> Finding:
    """Create a finding that fits into a report."""
    message = text.strip()[:TEXT_CHARS_MAX] or code
    return Finding(code=code, level=level, where=where[:_WHERE_CHARS_MAX], text=message)


def inspection_findings(answer: JsonObject) -> list[Finding]:
    """Return what the harness found in the problem's own code, on the processor."""
    if code := answer["failure_code"]:
        is_author_fault, reason = code == "problem_fault", answer["reason"]
        kind = "author_fails" if is_author_fault else MACHINE_FINDING
        return [create_finding(kind, "error", OWN_CODE, reason)]
    return [Finding(**finding) for finding in answer["findings"]]


def memory_mib(answer: JsonObject, gpus: Sequence[str]) -> int:
    """Return the memory that a run needs, as far as the inspection could measure it.

    The peak of the author's code here says nothing about a GPU.
    """
    needed: int = answer["needed_bytes"]
    if needed and CPU_TYPE in gpus:
        needed = max(needed, answer["peak_bytes"])
    return min(-(-needed // MIB), MEMORY_MIB_MAX)


def soften_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Downgrade errors that a missing GPU may explain, on a machine without any of the problem's.

    Time and memory were measured on this machine, and failing code may need a GPU.
    """
    softened = []
    for finding in findings:
        if finding.code in _GPU_CODES and not any(name in finding.text for name in _MISTAKES):
            text = f"{finding.text}, on this machine, which has none of the problem's GPUs"
            softened.append(create_finding("not_inspected", "warning", finding.where, text))
        elif finding.code in _MACHINE_CODES:
            softened.append(finding.model_copy(update={"level": "warning"}))
        else:
            softened.append(finding)
    return softened


def is_broken(findings: Iterable[Finding]) -> bool:
    """Return whether the problem's own code fails or never ends, so that no solution need run."""
    return any(finding.level == "error" and finding.code in _BROKEN for finding in findings)


def trial_findings(trials: Sequence[Trial], *, needs_wrong: bool = True) -> list[Finding]:
    """Return solutions with a wrong end, and kinds of which there is none."""
    findings = [finding for trial in trials if (finding := _trial_finding(trial)) is not None]
    needed: tuple[tuple[str, str, Level], ...] = (
        ("correct", "no_correct", "error"),
        ("wrong", "no_wrong", "warning"),
    )
    for kind, code, level in needed:
        trials_of_kind = [trial for trial in trials if trial.kind == kind]
        if not trials_of_kind and kind == "wrong" and not needs_wrong:
            continue
        if not trials_of_kind:
            text = f"there is no solution in solutions/{kind}: add one that is {kind}"
            findings.append(create_finding(code, level, f"solutions/{kind}", text))
        elif not any(trial.is_shown for trial in trials_of_kind):
            text = f"none of the {kind} solutions can be run here: {trials_of_kind[0].reason}"
            findings.append(create_finding("not_run", "warning", f"solutions/{kind}", text))
    return findings


def _trial_finding(trial: Trial) -> Finding | None:
    where = trial.file if trial.is_baseline else f"solutions/{trial.kind}/{trial.file}"
    if trial.is_expected or not trial.is_shown:
        return None
    if not trial.verdict:
        return create_finding(
            _FAULTS.get(trial.failure, MACHINE_FINDING), "error", where, trial.reason
        )
    if trial.is_baseline:
        advice = "fix it, or begin it with #!POPCORN gpus H100 if it runs only there"
        return create_finding("baseline_fails", "error", where, f"{advice}: {trial.reason}")
    if trial.must_pass:
        return create_finding("correct_fails", "error", where, trial.reason)
    if trial.verdict in NEVER_RAN:
        advice = "let it run and be wrong"
        return create_finding("wrong_never_ran", "error", where, f"{trial.reason}: {advice}")
    advice = "tighten the check, or the cases, until it does not pass"
    return create_finding("wrong_passes", "error", where, f"every case passed: {advice}")


def tested_gpus(trials: Sequence[Trial], gpus: Sequence[str], machine_gpu: str) -> list[str]:
    """Return the GPU types of the leaderboards on which a correct solution ran here and passed."""
    has_passed = any(trial.kind == "correct" and trial.has_passed for trial in trials)
    return [machine_gpu] if machine_gpu in gpus and has_passed else []


def yardstick_findings(answer: JsonObject, solution: str) -> list[Finding]:
    """Return what is wrong with the yardstick, by a timed run of a correct solution beside it."""
    if answer["failure_code"] == "problem_fault" and answer["reason"].startswith(_YARDSTICK):
        return [create_finding("yardstick_fails", "error", _YARDSTICK, answer["reason"])]
    findings = []
    for case in answer["cases"]:
        yardstick_us, time_us = case["yardstick_us"], case["time_us"]
        if yardstick_us is None or time_us is None:
            continue
        ratio = yardstick_us / time_us if time_us > 0 else inf
        if yardstick_us > _YARDSTICK_US_MAX or ratio > _YARDSTICK_RATIO_MAX:
            text = (
                f"a call takes {time_text(yardstick_us)} on {case['name']}, {ratio:.3g} times as "
                f"long as {solution}, so that timed runs take long: name a faster solution as "
                "`yardstick` in warpboard.yml"
            )
            findings.append(create_finding("yardstick_slow", "warning", _YARDSTICK, text))
    return findings


def untested_findings(
    findings: Iterable[Finding], tested: Sequence[str], gpus: Sequence[str]
) -> list[Finding]:
    """Return a warning if nothing ran on any GPU type of the leaderboards, beside no error."""
    if tested or any(finding.level == "error" for finding in findings):
        return []
    text = (
        f"it was not run on {', '.join(gpus)}, so perhaps nothing can be judged there: "
        "publishing it needs --allow-untested, and its pages say so"
    )
    return [create_finding("untested", "warning", "its GPU types", text)]


def template_findings(name: str, verdict: str, reason: str) -> list[Finding]:
    """Check that a template loads and runs, and is not a solution itself."""
    if verdict == PASSED:
        return [create_finding("template_passes", "warning", name, "it is a solution as it is")]
    # A process that ended, unlike an exception, gives no reason of its own.
    is_clean = verdict not in _UNCLEAN_ENDS and ": the process " not in reason
    if is_clean or not verdict:
        return []
    text = f"{reason}: a template should load, run, and be wrong"
    return [create_finding("template_fails", "error", name, text)]


def build_report(  # noqa: PLR0913  (each is a field of the report)
    digest: str,
    harness: str,
    findings: Sequence[Finding],
    trials: Sequence[Trial],
    *,
    device: str,
    at: datetime,
    needed_mib: int,
    tested_gpus: Sequence[str],
) -> CheckReport:
    """Build the report on the version with this digest, checked with this harness.

    If there are too many findings for a report, errors come first.
    """
    reported = sorted(findings, key=lambda finding: finding.level != "error")[:FINDINGS_MAX]
    solutions = [
        SolutionFound(
            name=trial.file[:_WHERE_CHARS_MAX],
            kind=trial.kind,
            verdict=trial.verdict if trial.is_shown else SKIPPED,
            as_expected=trial.is_expected or not trial.is_shown,
        )
        for trial in trials
    ][:SOLUTIONS_MAX]
    is_bad = any(finding.level == "error" for finding in reported)
    return CheckReport(
        digest=digest,
        harness=harness,
        is_clean=not is_bad and all(solution.as_expected for solution in solutions),
        findings=reported,
        solutions=solutions,
        device=device,
        made_at=at,
        memory_mib=needed_mib,
        tested_gpus=list(tested_gpus),
    )
