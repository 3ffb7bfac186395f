"""The `#!POPCORN` lines at the head of a submission."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.errors import Refused

MARKS = ("#!POPCORN", "//!POPCORN")


@dataclass(frozen=True)
class Directives:
    """What a file says of itself: its leaderboard and its GPU types, if it does."""

    leaderboard: str | None = None
    gpus: tuple[str, ...] = ()


def read_directives(text: str) -> Directives:
    """The directives in the leading comment block. Errors: Refused `bad_directive` with the line.

    >>> read_directives("#!POPCORN leaderboard matmul\\n#!POPCORN gpus CPU H100\\nimport torch")
    Directives(leaderboard='matmul', gpus=('CPU', 'H100'))
    """
    found: dict[str, list[str]] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[: _leading(lines)], 1):
        if mark := _mark(line):
            keyword, words = _directive(line.strip()[len(mark) :].split(), number)
            if keyword in found:
                raise _bad(number, f"a second {keyword!r}: say it once")
            found[keyword] = words
    leaderboard = found["leaderboard"][0] if "leaderboard" in found else None
    return Directives(leaderboard, tuple(found.get("gpus", ())))


def late_directives(text: str) -> list[int]:
    """The lines of directives below the leading comment block, where none counts.

    >>> late_directives("import torch\\n#!POPCORN gpus H100\\n")
    [2]
    """
    lines = text.splitlines()
    first = _leading(lines)
    return [number for number, line in enumerate(lines[first:], first + 1) if _mark(line)]


def _leading(lines: Sequence[str]) -> int:
    """How many lines the leading comment block has."""
    for index, line in enumerate(lines):
        if line.strip() and not line.strip().startswith(("#", "//")):
            return index
    return len(lines)


def _mark(line: str) -> str:
    """The mark that a line begins with, "" if none."""
    return next((mark for mark in MARKS if line.strip().upper().startswith(mark)), "")


def _directive(words: list[str], number: int) -> tuple[str, list[str]]:
    if not words:
        raise _bad(number, "no keyword: write leaderboard NAME or gpus A B")
    keyword = words[0].lower()
    if keyword == "gpu":
        keyword = "gpus"
    if keyword not in ("leaderboard", "gpus"):
        raise _bad(number, f"unknown directive {words[0]!r}: leaderboard or gpus")
    if len(words) < 2 or (keyword == "leaderboard" and len(words) > 2):
        raise _bad(number, "leaderboard takes one name, gpus one or more")
    return keyword, words[1:]


def _bad(number: int, what: str) -> Refused:
    return Refused("bad_directive", f"line {number}: {what}", "file")
