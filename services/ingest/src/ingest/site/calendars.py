"""Calendars of instants and phases, for calendar programs. Source: RFC 5545."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlsplit

MEDIA_TYPE = "text/calendar"
# RFC 5545, section 3.1: octets of a line, without its end.
LINE_BYTES_MAX = 75
TIME_FORMAT = "%Y%m%dT%H%M%SZ"


class CalendarEvent(NamedTuple):
    """An event of a calendar; without `ends_at` it is an instant, such as a deadline."""

    id: str
    title: str
    description: str
    url: str
    starts_at: datetime
    ends_at: datetime | None = None


def render_calendar(
    title: str, calendar_events: Iterable[CalendarEvent], public_url: str, at: datetime
) -> str:
    """Return events as iCalendar, made at an instant."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Warpboard//Calendar//EN",
        f"X-WR-CALNAME:{escape_text(title)}",
    ]
    for event in calendar_events:
        lines += _event_lines(event, public_url, at)
    return "".join(f"{fold_line(line)}\r\n" for line in (*lines, "END:VCALENDAR"))


def _event_lines(event: CalendarEvent, public_url: str, at: datetime) -> Iterator[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{event.id}@{urlsplit(public_url).hostname}"
    yield f"DTSTAMP:{at.strftime(TIME_FORMAT)}"
    yield f"DTSTART:{event.starts_at.astimezone(UTC).strftime(TIME_FORMAT)}"
    if event.ends_at is not None:
        yield f"DTEND:{event.ends_at.astimezone(UTC).strftime(TIME_FORMAT)}"
    yield f"SUMMARY:{escape_text(event.title)}"
    yield f"DESCRIPTION:{escape_text(event.description)}"
    yield f"URL:{event.url}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def escape_text(text: str) -> str:
    r"""Escape a text of iCalendar.

    >>> print(escape_text("a;b,c\\d\ne"))
    a\;b\,c\\d\ne
    """
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return text


def fold_line(line: str) -> str:
    r"""Fold a long line of iCalendar, never within a character.

    >>> [len(part.encode()) for part in fold_line("é" * 80).split("\r\n")]
    [74, 75, 13]
    """
    parts, size = [""], 0
    for character in line:
        character_bytes = len(character.encode())
        if size + character_bytes > LINE_BYTES_MAX:
            parts.append(" ")
            size = 1
        parts[-1] += character
        size += character_bytes
    return "\r\n".join(parts)
