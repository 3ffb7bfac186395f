"""What a command leaves: a table of text, and an exit code."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any

from shared.presentation.units import NO_VALUE, instant_text

OK = 0
FAILED = 1
REFUSED = 2
INFRASTRUCTURE = 3
QUOTA = 4
NOT_RANKED = 5
INTERRUPTED = 130
UNREAD = 141
TERMINATED = 143
EXIT_CODES = """Exit codes: 0 passed or done, 1 not passed or no, 2 refused, 3 infrastructure,
4 quota used up, 5 not ranked, 130 interrupted, 141 no reader, 143 stopped."""
_SEVERITY = (OK, NOT_RANKED, FAILED, QUOTA, REFUSED, INFRASTRUCTURE)


def worst(codes: Iterable[int]) -> int:
    """Return the exit code for several things done at once.

    >>> worst([0, 5, 1]), worst([])
    (1, 0)
    """
    return max(codes, key=_SEVERITY.index, default=OK)


NUMBERS = (
    *("rank", "bytes", "number", "score", "time", "samples", "version", "submissions", "pid"),
    *("seq", "place", "used", "limit", "left", "waiting", "free", "busy", "after", "reached"),
)


@dataclass(frozen=True)
class Table:
    """A title, the column names, and the rows; columns named in NUMBERS are right-aligned.

    `extra` columns are left out, in this order, where the lines are too short for all.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    extra: Sequence[str] = ()

    def without(self, name: str) -> "Table":
        """Return the table without a column.

        >>> Table("t", ("a", "b"), [("1", "2")]).without("a")
        Table(title='t', columns=('b',), rows=[('2',)], extra=())
        """
        places = [place for place, column in enumerate(self.columns) if column != name]
        columns, *rows = (
            tuple(row[place] for place in places) for row in (self.columns, *self.rows)
        )
        return replace(self, columns=columns, rows=rows)


def make_table(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    zone: tzinfo | None = None,
    optional: Collection[str] = (),
    extra: Sequence[str] = (),
) -> Table:
    """Make a table of values by column; `optional` columns without any value are left out.

    `extra` columns are left out where lines are too short.

    >>> make_table("t", [{"a": 1, "b": None, "c": ["x", "y"]}], optional=("b",))
    Table(title='t', columns=['a', 'c'], rows=[('1', 'x y')], extra=())
    """
    cells = [{name: _cell(value, zone) for name, value in row.items()} for row in rows]
    columns = [
        name
        for name in (rows[0] if rows else ())
        if name not in optional or any(row[name] != NO_VALUE for row in cells)
    ]
    return Table(title, columns, [tuple(row[name] for name in columns) for row in cells], extra)


def _cell(value: Any, zone: tzinfo | None) -> str:
    if isinstance(value, datetime):
        return instant_text(value, zone)
    if isinstance(value, (list, tuple)):
        return " ".join(value) or NO_VALUE
    return NO_VALUE if value is None else str(value)
