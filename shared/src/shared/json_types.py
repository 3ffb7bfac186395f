"""Types of fields in JSON input: instants and integers."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator


def parse_instant(value: object) -> object:
    """Parse an instant. Errors: ValueError for anything else.

    >>> parse_instant("2026-11-21T14:00:00Z")
    datetime.datetime(2026, 11, 21, 14, 0, tzinfo=datetime.timezone.utc)
    """
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
            return instant if instant.tzinfo is None else instant.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError("expected an instant such as 2026-11-21T14:00:00Z")


Instant = Annotated[AwareDatetime, BeforeValidator(parse_instant)]
InstantOrNaive = Annotated[datetime, BeforeValidator(parse_instant)]


def parse_json_int(value: object) -> object:
    """Convert a float without a fraction to an integer, as JSON treats it; keep other values.

    >>> parse_json_int(5.0), parse_json_int(5.5), parse_json_int(False)
    (5, 5.5, False)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


JsonInt = Annotated[int, BeforeValidator(parse_json_int)]
