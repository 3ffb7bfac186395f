"""How a problem's own solutions ended, beside how they must."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpboard.domain.answers import Answer
from warpboard.domain.demo import NOT_PASSED, PASSED
from warpboard.domain.tables import Table
from warpboard.domain.units import count_text, one_line, seconds_text

NOT_SHOWN = "not shown here"
# A solution that never ran shows nothing of what the check finds.
NEVER_RAN = ("compile_error", "import_error")


@dataclass(frozen=True)
class Trial:
    """One solution, run here; without a verdict it was our machine that failed.

    One that is not shown did not run, for this machine lacks what `reason` says.
    """

    problem: str
    file: str
    must_pass: bool
    verdict: str
    reason: str = ""
    is_shown: bool = True

    @property
    def is_expected(self) -> bool:
        """Whether it ended as it must; what never ran did not."""
        if self.must_pass:
            return self.verdict == PASSED
        return self.verdict not in ("", PASSED, *NEVER_RAN)


@dataclass(frozen=True)
class Checked:
    """A problem that compiles to so many files, and how its solutions ended."""

    slug: str
    files: int
    ranking_by: str
    trials: tuple[Trial, ...]
    took_s: float

    @property
    def is_good(self) -> bool:
        """Whether every solution that was shown ended as it must."""
        return all(one.is_expected or not one.is_shown for one in self.trials)

    @property
    def not_shown(self) -> int:
        """How many solutions this machine could not run."""
        return sum(not one.is_shown for one in self.trials)

    def share(self, *, must_pass: bool) -> str:
        """How many solutions of a kind ended as they must, of those that were shown."""
        shown = [one for one in self.trials if one.is_shown and one.must_pass == must_pass]
        return f"{sum(one.is_expected for one in shown)} of {len(shown)}"

    @property
    def sentence(self) -> str:
        """What was found, in a line."""
        parts = [f"{self.slug} compiles: {count_text(self.files, 'file')}"]
        parts += [f"ranked by {self.ranking_by}"]
        if self.trials:
            parts += [f"{self.share(must_pass=True)} correct passed"]
            parts += [f"{self.share(must_pass=False)} wrong found"]
        if self.not_shown:
            parts += [f"{self.not_shown} {NOT_SHOWN}"]
        return f"{', '.join(parts)} ({seconds_text(self.took_s)})"


def summary(found: Sequence[Checked]) -> Table:
    """Each problem with its counts and what it took."""
    rows = [
        (
            one.slug,
            one.share(must_pass=True),
            one.share(must_pass=False),
            str(one.not_shown or ""),
            seconds_text(one.took_s),
            "good" if one.is_good else "NOT GOOD",
        )
        for one in found
    ]
    columns = ("problem", "correct passed", "wrong found", NOT_SHOWN, "time", "result")
    return Table("problems", columns, rows)


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


def document(found: Sequence[Checked]) -> Answer:
    """The same for a program."""
    names = ("problem", "file", "must_pass", "verdict", "reason", "is_shown", "is_expected")
    ended = [trial for one in found for trial in one.trials]
    rows = [{name: getattr(one, name) for name in names} for one in ended]
    return {"is_good": all(one.is_good for one in found), "solutions": rows}
