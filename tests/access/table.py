"""The tables of docs/access.md: the result of each route for each caller."""

import re
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
YES = "yes"
# How a caller is refused; other statuses depend on the request.
OUT = (401, 403, 404)


def table(heading: str) -> Mapping[str, Mapping[str, str]]:
    """Return the first table under a heading, by route and caller."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert text, f"docs/access.md has no part {heading!r}"
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    callers = rows[0][1:]
    cells = {row[0].strip("`"): dict(zip(callers, row[1:], strict=True)) for row in rows[2:]}
    assert len(cells) == len(rows) - 2, "a route is in the table twice"
    return cells


def cell(status: int) -> str:
    """Return what a table says for a status."""
    assert status < 500, f"answered {status}"
    return str(status) if status in OUT else YES


def matches_route(template: str, path: str) -> bool:
    """Return whether a path matches the path of a route.

    >>> matches_route("/v1/problems/{slug}", "/v1/problems/club?version=1")
    True
    """
    pattern = re.sub(r"\{\w+\}", "[^/]+", template.replace("{path:path}", ".+"))
    return bool(re.fullmatch(pattern, path.partition("?")[0]))
