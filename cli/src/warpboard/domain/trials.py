"""How a problem's own solutions ended, beside how they must."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from warpboard.domain.demo import NOT_PASSED, PASSED
from warpboard.domain.tables import Table
from warpboard.domain.units import one_line

NOT_SHOWN = "not shown here"
# A solution that never ran shows nothing of what the check finds.
NEVER_RAN = ("compile_error", "import_error")

Kind = Literal["correct", "wrong", "baseline"]


@dataclass(frozen=True)
class Trial:
    """One solution, run here; without a verdict it was our machine that failed.

    One that is not shown did not run, for this machine lacks what `reason` says. `is_fault` says
    that it is the problem's own code that failed. A baseline must pass as a correct one must.
    """

    problem: str
    file: str
    must_pass: bool
    verdict: str
    reason: str = ""
    is_shown: bool = True
    is_fault: bool = False
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
