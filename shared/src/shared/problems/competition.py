"""Competition files: a dated set of problems in the public form, *competition*."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from pydantic import Field

from shared.errors import Refused
from shared.problems.contest_yml import is_contest_yml
from shared.problems.document import (
    Document,
    Path,
    StrictModel,
    quote_value,
    read_document,
    validate_document,
)
from shared.problems.sources import UP, normalize_path
from shared.problems.task_yml import GpuName
from shared.problems.warpboard_yml import NAME

PROBLEMS_MAX = 200
SUFFIXES = (".yaml", ".yml")

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?: (\d{1,2}):(\d{2}))?\Z")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")

GpuNames = Annotated[list[GpuName], Field(max_length=32)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class CompetitionEntry(StrictModel):
    """One problem in a competition file."""

    directory: Text
    name: Text
    deadline: str | None = None
    gpus: GpuNames = Field(default_factory=list)


class CompetitionYml(StrictModel):
    """The contents of a competition file."""

    name: Text
    description: str | None = None
    deadline: str | None = None
    problems: Annotated[list[CompetitionEntry], Field(max_length=PROBLEMS_MAX)]


class CompetitionProblem(NamedTuple):
    """One problem of a competition: its slug, its folder, and its settings there."""

    slug: str
    directory: str
    deadline_at: datetime | None
    gpus: tuple[str, ...]
    warning: str = ""


def read_competition(name: str, data: bytes) -> list[CompetitionProblem] | None:
    """Return the problems of a competition file; None for any other file, such as a contest.yml.

    Errors: Refused `bad_problem`.
    """
    if b"problems:" not in data:
        return None
    document = read_document(name, data)
    if not isinstance(document.value, dict) or "problems" not in document.value:
        return None
    if is_contest_yml(document.value):
        return None
    file = validate_document(document, CompetitionYml)
    default = file.deadline or "", _read_deadline(document, ("deadline",), file.deadline)
    problems = [
        _competition_problem(document, index, entry, default)
        for index, entry in enumerate(file.problems)
    ]
    slugs = [problem.slug for problem in problems]
    for index, slug in enumerate(slugs):
        if slug in slugs[:index]:
            reason = f"a second problem is named {quote_value(slug)}: rename one of them"
            document.refuse(("problems", index, "name"), reason)
    return problems


def parse_deadline(text: str) -> datetime | None:
    """Parse a deadline of a competition file; without a zone it is UTC. None if unreadable.

    >>> str(parse_deadline("2026-01-02")), str(parse_deadline("2026-01-02 9:30"))
    ('2026-01-02 00:00:00+00:00', '2026-01-02 09:30:00+00:00')
    >>> parse_deadline("tomorrow")
    """
    try:
        if match := _DAY.match(text):
            year, month, day, hour, minute = (int(digits or 0) for digits in match.groups())
            return datetime(year, month, day, hour, minute, tzinfo=UTC)
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def is_zoneless(text: str) -> bool:
    """Return whether a deadline has no zone, and is therefore taken as UTC.

    >>> is_zoneless("2026-01-02 9:30"), is_zoneless("2026-01-02T09:30:00Z")
    (True, False)
    """
    return _DAY.match(text) is not None


def add_competition_gpus(files: Mapping[str, bytes], gpus: tuple[str, ...]) -> dict[str, bytes]:
    """Add the competition's GPU types to a problem's files, unless the files name their own.

    >>> add_competition_gpus({}, ("H100",))
    {'warpboard.yml': b'gpus: ["H100"]\\n'}
    """
    extras = files.get(NAME, b"")
    has_own_gpus = re.search(rb"^gpus\s*:", extras, re.MULTILINE)
    if not gpus or has_own_gpus:
        return dict(files)
    invalid = [gpu for gpu in gpus if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", gpu)]
    if invalid:
        raise Refused("bad_problem", f"{invalid[0]!r} is not a GPU type", "gpus")
    existing = extras.rstrip() + b"\n" if extras.strip() else b""
    quoted_gpus = ", ".join(f'"{gpu}"' for gpu in gpus)
    return {**files, NAME: existing + f"gpus: [{quoted_gpus}]\n".encode()}


def _competition_problem(
    document: Document, index: int, entry: CompetitionEntry, default: tuple[str, datetime | None]
) -> CompetitionProblem:
    """Check one problem; without a deadline of its own it has the default, as text and instant."""
    path: Path = ("problems", index)
    if not _SLUG.match(entry.name):
        reason = f"{quote_value(entry.name)} is not a leaderboard name: use a-z 0-9 _ -, at most 64"
        document.refuse((*path, "name"), reason)
    folder = normalize_path(entry.directory)
    if folder is None or folder.startswith(UP) or folder == "..":
        reason = f"{quote_value(entry.directory)} is outside the folder of this file"
        document.refuse((*path, "directory"), f"{reason}: name a folder inside it")
    at = _read_deadline(document, (*path, "deadline"), entry.deadline)
    text, at = (entry.deadline or "", at) if at else default
    warning = ""
    if at is not None and _DAY.match(text):
        warning = f"the deadline {text} names no zone: it is {at:%Y-%m-%d %H:%M} UTC"
    return CompetitionProblem(entry.name.lower(), folder, at, tuple(entry.gpus), warning)


def _read_deadline(document: Document, path: Path, value: str | None) -> datetime | None:
    at = parse_deadline(value) if value else None
    if value and at is None:
        reason = f"{quote_value(value)} is no deadline: write YYYY-MM-DD HH:MM, in quotes, in UTC"
        document.refuse(path, reason)
    return at
