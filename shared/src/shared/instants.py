"""Instants as requests may say them: text alone, for a number is none to any other reader."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator


def read(value: object) -> object:
    """The instant that a text says. Errors: ValueError for what says none.

    >>> read("2026-11-21T14:00:00Z")
    datetime.datetime(2026, 11, 21, 14, 0, tzinfo=datetime.timezone.utc)
    """
    if value is None or isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            said = datetime.fromisoformat(value)
            return said if said.tzinfo is None else said.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError("expected an instant such as 2026-11-21T14:00:00Z")


Instant = Annotated[AwareDatetime, BeforeValidator(read)]
SaidInstant = Annotated[datetime, BeforeValidator(read)]
