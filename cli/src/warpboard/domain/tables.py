"""A table of text: columns and rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from shared.presentation.units import NO_VALUE, instant_text

NUMBERS = (
    *("rank", "bytes", "number", "score", "time", "samples", "version", "submissions", "pid"),
    *("seq", "place", "used", "limit", "left", "waiting", "free", "busy", "after", "reached"),
)


@dataclass(frozen=True)
class Table:
    """A title, the column names, and the rows; columns named in NUMBERS are right-aligned."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def make_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    zone: tzinfo | None = None,
    optional: Collection[str] = (),
) -> Table:
    """Make a table of values by column; `optional` columns without any value are left out.

    >>> make_table("t", [{"a": 1, "b": None, "c": ["x", "y"]}], optional=("b",))
    Table(title='t', columns=['a', 'c'], rows=[('1', 'x y')])
    """
    cells = [{name: _cell(value, zone) for name, value in row.items()} for row in rows]
    columns = [
        name
        for name in (rows[0] if rows else ())
        if name not in optional or any(row[name] != NO_VALUE for row in cells)
    ]
    return Table(title, columns, [tuple(row[name] for name in columns) for row in cells])


def _cell(value: Any, zone: tzinfo | None) -> str:
    if isinstance(value, datetime):
        return instant_text(value, zone)
    if isinstance(value, (list, tuple)):
        return " ".join(value) or NO_VALUE
    return NO_VALUE if value is None else str(value)
