"""Rosters: the participants of a class as a CSV file, each with a role and limits."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shared.errors import Refused
from warpboard.domain.names import PARTICIPANT

ROLES = ("participant", "creator", "moderator", "admin")
COLUMNS = ("name", "role", "limits")
ROWS_MAX = 10_000
PROBLEMS_SHOWN_MAX = 20
LIMIT_MAX = 1_000_000
WINDOWS_S = {"minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
_LIMIT = re.compile(
    r"(?:(?:(?P<slug>\*|[a-z0-9][a-z0-9_-]{0,63})\.)?(?P<gpu>\*|[A-Za-z0-9][A-Za-z0-9_-]{0,39})\.)?"
    r"(?P<category>test|ranked)=(?P<limit>[0-9]{1,7})/(?P<window>minute|hour|day|week)\Z"
)


@dataclass(frozen=True)
class Limit:
    """How many submissions of a bucket a participant may send in a window."""

    bucket: str
    limit: int
    window_s: float


@dataclass(frozen=True)
class Person:
    """A row of a roster; a `role` of participant gives no further rights."""

    line: int
    name: str
    role: str
    limits: Sequence[Limit]


def parse_limit(text: str) -> Limit:
    """Parse a limit; parts of the bucket that are left out mean all. Raises `ValueError`.

    >>> parse_limit("ranked=10/day")
    Limit(bucket='*.*.ranked', limit=10, window_s=86400.0)
    >>> parse_limit("matmul.H100.test=60/hour").bucket
    'matmul.H100.test'
    """
    match = _LIMIT.match(text)
    if match is None or int(match["limit"]) > LIMIT_MAX:
        raise ValueError(
            f"{text!r} is not a limit: expected ranked=10/day, H100.test=60/hour or "
            "matmul.H100.ranked=5/week"
        )
    bucket = f"{match['slug'] or '*'}.{match['gpu'] or '*'}.{match['category']}"
    return Limit(bucket, int(match["limit"]), WINDOWS_S[match["window"]])


def parse_roster(lines: Iterable[str], role: str, limits: Sequence[Limit]) -> list[Person]:
    """Return the rows of a roster; `role` and `limits` apply where a row has none.

    Raises `Refused` (`bad_roster`) with every wrong row, by its line and column.
    """
    reader = csv.reader(lines, strict=True)
    people, problems = list[Person](), list[str]()
    try:
        columns = [column.strip().lower() for column in next(reader, [])]
        _check_columns(columns)
        names = set[str]()
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            line = reader.line_num
            row_problems = list(_find_problems(columns, cells, names))
            problems += [f"line {line}, {problem}" for problem in row_problems]
            if not row_problems:
                people.append(_parse_person(line, columns, cells, role, limits))
    except csv.Error as error:
        problems.append(f"line {reader.line_num}, not CSV: {error}")
    if len(people) > ROWS_MAX:
        problems.append(f"{len(people):,} rows: at most {ROWS_MAX:,} at once")
    if not (people or problems):
        problems.append("there are no rows below the header")
    if problems:
        raise wrong_rows(problems)
    return people


def wrong_rows(problems: Sequence[str]) -> Refused:
    """Return the refusal of a roster with these problems."""
    lines = list(problems[:PROBLEMS_SHOWN_MAX])
    if hidden := len(problems) - len(lines):
        lines.append(f"and {hidden} more")
    return Refused("bad_roster", f"nobody was created: {'; '.join(lines)}", "file")


def _check_columns(columns: Sequence[str]) -> None:
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown or "name" not in columns or len(set(columns)) < len(columns):
        problem = f"unknown column {unknown[0]!r}" if unknown else "the header has no column name"
        if not unknown and "name" in columns:
            problem = "a column occurs twice"
        raise wrong_rows([f"line 1, {problem}: expected name, and perhaps role and limits"])


def _find_problems(columns: Sequence[str], cells: Sequence[str], names: set[str]) -> Iterator[str]:
    """Yield what is wrong with a row, with the column; count its name as taken."""
    if len(cells) != len(columns):
        yield f"{len(cells)} fields: the header has {len(columns)}"
        return
    row = _row(columns, cells)
    if not PARTICIPANT.match(row["name"]):
        yield f"name: {row['name']!r} is not 1 to 32 of a-z 0-9 _ -, first a letter or digit"
    if row["name"] in names:
        yield f"name: {row['name']!r} is on another row, too"
    names.add(row["name"])
    if row.get("role") and row["role"] not in ROLES:
        yield f"role: {row['role']!r} is not one of {', '.join(ROLES)}"
    for text in row.get("limits", "").split():
        try:
            parse_limit(text)
        except ValueError as error:
            yield f"limits: {error}"


def _parse_person(
    line: int, columns: Sequence[str], cells: Sequence[str], role: str, limits: Sequence[Limit]
) -> Person:
    row = _row(columns, cells)
    own_limits = [parse_limit(text) for text in row.get("limits", "").split()]
    return Person(line, row["name"], row.get("role") or role, own_limits or limits)


def _row(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    return {column: cell.strip() for column, cell in zip(columns, cells, strict=True)}
