"""A problem's own solutions, and how they ended compared with how they must end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shared.errors import Refused
from shared.presentation.units import one_line
from shared.problems.submission_file import read_directives
from warpboard.domain.tables import Table, make_table

HERE = "CPU"
PASSED = "passed"
NOT_PASSED = "not passed"
NOT_SHOWN = "not shown here"
# A solution that never ran does not show what the check detects.
NEVER_RAN = ("compile_error", "import_error")
# How a submission that is written for a GPU may end on the processor.
_OF_A_GPU = (*NEVER_RAN, "crashed", "timed_out", "out_of_memory")
_FAILURES_OF_A_GPU = ("problem_fault", "memory")
Kind = Literal["correct", "wrong", "baseline"]


@dataclass(frozen=True)
class Sample:
    """A file to submit."""

    name: str
    source: bytes


@dataclass(frozen=True)
class Solutions:
    """A problem's own solutions: every one in `correct` passes, none in `wrong` does."""

    slug: str
    correct: tuple[Sample, ...]
    wrong: tuple[Sample, ...]


def sample_code(sample: Sample) -> bytes:
    """Return a file without its directives.

    >>> sample_code(Sample("a.py", b"#!POPCORN leaderboard a\\nx = 1\\n"))
    b'x = 1\\n'
    """
    lines = sample.source.splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith((b"#!POPCORN", b"//!POPCORN")))


def needed_gpus(sample: Sample) -> tuple[str, ...]:
    """Return the GPU types that a file names, none if it also runs on the cpu device.

    Raises Refused for an invalid directive and names the file.

    >>> needed_gpus(Sample("a.py", b"#!POPCORN gpus H100 H200")), needed_gpus(Sample("b.py", b""))
    (('H100', 'H200'), ())
    """
    try:
        gpus = read_directives(sample.source.decode(errors="replace")).gpus
    except Refused as refused:
        raise Refused(refused.code, f"{sample.name}: {refused.reason}", refused.field) from refused
    return () if HERE in gpus else gpus


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
    reason = f"the problem is for {', '.join(gpus)}, and here it ended with: {trial.reason}"
    return replace(trial, reason=one_line(reason), is_shown=False)


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
