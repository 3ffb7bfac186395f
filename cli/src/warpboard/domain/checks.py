"""What a check of a problem says: findings of its own code and of its solutions, as a report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from shared.errors import Refused
from shared.problems.report import (
    FINDINGS_MAX,
    SOLUTIONS_MAX,
    TEXT_CHARS_MAX,
    CheckReport,
    Finding,
    SolutionFound,
)
from shared.problems.warpboard_yml import MEMORY_MIB_MAX
from warpboard.domain.answers import Answer
from warpboard.domain.demo import HERE, PASSED
from warpboard.domain.tables import Table
from warpboard.domain.trials import NEVER_RAN, NOT_SHOWN, Kind, Trial
from warpboard.domain.units import count_text, one_line, seconds_text

SKIPPED = "skipped"
DEVICE = "cpu"
OWN_CODE = "the problem's own code"
# Of a problem for other GPU types than this machine is, these say little.
_OF_THIS_MACHINE = ("author_memory", "budget", "not_inspected")
# How a start may end that solves nothing: it was loaded, ran, and gave no right answer in time.
_CLEAN_ENDS = ("wrong_answer", "late_write", "crashed", "protocol")
# Of a problem for other GPU types, code that needs one of them fails so.
_OF_A_GPU = ("author_fails", "template_fails")
_FAULTS = {"problem_fault": "author_fails", "memory": "author_memory"}
_BROKEN = ("author_fails", "author_forks")
# Whatever the machine, these are mistakes in the text of a program.
_MISTAKES = ("SyntaxError(", "IndentationError(", "NameError(")
MIB = 1024**2
_WHERE_CHARS_MAX = 200

Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Checked:
    """A problem and what is to be said of it; without a report it does not compile."""

    slug: str
    folder: str
    findings: tuple[Finding, ...]
    report: CheckReport | None = None
    files: int = 0
    ranking_by: str = ""
    trials: tuple[Trial, ...] = ()
    took_s: float = 0.0

    @property
    def errors(self) -> int:
        """How many findings keep it from being published."""
        return sum(one.level == "error" for one in self.findings)

    @property
    def is_good(self) -> bool:
        """Whether it may be published."""
        return self.report is not None and self.report.is_clean and not self.errors

    def share(self, kind: Kind) -> str:
        """How many of a kind ended as they must, of those that were run."""
        ran = [one for one in self.trials if one.is_shown and one.kind == kind]
        return f"{sum(one.is_expected for one in ran)} of {len(ran)}"

    @property
    def sentence(self) -> str:
        """What was found, in a line."""
        if self.report is None:
            return f"{self.slug} is not a problem yet"
        parts = [f"{self.slug} compiles: {count_text(self.files, 'file')}"]
        parts += [f"ranked by {self.ranking_by}"]
        if self.trials:
            parts += [f"{self.share('correct')} correct passed"]
            parts += [f"{self.share('wrong')} wrong found"]
        if any(one.is_baseline for one in self.trials):
            parts += [f"{self.share('baseline')} baselines passed"]
        if not_shown := sum(not one.is_shown for one in self.trials):
            parts += [f"{not_shown} {NOT_SHOWN}"]
        if self.report.memory_mib:
            parts += [f"needs {self.report.memory_mib:,} MiB of memory"]
        warnings = len(self.findings) - self.errors
        parts += [count_text(self.errors, "error")] if self.errors else []
        parts += [count_text(warnings, "warning")] if warnings else []
        return f"{', '.join(parts)} ({seconds_text(self.took_s)})"

    @property
    def lines(self) -> list[str]:
        """A line for each finding: how bad, which, where, what, and the mend."""
        return [
            f"{one.level} {one.code} in {self.folder}, {one.where}: {one_line(one.text)}"
            for one in self.findings
        ]


def finding(code: str, level: Level, where: str, text: str) -> Finding:
    """One finding, within the bounds of a report."""
    said = text.strip()[:TEXT_CHARS_MAX] or code
    return Finding(code=code, level=level, where=where[:_WHERE_CHARS_MAX], text=said)


def of_refusal(refused: Refused) -> Finding:
    """Why files are no problem."""
    return finding("schema", "error", refused.field or "its files", refused.reason)


def of_inspection(answer: Answer) -> list[Finding]:
    """What the harness found in the problem's own code, on the processor."""
    if code := answer["failure_code"]:
        is_theirs, reason = code == "problem_fault", answer["reason"]
        kind = "author_fails" if is_theirs else "machine"
        return [finding(kind, "error", OWN_CODE, reason)]
    return [Finding(**one) for one in answer["findings"]]


def memory_mib(answer: Answer, gpus: Sequence[str]) -> int:
    """The memory that a run of the problem needs, as far as the inspection could measure it.

    What the author's code took here at its peak says nothing of a GPU.
    """
    needed: int = answer["needed_bytes"]
    if needed and HERE in gpus:
        needed = max(needed, answer["peak_bytes"])
    return min(-(-needed // MIB), MEMORY_MIB_MAX)


def softened(found: Iterable[Finding], gpus: Sequence[str]) -> list[Finding]:
    """The same; what the lack of one of these GPUs may be the reason for is no error.

    Time and memory are this machine's, and code that fails may want a GPU.
    """
    return list(found) if HERE in gpus else [_softened(one) for one in found]


def _softened(one: Finding) -> Finding:
    if one.code in _OF_A_GPU and not any(name in one.text for name in _MISTAKES):
        text = f"{one.text}, on this machine, which has none of the problem's GPUs"
        return finding("not_inspected", "warning", one.where, text)
    if one.code not in _OF_THIS_MACHINE:
        return one
    return one.model_copy(update={"level": "warning"})


def is_broken(findings: Iterable[Finding]) -> bool:
    """Whether the problem's own code fails or never ends here, so that no solution need be run."""
    return any(one.level == "error" and one.code in _BROKEN for one in findings)


def of_trials(trials: Sequence[Trial]) -> list[Finding]:
    """Solutions that ended as they must not, and kinds of which there is none."""
    found = [one for trial in trials if (one := _of_trial(trial)) is not None]
    for kind, code, level in (("correct", "no_correct", "error"), ("wrong", "no_wrong", "warning")):
        these = [one for one in trials if one.kind == kind]
        if not these:
            text = f"there is no solution in solutions/{kind}: add one that is {kind}"
            found.append(finding(code, _level(level), f"solutions/{kind}", text))
        elif not any(one.is_shown for one in these):
            text = f"none of the {kind} solutions can be run here: {these[0].reason}"
            found.append(finding("not_run", "warning", f"solutions/{kind}", text))
    return found


def _level(name: str) -> Level:
    return "error" if name == "error" else "warning"


def _of_trial(trial: Trial) -> Finding | None:
    where = trial.file if trial.is_baseline else f"solutions/{trial.kind}/{trial.file}"
    if trial.is_expected or not trial.is_shown:
        return None
    if not trial.verdict:
        return finding(_FAULTS.get(trial.failure, "machine"), "error", where, trial.reason)
    if trial.is_baseline:
        mend = "mend it, or begin it with #!POPCORN gpus H100 if it runs there alone"
        return finding("baseline_fails", "error", where, f"{mend}: {trial.reason}")
    if trial.must_pass:
        return finding("correct_fails", "error", where, trial.reason)
    if trial.verdict in NEVER_RAN:
        mend = "let it run and be wrong"
        return finding("wrong_never_ran", "error", where, f"{trial.reason}: {mend}")
    mend = "tighten the check, or the cases, until it does not pass"
    return finding("wrong_passes", "error", where, f"every case passed: {mend}")


def of_template(name: str, verdict: str, reason: str) -> list[Finding]:
    """A start must load and run, and should not be a solution."""
    if verdict == PASSED:
        return [finding("template_passes", "warning", name, "it is a solution as it is")]
    # A process that ended, other than an exception, left no word of its own.
    is_clean = verdict in _CLEAN_ENDS and ": the process " not in reason
    if is_clean or not verdict:
        return []
    text = f"{reason}: a template should load, run, and be wrong"
    return [finding("template_fails", "error", name, text)]


def report(
    about: Mapping[str, str],
    findings: Sequence[Finding],
    trials: Sequence[Trial],
    at: datetime,
    needed_mib: int = 0,
) -> CheckReport:
    """The whole of it; `about` has the digest of the version and the harness.

    Of more findings than a report holds the errors go first.
    """
    kept = sorted(findings, key=lambda one: one.level != "error")[:FINDINGS_MAX]
    solutions = [
        SolutionFound(
            name=one.file[:_WHERE_CHARS_MAX],
            kind=one.kind,
            verdict=one.verdict if one.is_shown else SKIPPED,
            as_expected=one.is_expected or not one.is_shown,
        )
        for one in trials
    ][:SOLUTIONS_MAX]
    is_bad = any(one.level == "error" for one in kept)
    return CheckReport(
        digest=about["digest"],
        harness=about["harness"],
        is_clean=not is_bad and all(one.as_expected for one in solutions),
        findings=kept,
        solutions=solutions,
        device=DEVICE,
        made_at=at,
        memory_mib=needed_mib,
    )


def stricter(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same with every warning an error."""
    return tuple(one.model_copy(update={"level": "error"}) for one in findings)


def summary(found: Sequence[Checked]) -> Table:
    """Each problem with its counts and what it took."""
    rows = [
        (
            one.slug,
            one.share("correct"),
            one.share("wrong"),
            str(sum(not trial.is_shown for trial in one.trials) or ""),
            str(len(one.findings) or ""),
            seconds_text(one.took_s),
            "good" if one.is_good else "NOT GOOD",
        )
        for one in found
    ]
    columns = ("problem", "correct passed", "wrong found", NOT_SHOWN, "findings", "time", "result")
    return Table("problems", columns, rows)


def document(found: Sequence[Checked]) -> Answer:
    """The same for a program."""
    names = ("problem", "file", "must_pass", "verdict", "reason", "is_shown", "is_expected")
    ended = [trial for one in found for trial in one.trials]
    return {
        "is_good": all(one.is_good for one in found),
        "problems": [_problem(one) for one in found],
        "solutions": [{name: getattr(one, name) for name in names} for one in ended],
    }


def _problem(one: Checked) -> Answer:
    said: dict[str, Any] = {} if one.report is None else one.report.model_dump(mode="json")
    findings = [item.model_dump() for item in one.findings]
    about = {"slug": one.slug, "path": one.folder, "is_good": one.is_good}
    return said | about | {"findings": findings, "took_s": round(one.took_s, 3)}
