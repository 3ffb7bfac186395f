"""Comparing two submissions, and carrying one's results away."""

import csv
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from warpboard.domain import comparison
from warpboard.domain.answers import Answer, read
from warpboard.domain.comparison import Comparison
from warpboard.domain.outcome import OK
from warpboard.domain.progress import News
from warpboard.domain.units import count_text
from warpboard.service.ports import Api, Disk, Screen

PAGE = 200
PAGES_MAX = 500
COLUMNS = (
    *("number", "problem", "problem_number", "gpu", "mode", "name", "state", "outcome"),
    *("verdict", "code", "is_eligible", "result_version", "score_us", "is_withdrawn"),
    "received_at",
)


@dataclass(frozen=True)
class Wanted:
    """How results are carried away: as json or csv, to a file or to stdout."""

    format: str
    output: Path | None
    as_json: bool


async def diff(api: Api, screen: Screen, a: int, b: int, *, as_json: bool) -> int:
    """What differs between two submissions. Errors: Refused; Failed."""
    answer = await api.get("compare", a=a, b=b)
    if as_json:
        screen.json(answer)
        return OK
    found = read(answer, Comparison)
    if found.diff:
        screen.marked(comparison.marks(found.diff))
    else:
        screen.say("the sources are equal" if found.diff == "" else "you may not see both sources")
    table = comparison.cases(a, b, found)
    if table.rows:
        screen.table(table)
    return OK


async def mine(api: Api, problem: str | None) -> AsyncIterator[Answer]:
    """One's own submissions, newest first, page by page. Errors: Refused; Failed."""
    asked: dict[str, str | float] = {"limit": PAGE}
    if problem:
        asked["problem"] = problem
    for _ in range(PAGES_MAX):
        page = await api.get("me", "submissions", **asked)
        for item in page["items"]:
            yield item
        if not (cursor := page.get("next_cursor")):
            return
        asked["cursor"] = cursor


def as_csv(items: list[Answer]) -> str:
    r"""Results as CSV, a line each; what is not known is empty.

    >>> as_csv([{"number": 3, "problem": "p"}]).splitlines()[1]
    '3,p,,,,,,,,,,,,,'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([item.get(name) for name in COLUMNS] for item in items)
    return text.getvalue()


async def export(api: Api, disk: Disk, screen: Screen, problem: str | None, wanted: Wanted) -> int:
    """One's own results as JSON or CSV, to a file or to stdout. Errors: Refused; Failed."""
    items: list[Answer] = []
    with screen.live(["export"]) as live:
        async for item in mine(api, problem):
            items.append(item)
            if len(items) % PAGE == 0:
                live.show("export", News(count_text(len(items), "submission")))
    document = {"submissions": items}
    if wanted.format == "csv":
        text = as_csv(items)
    else:
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    if wanted.output is None:
        screen.text(text)
        return OK
    disk.write(wanted.output, text.encode())
    said = {"file": str(wanted.output), "submissions": len(items)}
    if wanted.as_json:
        screen.json(said)
    else:
        screen.say(f"{wanted.output} holds {count_text(len(items), 'submission')}")
    return OK
