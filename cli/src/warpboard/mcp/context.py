"""What all tools share: access to the platform, types of arguments, and limits on results."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from pydantic import Field

from shared.errors import Refused
from shared.presentation.units import escape_control_characters
from shared.problems.submission_file import SUFFIXES
from shared.problems.submission_file import Language as LanguageName
from warpboard.api import Api
from warpboard.files import read_source
from warpboard.local_run import LocalHarness

T = TypeVar("T")
FILE_CHARS_MAX = 24_000
FILES_CHARS_MAX = 60_000
TEXT_CHARS = 8_000
TEXT_CHARS_MAX = 40_000
MESSAGE_CHARS_MAX = 1_200
Slug = Annotated[str, Field(min_length=1, max_length=95, description="The problem's slug.")]
Number = Annotated[int, Field(ge=1, le=2**53 - 1, description="The submission's number.")]
Gpu = Annotated[str, Field(min_length=1, max_length=32, description="A GPU type, such as H200.")]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Chars = Annotated[
    int, Field(ge=100, le=TEXT_CHARS_MAX, description="The maximum number of characters.")
]
Source = Annotated[
    str | None, Field(description="The whole text of the kernel file; give either this or path.")
]
KernelPath = Annotated[
    str | None,
    Field(description="A kernel file (.py, .cpp, .cu) on the machine this server runs on."),
]
Gpus = Annotated[Sequence[Gpu], Field(max_length=16)]
Language = Annotated[
    LanguageName, Field(description="The language of source; the suffix of path implies it.")
]


def head(text: str, chars_max: int) -> tuple[str, str]:
    """Return the beginning of a text with visible control characters, and a note on what was cut.

    >>> head("abcdef", 4)
    ('abcd', 'the last 2 of 6 characters')
    >>> head("abc", 4)
    ('abc', '')
    """
    visible = escape_control_characters(text)
    excess = len(visible) - chars_max
    if excess <= 0:
        return visible, ""
    return visible[:chars_max], f"the last {excess:,} of {len(visible):,} characters"


def tail(text: str, chars_max: int) -> tuple[str, str]:
    """Return the end of a text, as head returns its beginning.

    >>> tail("abcdef", 4)
    ('cdef', 'the first 2 of 6 characters')
    """
    visible = escape_control_characters(text)
    excess = len(visible) - chars_max
    if excess <= 0:
        return visible, ""
    return visible[excess:], f"the first {excess:,} of {len(visible):,} characters"


def shorten(text: str) -> str:
    """Return one of many messages, cut if it is long.

    >>> shorten("short")
    'short'
    """
    visible, _ = head(text, MESSAGE_CHARS_MAX)
    return visible if len(visible) < MESSAGE_CHARS_MAX else f"{visible}…"


def take_first(items: list[T], count_max: int, kind: str) -> tuple[list[T], list[str]]:
    """Return the first items, and a note on the others.

    >>> take_first([1, 2, 3], 2, "cases")
    ([1, 2], ['1 more cases of 3'])
    """
    excess = len(items) - count_max
    note = [f"{excess} more {kind} of {len(items)}"] if excess > 0 else []
    return items[:count_max], note


@dataclass(frozen=True)
class ToolContext:
    """The platform as the user of this server, this machine, and the caller's progress.

    `report_progress` is called with how far a tool is, of how much, and a sentence.
    """

    api: Api
    harness: LocalHarness
    report_progress: Callable[[float, float, str], Awaitable[None]]


def load_kernel(source: str | None, path: str | None, language: str) -> tuple[str, bytes]:
    """Return a kernel's file name and bytes, from text or a local file. Raises Refused."""
    if (source is None) == (path is None):
        reason = "give the kernel once: its text as source, or its file as path"
        raise Refused("bad_source", reason, "source")
    if source is not None:
        if not source.strip():
            raise Refused("empty_file", "the kernel has no text: give its whole source", "source")
        return f"kernel{SUFFIXES[language]}", source.encode("utf-8", "surrogatepass")
    file = Path(str(path)).expanduser()
    if file.suffix not in SUFFIXES.values():
        ends = ", ".join(SUFFIXES.values())
        raise Refused(
            "bad_extension", f"{file.name} has none of the suffixes {ends}: rename it", "path"
        )
    data = read_source(file)
    if not data:
        raise Refused("empty_file", f"{file} is empty: write the kernel into it", "path")
    return file.name, data


class ToolResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all results: default values are omitted."""
