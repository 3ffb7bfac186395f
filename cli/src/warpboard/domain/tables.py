"""A table of text: columns and rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.presentation.units import NO_VALUE

NUMBERS = (
    "rank",
    "bytes",
    "number",
    "score",
    "time",
    "samples",
    "version",
    "submissions",
    "pid",
    "seq",
    "place",
    "used",
    "limit",
    "left",
    "waiting",
    "free",
    "busy",
    "after",
    "reached",
)


@dataclass(frozen=True)
class Table:
    """A title, the column names, and the rows; columns named in NUMBERS are right-aligned."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def insert_column(table: Table, name: str, cells: Sequence[str]) -> Table:
    """Insert a column before the last one, unless it is empty."""
    if all(cell == NO_VALUE for cell in cells):
        return table
    rows = [(*row[:-1], cell, *row[-1:]) for row, cell in zip(table.rows, cells, strict=True)]
    return Table(table.title, (*table.columns[:-1], name, *table.columns[-1:]), rows)
