"""Two submissions beside each other."""

import msgspec

from warpboard.domain.tables import Table
from warpboard.domain.units import NOTHING, harmless, one_line, time_text


class CaseDelta(msgspec.Struct, frozen=True, kw_only=True):
    """One case under both; `ratio` is b to a, below 1 where b is faster."""

    name: str
    a_us: float | None = None
    b_us: float | None = None
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    outcome: str = ""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What differs; no `diff` where one may not see both sources."""

    cases: list[CaseDelta]
    diff: str | None = None
    score: CaseDelta | None = None


def cases(a: int, b: int, compared: Comparison) -> Table:
    """Each case's times and their ratio; last, those of the whole scores."""
    whole = compared.score
    is_scored = whole is not None and (whole.a_us is not None or whole.b_us is not None)
    found = [*compared.cases, *([whole] if whole is not None and is_scored else [])]
    rows = [
        (
            one_line(one.name),
            time_text(one.a_us),
            time_text(one.b_us),
            _ratio(one.ratio),
            NOTHING if one.ci95 is None else " to ".join(map(_ratio, one.ci95)),
            one_line(one.outcome) or NOTHING,
        )
        for one in found
    ]
    columns = ("case", f"number {a}", f"number {b}", "ratio", "95 %", "outcome")
    return Table(f"submission {a} against {b}", columns, rows)


def _ratio(ratio: float | None) -> str:
    """How many times as long.

    >>> _ratio(0.5), _ratio(1.23456), _ratio(None)
    ('0.500', '1.235', '-')
    """
    return NOTHING if ratio is None else f"{ratio:.3f}"


def marks(diff: str) -> list[tuple[str, str]]:
    r"""The lines of a diff, each with what it is: added, removed, place, or nothing.

    >>> marks("@@ -1 +1 @@\n-a\n+b\n c")
    [('place', '@@ -1 +1 @@'), ('removed', '-a'), ('added', '+b'), ('', ' c')]
    """
    kinds = (("+++", "place"), ("---", "place"), ("@@", "place"), ("+", "added"), ("-", "removed"))
    lines = [harmless(line) for line in diff.splitlines()]
    found = (
        (next((kind for mark, kind in kinds if line.startswith(mark)), ""), line) for line in lines
    )
    return list(found)
