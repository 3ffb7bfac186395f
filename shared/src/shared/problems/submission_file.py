"""What a submission's file says: its language by suffix, and its `#!POPCORN` lines."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from shared.errors import Refused

Language = Literal["python", "cpp", "cuda"]
SUFFIXES: Mapping[str, str] = {"python": ".py", "cpp": ".cpp", "cuda": ".cu"}
MEDIA: Mapping[str, str] = {".py": "text/x-python", ".cpp": "text/x-c++", ".cu": "text/x-cuda"}
PLAIN = ".py"
LEADING_LINES_MAX = 64

# The toolchain of each language that is compiled before it runs.
COMPILERS: Mapping[str, str] = {"cpp": "g++", "cuda": "nvcc"}
_NVRTC = re.compile(r"//!\s*WARPBOARD\s+compiler\s*:\s*nvrtc\s*\Z", re.IGNORECASE)


def suffix(name: str) -> str:
    """Return the suffix that names a submission's language; `.py` for any other.

    >>> suffix("kernel.cu"), suffix("kernel.py"), suffix("kernel")
    ('.cu', '.py', '.py')
    """
    return next((known for known in SUFFIXES.values() if name.endswith(known)), PLAIN)


def suffixes(languages: Iterable[str]) -> tuple[str, ...]:
    """Return the suffixes that a problem's languages allow; an empty list means Python only.

    >>> suffixes(["python", "cuda"]), suffixes([])
    (('.py', '.cu'), ('.py',))
    """
    return tuple(SUFFIXES[name] for name in languages if name in SUFFIXES) or (PLAIN,)


def toolchains(name: str, text: str) -> list[str]:
    """Return the toolchains an agent needs to compile a file, [] for Python.

    >>> toolchains("kernel.cpp", ""), toolchains("kernel.py", "")
    (['g++'], [])
    >>> toolchains("kernel.cu", "//!WARPBOARD compiler: nvrtc"), toolchains("kernel.cu", "")
    (['nvrtc'], ['nvcc'])
    """
    language = next(language for language, end in SUFFIXES.items() if end == suffix(name))
    compiler = COMPILERS.get(language)
    if compiler is None:
        return []
    # The harness reads directives in the comment at the start only.
    lines = (line.strip() for line in text.splitlines()[:LEADING_LINES_MAX])
    comment = takewhile(lambda line: not line or line.startswith("//"), lines)
    if compiler == "nvcc" and any(_NVRTC.match(line) for line in comment):
        return ["nvrtc"]
    return [compiler]


MARKS = ("#!POPCORN", "//!POPCORN")


@dataclass(frozen=True)
class Directives:
    """What a file declares: its leaderboard and its GPU types, if any."""

    leaderboard: str | None = None
    gpus: tuple[str, ...] = ()


def read_directives(text: str) -> Directives:
    """Read the directives in the leading comment block.

    Errors: Refused `bad_directive`, naming the line.

    >>> read_directives("#!POPCORN leaderboard matmul\\n#!POPCORN gpus CPU H100\\nimport torch")
    Directives(leaderboard='matmul', gpus=('CPU', 'H100'))
    """
    values: dict[str, list[str]] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[: _count_leading_lines(lines)], 1):
        if mark := _find_mark(line):
            keyword, words = _parse_directive(line.strip()[len(mark) :].split(), number)
            if keyword in values:
                raise _bad_directive(number, f"a second {keyword!r}: write it once")
            values[keyword] = words
    leaderboard = values["leaderboard"][0] if "leaderboard" in values else None
    return Directives(leaderboard, tuple(values.get("gpus", ())))


def late_directives(text: str) -> list[int]:
    """Return the lines of directives below the leading comment block, where they have no effect.

    >>> late_directives("import torch\\n#!POPCORN gpus H100\\n")
    [2]
    """
    lines = text.splitlines()
    first = _count_leading_lines(lines)
    return [number for number, line in enumerate(lines[first:], first + 1) if _find_mark(line)]


def _count_leading_lines(lines: Sequence[str]) -> int:
    for index, line in enumerate(lines):
        if line.strip() and not line.strip().startswith(("#", "//")):
            return index
    return len(lines)


def _find_mark(line: str) -> str:
    return next((mark for mark in MARKS if line.strip().upper().startswith(mark)), "")


def _parse_directive(words: list[str], number: int) -> tuple[str, list[str]]:
    if not words:
        raise _bad_directive(
            number, "no keyword: write leaderboard NAME, or gpus with one or more GPU types"
        )
    keyword = words[0].lower()
    if keyword == "gpu":
        keyword = "gpus"
    if keyword not in ("leaderboard", "gpus"):
        raise _bad_directive(number, f"unknown directive {words[0]!r}: use leaderboard or gpus")
    if len(words) < 2 or (keyword == "leaderboard" and len(words) > 2):
        raise _bad_directive(number, "leaderboard takes one name, gpus one or more")
    return keyword, words[1:]


def _bad_directive(number: int, what: str) -> Refused:
    return Refused("bad_directive", f"line {number}: {what}", "file")
