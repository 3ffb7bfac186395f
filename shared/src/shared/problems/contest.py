"""Contest files: a dated set of problems, as the public form, *competition*, writes it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from shared.errors import Refused
from shared.problems.document import Document, Path, read_document, shown
from shared.problems.schema import Strict, fitted
from shared.problems.sources import UP, normal
from shared.problems.task_yml import GpuName
from shared.problems.warpboard_yml import NAME

PROBLEMS_MAX = 200
SUFFIXES = (".yaml", ".yml")

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?: (\d{1,2}):(\d{2}))?\Z")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")

GpuNames = Annotated[list[GpuName], Field(max_length=32)]
Text = Annotated[str, Field(min_length=1, max_length=200)]


class Entry(Strict):
    """A problem of a contest file."""

    directory: Text
    name: Text
    deadline: str | None = None
    gpus: GpuNames = Field(default_factory=list)


class ContestYml(Strict):
    """What a contest file says."""

    name: Text
    description: str | None = None
    deadline: str | None = None
    problems: Annotated[list[Entry], Field(max_length=PROBLEMS_MAX)]


class Dated(NamedTuple):
    """A deadline as it is written, and the instant that it means; none where it is empty."""

    text: str
    at: datetime | None


class Listed(NamedTuple):
    """One problem of a contest: its slug, its folder, and what the contest says of it."""

    slug: str
    directory: str
    deadline_at: datetime | None
    gpus: tuple[str, ...]
    warning: str = ""


def contest(name: str, data: bytes) -> list[Listed] | None:
    """The problems of a contest file, None if it is none. Errors: Refused `bad_problem`."""
    if b"problems:" not in data:
        return None
    document = read_document(name, data)
    if not isinstance(document.value, dict) or "problems" not in document.value:
        return None
    said = fitted(document, ContestYml)
    own = _deadline(document, ("deadline",), said.deadline)
    dated = Dated(said.deadline or "", own)
    listed = [_listed(document, index, one, dated) for index, one in enumerate(said.problems)]
    slugs = [one.slug for one in listed]
    for index, slug in enumerate(slugs):
        if slug in slugs[:index]:
            what = f"a second problem of the name {shown(slug)}: give it another"
            document.refuse(("problems", index, "name"), what)
    return listed


def deadline(text: str) -> datetime | None:
    """An instant as a contest file writes it; without a zone it is UTC. None if unreadable.

    >>> str(deadline("2026-01-02")), str(deadline("2026-01-02 9:30"))
    ('2026-01-02 00:00:00+00:00', '2026-01-02 09:30:00+00:00')
    >>> deadline("tomorrow")
    """
    try:
        if match := _DAY.match(text):
            numbers = [int(one or 0) for one in match.groups()]
            return datetime(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], tzinfo=UTC)
        at = datetime.fromisoformat(text)
        return None if at.tzinfo is None else at.astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def is_zoneless(text: str) -> bool:
    """Whether a deadline names no zone, and so is taken for UTC.

    >>> is_zoneless("2026-01-02 9:30"), is_zoneless("2026-01-02T09:30:00Z")
    (True, False)
    """
    return _DAY.match(text) is not None


def with_gpus(files: Mapping[str, bytes], gpus: tuple[str, ...]) -> dict[str, bytes]:
    """A problem's files with the GPU types that its contest says, unless its own say some.

    >>> with_gpus({}, ("H100",))
    {'warpboard.yml': b'gpus: ["H100"]\\n'}
    """
    extras = files.get(NAME, b"")
    has_own = re.search(rb"^gpus\s*:", extras, re.MULTILINE)
    if not gpus or has_own:
        return dict(files)
    strange = [one for one in gpus if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", one)]
    if strange:
        raise Refused("bad_problem", f"{strange[0]!r} is no GPU type", "gpus")
    own = extras.rstrip() + b"\n" if extras.strip() else b""
    return {**files, NAME: own + _line(gpus)}


def _listed(document: Document, index: int, entry: Entry, contests: Dated) -> Listed:
    path: Path = ("problems", index)
    if not _SLUG.match(entry.name):
        what = f"{shown(entry.name)} names no leaderboard: a-z 0-9 _ -, at most 64"
        document.refuse((*path, "name"), what)
    inside = normal(entry.directory)
    if inside is None or inside.startswith(UP) or inside == "..":
        what = f"{shown(entry.directory)} leads out of the folder of this file"
        document.refuse((*path, "directory"), f"{what}: name one in it")
    at = _deadline(document, (*path, "deadline"), entry.deadline)
    text, at = (entry.deadline or "", at) if at else contests
    warning = ""
    if at is not None and _DAY.match(text):
        warning = f"the deadline {text} names no zone: it is {at:%Y-%m-%d %H:%M} UTC"
    return Listed(entry.name.lower(), inside, at, tuple(entry.gpus), warning)


def _deadline(document: Document, path: Path, value: str | None) -> datetime | None:
    at = deadline(value) if value else None
    if value and at is None:
        what = f"{shown(value)} is no deadline: write YYYY-MM-DD HH:MM, in quotes, in UTC"
        document.refuse(path, what)
    return at


def _line(gpus: tuple[Any, ...]) -> bytes:
    quoted = ", ".join(f'"{one}"' for one in gpus)
    return f"gpus: [{quoted}]\n".encode()
