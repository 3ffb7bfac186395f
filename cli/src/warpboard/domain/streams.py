"""What a submission's stream says, as lines."""

import re
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from warpboard.domain.answers import Answer, Progress, Queue
from warpboard.domain.progress import News, step, waiting
from warpboard.domain.units import NOTHING, one_line, when

# Passing notices are no part of the history: they carry no place in it.
QUEUE, PROGRESS, END = "queue", "progress", "end"
# These say where an event stands, not what it says.
FRAME = ("id", "type", "at", "version", "seq", "number", "submission", "actor", "note")
LENGTH_MAX = 300
DIGEST = re.compile(r"[0-9a-f]{32,}\Z")
DIGEST_CHARS = 12
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT")
FRACTION = re.compile(r"\.\d+")


def line(event: Answer, zone: tzinfo | None = None) -> str:
    """One event of a history: its place, when it was, what it is, what it says.

    >>> from datetime import UTC
    >>> line({"id": 7, "type": "RunStarted", "at": "2026-01-02T03:04:05Z", "agent": "a1"}, UTC)
    '7  2026-01-02 03:04:05  RunStarted  agent=a1'
    """
    place, kind = str(event.get("id", NOTHING)), one_line(str(event.get("type", NOTHING)), 60)
    parts = (place, when(_instant(event.get("at")), zone), kind, _said(event))
    return "  ".join(part for part in parts if part)


def _instant(value: Any) -> datetime | None:
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return None


def _said(event: Answer) -> str:
    if note := event.get("note"):
        return one_line(str(note), LENGTH_MAX)
    rest = (f"{name}={_value(value)}" for name, value in event.items() if name not in FRAME)
    return one_line(" ".join(rest), LENGTH_MAX)


def _value(value: Any) -> str:
    """A value, short enough to be read.

    >>> _value(1.23456789), _value("2026-01-02T03:04:05.678Z"), _value("ab" * 32), _value([1])
    ('1.235', '2026-01-02T03:04:05Z', 'abababababab…', '[1]')
    """
    if isinstance(value, float):
        return f"{value:.4g}"
    if not isinstance(value, str):
        return msgspec.json.encode(value).decode()
    if DIGEST.match(value):
        return f"{value[:DIGEST_CHARS]}…"
    return FRACTION.sub("", value) if INSTANT.match(value) else value


def notice(kind: str, data: Answer) -> News | None:
    """A passing notice as progress; None for one that is none.

    >>> notice("progress", {"stage": "check", "case": "n=1", "done": 0, "total": 2}).sentence
    'check, case 1 of 2: n=1'
    """
    try:
        if kind == QUEUE:
            return waiting(msgspec.convert(data, Queue))
        if kind == PROGRESS:
            return step(msgspec.convert(data, Progress))
    except msgspec.ValidationError:
        pass
    return None
