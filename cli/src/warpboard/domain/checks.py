"""The results of checks: a line, tables and a document."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from harness.vocabulary import PASSED
from shared.api.fields import JsonObject
from shared.api.problems import CheckFinding
from shared.checks.findings import Kind, Trial, create_finding
from shared.errors import Refused
from shared.presentation.units import (
    count_text,
    escape_control_characters,
    one_line,
    seconds_text,
)
from shared.problems.report import CheckReport, Finding
from warpboard.domain.output import Table, make_table

NOT_PASSED = "not passed"
NOT_SHOWN = "not shown here"
# The files of a change that are named.
CHANGES_MAX = 5

# The file, and perhaps the line, that a reason begins with.
PLACE = re.compile(r"([\w./-]+\.\w+(?:, line \d+)?): ")

T = TypeVar("T")


def trial_table(trials: Sequence[Trial]) -> Table:
    """List each solution with its verdict, and whether that is the expected one."""
    rows, problems = [], {trial.problem for trial in trials}
    for trial in trials:
        verdict, expected, reason = trial.verdict, "as expected", ""
        if not trial.is_shown:
            verdict, expected, reason = NOT_SHOWN, "", trial.reason
        elif not trial.is_expected:
            verdict = trial.verdict or "no verdict"
            expected = f"NOT {PASSED if trial.must_pass else NOT_PASSED}"
            reason = one_line(trial.reason)
        rows.append(
            {
                "problem": trial.problem,
                "file": trial.file,
                "verdict": verdict,
                "expected": expected,
                "reason": reason,
            }
        )
    return make_table("solutions", rows, extra=() if len(problems) > 1 else ("problem",))


@dataclass(frozen=True)
class CheckResult:
    """A problem and its findings; without a report it does not compile."""

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
        """The number of findings that prevent publication."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def is_good(self) -> bool:
        """Whether it may be published."""
        return self.report is not None and self.report.is_clean and not self.errors

    def share(self, kind: Kind) -> str:
        """Return how many solutions of a kind ended as they must, of those that ran."""
        trials = [trial for trial in self.trials if trial.is_shown and trial.kind == kind]
        return f"{sum(trial.is_expected for trial in trials)} of {len(trials)}"

    @property
    def sentence(self) -> str:
        """The result in one line."""
        if self.report is None:
            return f"{self.slug} is not a problem yet"
        parts = [f"{self.slug} compiles: {count_text(self.files, 'file')}"]
        parts += [f"ranked by {self.ranking_by}"]
        if self.trials:
            parts += [f"{self.share('correct')} correct passed"]
            parts += [f"{self.share('wrong')} wrong found"]
        if any(trial.is_baseline for trial in self.trials):
            parts += [f"{self.share('baseline')} baselines passed"]
        if not_shown := sum(not trial.is_shown for trial in self.trials):
            parts += [f"{not_shown} {NOT_SHOWN}"]
        if self.report.memory_mib:
            parts += [f"needs {self.report.memory_mib:,} MiB of memory"]
        warnings = len(self.findings) - self.errors
        parts += [count_text(self.errors, "error")] if self.errors else []
        parts += [count_text(warnings, "warning")] if warnings else []
        return f"{', '.join(parts)} ({seconds_text(self.took_s)})"

    @property
    def lines(self) -> list[str]:
        """The lines of its findings."""
        return finding_lines(self.folder, self.findings)


def refusal_finding(refused: Refused) -> Finding:
    """Return the finding for files that do not compile; most reasons begin with their place."""
    if match := PLACE.match(refused.reason):
        return create_finding("schema", "error", match[1], refused.reason[match.end() :])
    return create_finding("schema", "error", refused.field or "its files", refused.reason)


def finding_lines(path: str, findings: Iterable[Finding | CheckFinding]) -> list[str]:
    """Describe what a check found at a path: level, code, place, and what to do.

    >>> finding = CheckFinding(code="schema", level="error", where="a.py, line 2", text="no")
    >>> finding_lines("sums/a.py", [finding]), finding_lines("sums", [finding])
    (['error schema in sums/a.py, line 2: no'], ['error schema in sums, a.py, line 2: no'])
    """
    lines = []
    for finding in findings:
        text, *more = escape_control_characters(finding.text).splitlines()
        file, comma, line_text = finding.where.partition(",")
        # A problem in one file is that file.
        place = f"{comma}{line_text}" if file == path.rpartition("/")[2] else f", {finding.where}"
        lines.append(f"{finding.level} {finding.code} in {path}{place}: {text}")
        lines += [f"    {line}" for line in more]
    return lines


def promote_warnings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with each warning as an error."""
    return tuple(finding.model_copy(update={"level": "error"}) for finding in findings)


def changes_text(before: Mapping[T, object], after: Mapping[T, object]) -> str:
    """Name the files that changed between two states.

    >>> changes_text({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 1, "d": 1})
    'changed a; added d; removed c'
    """
    kinds = {
        "changed": [name for name in before if name in after and before[name] != after[name]],
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
    }
    texts = []
    for kind, names in kinds.items():
        more = len(names) - CHANGES_MAX
        first_names = ", ".join(sorted(map(str, names))[:CHANGES_MAX])
        texts += [f"{kind} {first_names}{f' and {more} more' if more > 0 else ''}"] if names else []
    return "; ".join(texts)


def summary_table(results: Sequence[CheckResult]) -> Table:
    """Return a row for each problem with its counts and the time that it took."""
    rows = [
        {
            "problem": result.slug,
            "correct passed": result.share("correct"),
            "wrong found": result.share("wrong"),
            NOT_SHOWN: sum(not trial.is_shown for trial in result.trials) or "",
            "findings": len(result.findings) or "",
            "time": seconds_text(result.took_s),
            "result": "good" if result.is_good else "NOT GOOD",
        }
        for result in results
    ]
    return make_table("problems", rows, extra=("time", NOT_SHOWN, "findings"))


def document(results: Sequence[CheckResult]) -> JsonObject:
    """Return the results as a JSON document."""
    names = ("problem", "file", "must_pass", "verdict", "reason", "is_shown", "is_expected")
    trials = [trial for result in results for trial in result.trials]
    return {
        "is_good": all(result.is_good for result in results),
        "problems": [
            (result.report.model_dump(mode="json") if result.report else {})
            | {"slug": result.slug, "path": result.folder, "is_good": result.is_good}
            | {"findings": [finding.model_dump() for finding in result.findings]}
            | {"took_s": round(result.took_s, 3)}
            for result in results
        ],
        "solutions": [{name: getattr(trial, name) for name in names} for trial in trials],
    }
