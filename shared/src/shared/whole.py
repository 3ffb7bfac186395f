"""Whole numbers as they come in from outside."""

from typing import Annotated

from pydantic import BeforeValidator


def read(value: object) -> object:
    """A float without a fraction as the integer that it is to JSON; the rest is not touched.

    >>> read(5.0), read(5.5), read(False)
    (5, 5.5, False)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(read)]
