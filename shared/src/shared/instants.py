"""Instants as requests may say them: text alone, for a number is none to any other reader."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator


def text(value: object) -> object:
    """The value, if it is text that begins as a date does. Errors: ValueError for all else.

    >>> text("2026-11-21T14:00:00Z")
    '2026-11-21T14:00:00Z'
    """
    is_date = isinstance(value, str) and value[4:5] == "-"
    if value is None or isinstance(value, datetime) or is_date:
        return value
    raise ValueError("expected an instant such as 2026-11-21T14:00:00Z")


Instant = Annotated[AwareDatetime, BeforeValidator(text)]
SaidInstant = Annotated[datetime, BeforeValidator(text)]
