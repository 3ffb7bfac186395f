"""Instants as requests may say them: text alone, for a number is none to any other reader."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BeforeValidator


def text(value: object) -> object:
    """The value, if it is text that begins as a date does. Errors: ValueError for all else.

    >>> text("2026-11-21T14:00:00Z")
    '2026-11-21T14:00:00Z'
    """
    is_date = isinstance(value, str) and value[4:5] == "-"
    if value is None or isinstance(value, datetime) or is_date:
        return value
    raise ValueError("expected an instant such as 2026-11-21T14:00:00Z")


def in_utc(at: datetime) -> datetime:
    """The instant in UTC. Errors: ValueError for one that no calendar of ours has there.

    >>> in_utc(datetime.fromisoformat("2026-11-21T15:00:00+01:00")).isoformat()
    '2026-11-21T14:00:00+00:00'
    """
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("expected an instant of the years 1 to 9999 in UTC") from error


Instant = Annotated[AwareDatetime, BeforeValidator(text), AfterValidator(in_utc)]
SaidInstant = Annotated[datetime, BeforeValidator(text)]
