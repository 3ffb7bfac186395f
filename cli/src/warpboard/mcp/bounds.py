"""How much a tool says at most, and how it says what it left out: a model's context is small."""

from typing import TypeVar

from warpboard.domain.units import harmless

T = TypeVar("T")

FILE_CHARS_MAX = 24_000
FILES_CHARS_MAX = 60_000
TEXT_CHARS = 8_000
TEXT_CHARS_MAX = 40_000
MESSAGE_CHARS_MAX = 1_200


def head(text: str, chars_max: int) -> tuple[str, str]:
    """The beginning of a text with its control characters shown, and what was cut, if anything.

    >>> head("abcdef", 4)
    ('abcd', 'the last 2 of 6 characters')
    >>> head("abc", 4)
    ('abc', '')
    """
    shown = harmless(text)
    left = len(shown) - chars_max
    if left <= 0:
        return shown, ""
    return shown[:chars_max], f"the last {left:,} of {len(shown):,} characters"


def tail(text: str, chars_max: int) -> tuple[str, str]:
    """The end of a text, as head gives its beginning.

    >>> tail("abcdef", 4)
    ('cdef', 'the first 2 of 6 characters')
    """
    shown = harmless(text)
    left = len(shown) - chars_max
    if left <= 0:
        return shown, ""
    return shown[left:], f"the first {left:,} of {len(shown):,} characters"


def brief(text: str) -> str:
    """A message that is one of many, cut where it gets long.

    >>> brief("short")
    'short'
    """
    shown, _ = head(text, MESSAGE_CHARS_MAX)
    return shown if len(shown) < MESSAGE_CHARS_MAX else f"{shown}…"


def first(items: list[T], count_max: int, what: str) -> tuple[list[T], list[str]]:
    """The first of many, and a line about the others.

    >>> first([1, 2, 3], 2, "cases")
    ([1, 2], ['1 more cases of 3'])
    """
    left = len(items) - count_max
    return (
        (items, []) if left <= 0 else (items[:count_max], [f"{left} more {what} of {len(items)}"])
    )
