"""The tables of docs/access.md: what each caller gets of each route."""

import re
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
YES = "yes"
# How somebody is kept out; what else is answered comes from what was asked.
OUT = (401, 403, 404)


def table(heading: str) -> Mapping[str, Mapping[str, str]]:
    """The first table under a heading: by route and by caller."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert text, f"docs/access.md has no part {heading!r}"
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    callers = rows[0][1:]
    found = {row[0].strip("`"): dict(zip(callers, row[1:], strict=True)) for row in rows[2:]}
    assert len(found) == len(rows) - 2, "a route is twice in the table"
    return found


def cell(status: int) -> str:
    """What a table says of an answer."""
    assert status < 500, f"answered {status}"
    return str(status) if status in OUT else YES


def is_of(template: str, path: str) -> bool:
    """Whether a path is one of a route's.

    >>> is_of("/v1/problems/{slug}", "/v1/problems/club?version=1")
    True
    """
    return bool(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path.partition("?")[0]))
