"""A problem's statement as Discord can show it: it knows no table, no formula, no broken line."""

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

FENCE = "```"
TABLE = re.compile(r"\s*\|")
RULE = re.compile(r"[\s|:-]+$")
FORMULA = re.compile(r"(?<![\\$])\$(\S(?:[^$\n]*?\S)?)\$(?!\$)")
# A line that begins something of its own, wherever the one before it ended.
BEGINS = re.compile(r"\s*(?:[-*+>]\s|#{1,6}\s|\d{1,3}[.)]\s)")
MORE = "…"


def drawn(text: str, length_max: int) -> str:
    r"""As many whole blocks of Markdown as there is room for; a sign says that there are more.

    >>> drawn("# Sum\n\nAdd the\nrows of $x$.\n\n$$\\sum x$$", 100)
    '# Sum\n\nAdd the rows of `x`.\n\n```\n\\sum x\n```'
    >>> drawn("| | shape |\n|---|---|\n| `x` | `[n]` |", 100)
    '```\n   shape\nx  [n]\n```'
    >>> drawn("one\n\ntwo", 8)
    'one\n\n…'
    """
    shown: list[str] = []
    room = length_max
    for block in _blocks(text.splitlines()):
        # The sign and its empty line have to fit behind any block but the last.
        if len(block) + 2 + len(MORE) > room:
            return "\n\n".join([*shown, MORE if shown else _cut(block, room)])
        shown.append(block)
        room -= len(block) + 2
    return "\n\n".join(shown)


def _cut(block: str, room: int) -> str:
    return MORE if FENCE in block else block[: max(0, room - len(MORE))] + MORE


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """What stands between empty lines, a block of code as one."""
    held: list[str] = []
    is_code = False
    for line in lines:
        is_fence = line.lstrip().startswith(FENCE)
        if is_code or line.strip():
            if is_fence and not is_code and held:
                yield _drawn(held)
                held = []
            held.append(line)
        if (is_fence and is_code) or (held and not is_code and not line.strip()):
            yield _drawn(held)
            held = []
        is_code = is_code != is_fence
    if held:
        yield _drawn([*held, FENCE] if is_code else held)


def _drawn(lines: list[str]) -> str:
    if lines[0].lstrip().startswith(FENCE):
        return "\n".join(lines)
    whole = " ".join(line.strip() for line in lines)
    if len(whole) > 4 and whole.startswith("$$") and whole.endswith("$$"):
        return _fenced([whole[2:-2].strip()])
    if all(TABLE.match(line) for line in lines):
        return _table(lines)
    said: list[str] = []
    for line in lines:
        if said and not BEGINS.match(line) and not TABLE.match(line):
            said[-1] += f" {line.strip()}"
        else:
            said.append(line.rstrip())
    return FORMULA.sub(r"`\1`", "\n".join(said))


def _table(lines: Sequence[str]) -> str:
    rows = [_cells(line) for line in lines if not RULE.match(line)]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        for row in rows
    )
    return _fenced([row.rstrip() for row in padded])


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]


def _fenced(lines: Sequence[str]) -> str:
    inner = "\n".join(line.replace("`", "'") for line in lines)
    return f"{FENCE}\n{inner}\n{FENCE}"
