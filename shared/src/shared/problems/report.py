"""The findings of a check of a problem on its author's machine, sent when it is published."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from shared.errors import Refused
from shared.json_types import Instant
from shared.problems.document import StrictModel
from shared.problems.task_yml import GPUS_MAX, GpuName
from shared.problems.warpboard_yml import MEMORY_MIB_MAX

REPORT_BYTES_MAX = 256 * 1024
FINDINGS_MAX = 200
SOLUTIONS_MAX = 500
TEXT_CHARS_MAX = 1000
PASSED = "passed"

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Word = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,39}$")]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Finding(StrictModel):
    """One problem or possible problem: where it is, what it is, and how to fix it."""

    code: Word
    level: Literal["error", "warning"]
    where: Annotated[str, Field(max_length=200)]
    text: Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]


class SolutionFound(StrictModel):
    """The result of one of the author's solutions or baselines; `skipped` if it cannot be run."""

    name: Name
    kind: Literal["correct", "wrong", "baseline"]
    verdict: Annotated[str, Field(max_length=40)]
    as_expected: bool


class CheckReport(StrictModel):
    """A check of one problem version, named by digest; clean if it contains no error.

    `memory_mib` is the measured memory of a run; 0 if unknown. `tested_gpus` are the GPU types on
    which the problem's own code ran and a correct solution passed.
    """

    digest: Digest
    harness: Name
    is_clean: bool
    findings: Annotated[list[Finding], Field(max_length=FINDINGS_MAX)]
    solutions: Annotated[list[SolutionFound], Field(max_length=SOLUTIONS_MAX)]
    device: Name
    made_at: Instant
    memory_mib: Annotated[int, Field(ge=0, le=MEMORY_MIB_MAX)] = 0
    tested_gpus: Annotated[list[GpuName], Field(default_factory=list, max_length=GPUS_MAX)]

    @property
    def errors(self) -> list[Finding]:
        """The findings that prevent publication."""
        return [finding for finding in self.findings if finding.level == "error"]

    @model_validator(mode="after")
    def _check_is_clean(self) -> Self:
        is_clean = not self.errors and all(solution.as_expected for solution in self.solutions)
        if self.is_clean != is_clean:
            raise ValueError("is_clean contradicts the findings and solutions")
        has_passed = any(it.kind == "correct" and it.verdict == PASSED for it in self.solutions)
        if self.tested_gpus and not has_passed:
            raise ValueError("tested_gpus needs a correct solution that passed")
        return self


def read_report(text: str | bytes) -> CheckReport:
    """Parse a report in JSON. Errors: Refused `bad_report`, with the first error."""
    size = len(text if isinstance(text, bytes) else text.encode(errors="replace"))
    if size > REPORT_BYTES_MAX:
        reason = f"the report has {size:,} bytes, at most {REPORT_BYTES_MAX:,}"
        raise Refused("bad_report", reason, "report")
    try:
        return CheckReport.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        reason = f"this is not a report of `warpboard problem check`: {place}: {first['msg']}"
        raise Refused("bad_report", reason, "report") from error


def require_clean(report: CheckReport, digest: str) -> None:
    """Check that a report is clean and about this version.

    Errors: Refused `check_missing` for another version's report; `check_failed`.
    """
    if report.digest != digest:
        reason = (
            f"the report is of version {report.digest[:12]}, these files are {digest[:12]}: "
            "run `warpboard problem check` on them"
        )
        raise Refused("check_missing", reason, "report")
    if report.is_clean:
        return
    errors = [f"{finding.code} in {finding.where}: {finding.text}" for finding in report.errors]
    errors += [
        f"{solution.name}: {solution.verdict}"
        for solution in report.solutions
        if not solution.as_expected
    ]
    reason = f"the check found {len(errors)} errors, the first: {errors[0]}"
    raise Refused("check_failed", reason, "report")
