"""How a problem's own solutions ended, beside how they must."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpboard.domain.answers import Answer
from warpboard.domain.demo import NOT_PASSED, PASSED
from warpboard.domain.tables import Table
from warpboard.domain.units import one_line


@dataclass(frozen=True)
class Trial:
    """One solution, run here; without a verdict it was our machine that failed."""

    problem: str
    file: str
    must_pass: bool
    verdict: str
    reason: str = ""

    @property
    def is_expected(self) -> bool:
        """Whether it ended as it must."""
        return bool(self.verdict) and self.must_pass == (self.verdict == PASSED)


def table(found: Sequence[Trial]) -> Table:
    """Each solution with its verdict, and whether that is the one it must get."""
    rows = [
        (
            one.problem,
            one.file,
            one.verdict or "no verdict",
            "as expected" if one.is_expected else f"NOT {_wanted(one)}",
            "" if one.is_expected else one_line(one.reason),
        )
        for one in found
    ]
    return Table("solutions", ("problem", "file", "verdict", "expected", "reason"), rows)


def _wanted(one: Trial) -> str:
    return PASSED if one.must_pass else NOT_PASSED


def document(found: Sequence[Trial]) -> Answer:
    """The same for a program."""
    names = ("problem", "file", "must_pass", "verdict", "reason", "is_expected")
    rows = [{name: getattr(one, name) for name in names} for one in found]
    return {"is_good": all(one.is_expected for one in found), "solutions": rows}
