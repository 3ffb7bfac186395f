"""Compare two submissions, and export the caller's results."""

import csv
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shared.api.leaderboards import Comparison
from shared.api.submissions import OwnSubmissions
from shared.presentation.report_parts import ProgressText
from shared.presentation.responses import JsonObject
from shared.presentation.units import (
    NO_VALUE,
    count_text,
    escape_control_characters,
    one_line,
    time_text,
)
from warpboard.domain.exit_codes import OK
from warpboard.domain.tables import Table
from warpboard.service.ports import Api, Disk, Screen

PAGE = 200
PAGES_MAX = 500
COLUMNS = (
    *("number", "problem", "problem_version", "gpu", "mode", "name", "state", "outcome"),
    *("verdict", "code", "is_eligible", "result_version", "score_us", "is_withdrawn"),
    "received_at",
)


@dataclass(frozen=True)
class ExportOptions:
    """How to export results: as json or csv, to a file or to stdout."""

    format: str
    output: Path | None
    as_json: bool


async def diff(api: Api, screen: Screen, a: int, b: int, *, as_json: bool) -> int:
    """Show the differences of two submissions. Raises Refused and Failed."""
    answer = await api.get(Comparison, "compare", a=a, b=b)
    if as_json:
        screen.json(answer.document)
        return OK
    compared = answer.value
    if compared.diff:
        screen.marked(mark_diff_lines(compared.diff))
    else:
        screen.say(
            "the sources are equal" if compared.diff == "" else "you may not see both sources"
        )
    table = comparison_table(a, b, compared)
    if table.rows:
        screen.table(table)
    return OK


async def iterate_own_submissions(api: Api, problem: str | None) -> AsyncIterator[JsonObject]:
    """Yield the caller's submissions, newest first. Raises Refused and Failed."""
    query: dict[str, str | float] = {"limit": PAGE}
    if problem:
        query["problem"] = problem
    for _ in range(PAGES_MAX):
        page = await api.get(OwnSubmissions, "me", "submissions", **query)
        for item in page.document["items"]:
            yield item
        if not (cursor := page.value.next_cursor):
            return
        query["cursor"] = cursor


def format_csv(items: list[JsonObject]) -> str:
    r"""Format results as CSV, one line each; unknown values are empty.

    >>> format_csv([{"number": 3, "problem": "p"}]).splitlines()[1]
    '3,p,,,,,,,,,,,,,'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([item.get(name) for name in COLUMNS] for item in items)
    return text.getvalue()


async def export(
    api: Api, disk: Disk, screen: Screen, problem: str | None, options: ExportOptions
) -> int:
    """Export the caller's results as JSON or CSV. Raises Refused and Failed."""
    items: list[JsonObject] = []
    with screen.live(["export"]) as live:
        async for item in iterate_own_submissions(api, problem):
            items.append(item)
            if len(items) % PAGE == 0:
                live.show("export", ProgressText(count_text(len(items), "submission")))
    document = {"submissions": items}
    if options.format == "csv":
        text = format_csv(items)
    else:
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    if options.output is None:
        screen.text(text)
        return OK
    disk.write(options.output, text.encode())
    written = {"file": str(options.output), "submissions": len(items)}
    if options.as_json:
        screen.json(written)
    else:
        screen.say(f"{options.output} holds {count_text(len(items), 'submission')}")
    return OK


def comparison_table(a: int, b: int, comparison: Comparison) -> Table:
    """List each case's times and their ratio, and last those of the scores."""
    score = comparison.score
    is_scored = score is not None and (score.a_us is not None or score.b_us is not None)
    deltas = [*comparison.cases, *([score] if score is not None and is_scored else [])]
    rows = [
        (
            one_line(delta.name),
            time_text(delta.a_us),
            time_text(delta.b_us),
            _ratio_text(delta.ratio),
            NO_VALUE if delta.ci95 is None else " to ".join(map(_ratio_text, delta.ci95)),
            one_line(delta.outcome) or NO_VALUE,
        )
        for delta in deltas
    ]
    columns = ("case", f"number {a}", f"number {b}", "ratio", "95 %", "outcome")
    return Table(f"submission {a} against {b}", columns, rows)


def _ratio_text(ratio: float | None) -> str:
    """Format a ratio.

    >>> _ratio_text(0.5), _ratio_text(1.23456), _ratio_text(None)
    ('0.500', '1.235', '-')
    """
    return NO_VALUE if ratio is None else f"{ratio:.3f}"


def mark_diff_lines(diff: str) -> list[tuple[str, str]]:
    r"""Return the lines of a diff with their kinds: added, removed, place, or "".

    >>> mark_diff_lines("@@ -1 +1 @@\n-a\n+b\n c")
    [('place', '@@ -1 +1 @@'), ('removed', '-a'), ('added', '+b'), ('', ' c')]
    """
    kinds = (("+++", "place"), ("---", "place"), ("@@", "place"), ("+", "added"), ("-", "removed"))
    lines = [escape_control_characters(line) for line in diff.splitlines()]
    marked = (
        (next((kind for mark, kind in kinds if line.startswith(mark)), ""), line) for line in lines
    )
    return list(marked)
