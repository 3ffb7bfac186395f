"""Competition files: a dated set of problems, as the public form writes it (problems.md 2)."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shared.errors import Refused
from shared.problems.document import Document, bad_problem, read_document, shown

FILE = re.compile(r"[^/]+\.ya?ml\Z")
PROBLEMS_MAX = 200
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?: (\d{1,2}):(\d{2}))?\Z")


class Listed(NamedTuple):
    """One problem of a contest: its slug, its folder, and what the contest says of it."""

    slug: str
    directory: str
    deadline_at: datetime | None
    gpus: tuple[str, ...]


def contest(name: str, data: bytes) -> list[Listed] | None:
    """The problems of a competition file, None if it is none. Errors: Refused `bad_problem`."""
    if b"problems:" not in data:
        return None
    document = read_document(name, data)
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("problems"), list):
        return None
    entries = value["problems"]
    if len(entries) > PROBLEMS_MAX:
        raise bad_problem(f"{name}: {len(entries)} problems: at most {PROBLEMS_MAX}", "problems")
    own = _deadline(document, ("deadline",), value.get("deadline"))
    return [_listed(document, index, entry, own) for index, entry in enumerate(entries)]


def _listed(document: Document, index: int, entry: Any, own: datetime | None) -> Listed:
    path = ("problems", index)
    if not isinstance(entry, dict):
        document.refuse(path, f"{shown(entry)} is no problem: write directory and name")
    said = {key: _text(document, (*path, key), entry.get(key)) for key in ("directory", "name")}
    at = _deadline(document, (*path, "deadline"), entry.get("deadline")) or own
    gpus = entry.get("gpus") or []
    if not isinstance(gpus, list) or not all(isinstance(one, str) for one in gpus):
        document.refuse((*path, "gpus"), f"{shown(gpus)} is no list of GPU types")
    return Listed(said["name"].lower(), said["directory"], at, tuple(gpus))


def _text(document: Document, path: tuple[str | int, ...], value: object) -> str:
    if not isinstance(value, str) or not value:
        document.refuse(path, f"{shown(value)} is no text: write one")
    return value


def _deadline(document: Document, path: tuple[str | int, ...], value: object) -> datetime | None:
    if value in (None, ""):
        return None
    at = deadline(value) if isinstance(value, str) else None
    if at is None:
        what = f"{shown(value)} is no deadline: write YYYY-MM-DD HH:MM, in quotes, in UTC"
        document.refuse(path, what)
    return at


def deadline(text: str) -> datetime | None:
    """An instant as a competition file writes it; without a zone it is UTC. None if unreadable.

    >>> str(deadline("2026-01-02")), str(deadline("2026-01-02 9:30"))
    ('2026-01-02 00:00:00+00:00', '2026-01-02 09:30:00+00:00')
    >>> deadline("tomorrow")
    """
    try:
        if match := _DAY.match(text):
            numbers = [int(one or 0) for one in match.groups()]
            return datetime(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], tzinfo=UTC)
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else at.astimezone(UTC)


def with_gpus(files: Mapping[str, bytes], gpus: tuple[str, ...]) -> dict[str, bytes]:
    """A problem's files with the GPU types that its contest says, unless its own say some.

    >>> with_gpus({}, ("H100",))
    {'warpboard.yml': b'gpus: ["H100"]\\n'}
    """
    extras = files.get("warpboard.yml", b"")
    has_own = re.search(rb"^gpus\s*:", extras, re.MULTILINE)
    if not gpus or has_own:
        return dict(files)
    strange = [one for one in gpus if not re.fullmatch(r"[A-Za-z0-9_]{1,32}", one)]
    if strange:
        raise Refused("bad_problem", f"{strange[0]!r} is no GPU type", "gpus")
    own = extras.rstrip() + b"\n" if extras.strip() else b""
    return {**files, "warpboard.yml": own + _line(gpus)}


def _line(gpus: tuple[str, ...]) -> bytes:
    quoted = ", ".join(f'"{one}"' for one in gpus)
    return f"gpus: [{quoted}]\n".encode()
