"""What all tools share: access to the platform, types of arguments, and limits on results."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Meta

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
Slug = Annotated[str, Meta(min_length=1, max_length=95, description="The problem's slug.")]
Number = Annotated[int, Meta(ge=1, le=2**53 - 1, description="The submission's number.")]
Gpu = Annotated[str, Meta(min_length=1, max_length=32, description="A GPU type, such as H200.")]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Chars = Annotated[
    int, Meta(ge=100, le=TEXT_CHARS_MAX, description="The maximum number of characters.")
]
Source = Annotated[
    str | None, Meta(description="The whole text of the kernel file; give either this or path.")
]
KernelPath = Annotated[
    str | None,
    Meta(description="A kernel file (.py, .cpp, .cu) on the machine this server runs on."),
]
Gpus = Annotated[Sequence[Gpu], Meta(max_length=16)]
Language = Annotated[
    LanguageName, Meta(description="The language of source; the suffix of path implies it.")
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


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all arguments: unknown fields are refused."""


class ToolResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all results: default values are omitted."""


@dataclass(frozen=True)
class Tool:
    """One tool: a function whose parameters, but for the context, are what it takes.

    Its docstring is what a model reads about it. It may raise Refused and Failed. `is_reading` if
    it changes nothing on the platform, `is_slow` if it waits.
    """

    run: Callable[..., Awaitable[ToolResponse]]
    is_reading: bool = True
    is_slow: bool = False

    @property
    def name(self) -> str:
        """The name by which a model calls it."""
        return self.run.__name__

    @property
    def about(self) -> str:
        """The description for a model."""
        return " ".join((self.run.__doc__ or "").split())

    @cached_property
    def request_type(self) -> type[ToolRequest]:
        """The type of its arguments."""
        hints = get_type_hints(self.run, include_extras=True)
        _, *parameters = inspect.signature(self.run).parameters.values()
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
            (parameter.name, hints[parameter.name])
            if parameter.default is parameter.empty
            else (parameter.name, hints[parameter.name], parameter.default)
            for parameter in parameters
        ]
        name = "".join(word.capitalize() for word in self.name.split("_"))
        request_type = msgspec.defstruct(f"{name}Request", fields, bases=(ToolRequest,))
        return cast("type[ToolRequest]", request_type)

    @property
    def response_type(self) -> type[ToolResponse]:
        """The type of its result."""
        return cast("type[ToolResponse]", get_type_hints(self.run)["return"])
