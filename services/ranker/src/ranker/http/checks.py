"""What is told of a version's check: that it was clean, or why there was none."""

from collections.abc import Awaitable, Callable
from typing import Any

from ranker.http.shapes import problems as shapes
from shared.errors import Refused
from shared.problems.report import SolutionFound, read_report

BEFORE = "it was published before there were checks"
# What the read models keep of a check, and a version's page tells otherwise.
OF_CHECKS = ("report", "unchecked")

Row = dict[str, Any]


def without_check(row: Row) -> Row:
    """A version as lists tell of it."""
    return {name: value for name, value in row.items() if name not in OF_CHECKS}


async def check_of(
    row: Row, text: Callable[[str], Awaitable[bytes]], *, is_known: bool = False
) -> shapes.Check:
    """What was found of a version; `text` is the bytes under a digest.

    How each solution ended is for its author and for staff, of whom `is_known` is said: the names
    of wrong ones tell what is looked for. Errors: Failed.
    """
    if not row["report"]:
        return _unchecked(row["unchecked"] or BEFORE)
    try:
        found = read_report(await text(row["report"]))
    except Refused as refused:
        return _unchecked(refused.reason)
    return {
        "state": "clean",
        "reason": "",
        "harness": found.harness,
        "device": found.device,
        "made_at": found.made_at,
        "solutions": len(found.solutions),
        "solutions_found": [_solution(one) for one in found.solutions] if is_known else [],
        "warnings": [f"{one.where}: {one.text}" for one in found.findings],
    }


def _solution(one: SolutionFound) -> shapes.SolutionFound:
    return {
        "name": one.name,
        "kind": one.kind,
        "verdict": one.verdict,
        "as_expected": one.as_expected,
    }


def _unchecked(reason: str) -> shapes.Check:
    return {
        "state": "unchecked",
        "reason": reason,
        "harness": None,
        "device": None,
        "made_at": None,
        "solutions": 0,
        "solutions_found": [],
        "warnings": [],
    }
