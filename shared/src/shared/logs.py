"""Log lines: one JSON object a line on stderr, each at most 8 KiB."""

import json
import logging
import sys
from datetime import UTC, datetime

LINE_BYTES_MAX = 8 * 1024

# What logging itself puts into a record; anything else came as a field, by `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _cut(value: object, most: int) -> object:
    """A value whose text has at most about `most` characters: its head and its tail."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) <= most:
        return value
    half = most // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters left out … {text[-half:]}"


def line(fields: dict[str, object]) -> str:
    r"""One log line; long values lose their middle until all of it fits into 8 KiB.

    >>> line({"message": "job j1 was queued", "wait_s": 0.5})
    '{"message": "job j1 was queued", "wait_s": 0.5}'
    >>> len(line({"message": "x" * 100_000})) <= LINE_BYTES_MAX
    True
    """
    text = json.dumps(fields, default=str)
    most = LINE_BYTES_MAX // 2
    while len(text) > LINE_BYTES_MAX and most >= 16:
        text = json.dumps({key: _cut(value, most) for key, value in fields.items()}, default=str)
        most //= 2
    if len(text) > LINE_BYTES_MAX:
        head = dict(list(fields.items())[:4])
        return line(head | {"message": _cut(str(fields.get("message")), 1000), "cut": len(fields)})
    return text


class _Lines(logging.Formatter):
    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "message": record.getMessage(),
            "logger": record.name,
        }
        fields |= {key: value for key, value in vars(record).items() if key not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return line(fields)


def configure(service: str) -> None:
    """Send every log line of this process to stderr as JSON, warnings of Python among them.

    Fields given by `extra=` stand beside the message; an exception is one field.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(service))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    # Whoever borrows a connection tells what is wrong, and rarely; the pool tells of every one.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    # It tells of every request, of which there is no end.
    logging.getLogger("httpx").setLevel(logging.WARNING)
