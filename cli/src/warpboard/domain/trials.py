"""How a problem's own solutions ended, beside how they must."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from warpboard.domain.demo import NOT_PASSED, PASSED
from warpboard.domain.tables import Table
from warpboard.domain.units import one_line

NOT_SHOWN = "not shown here"
# A solution that never ran shows nothing of what the check finds.
NEVER_RAN = ("compile_error", "import_error")
# How a run may end on the processor of a submission that is written for a GPU.
_OF_A_GPU = (*NEVER_RAN, "crashed", "timed_out", "out_of_memory")
_FAILURES_OF_A_GPU = ("problem_fault", "memory")

Kind = Literal["correct", "wrong", "baseline"]


@dataclass(frozen=True)
class Trial:
    """One solution, run here; without a verdict it was our machine that failed.

    One that is not shown says nothing, for this machine lacks what `reason` says. `failure` is the
    harness's code for what failed, where there is no verdict. A baseline must pass as a correct one
    must.
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
        """What its author says that it is."""
        if self.is_baseline:
            return "baseline"
        return "correct" if self.must_pass else "wrong"

    @property
    def is_expected(self) -> bool:
        """Whether it ended as it must; what never ran did not."""
        if self.must_pass:
            return self.verdict == PASSED
        return self.verdict not in ("", PASSED, *NEVER_RAN)


def of_a_gpu(trial: Trial, gpus: Sequence[str]) -> Trial:
    """A trial on the processor of a problem for these GPU types alone.

    It is not shown here if the lack of a GPU may be why it ended as it did.
    """
    doubtful = trial.verdict in _OF_A_GPU if trial.verdict else trial.failure in _FAILURES_OF_A_GPU
    if not trial.is_shown or not doubtful:
        return trial
    reason = f"the problem is for {', '.join(gpus)}, and here it ended so: {trial.reason}"
    return replace(trial, reason=one_line(reason), is_shown=False)


def table(found: Sequence[Trial]) -> Table:
    """Each solution with its verdict, and whether that is the one it must get."""
    rows = [(one.problem, one.file, *_ended(one)) for one in found]
    return Table("solutions", ("problem", "file", "verdict", "expected", "reason"), rows)


def _ended(trial: Trial) -> tuple[str, str, str]:
    """Its verdict, whether that is expected, and why it is not."""
    if not trial.is_shown:
        return NOT_SHOWN, "", trial.reason
    if trial.is_expected:
        return trial.verdict, "as expected", ""
    wanted = PASSED if trial.must_pass else NOT_PASSED
    return trial.verdict or "no verdict", f"NOT {wanted}", one_line(trial.reason)
