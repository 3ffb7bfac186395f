"""What all tools share: access to the platform, types of arguments, and limits on results."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field

from shared.api.fields import JsonObject
from shared.errors import Refused
from shared.presentation.units import escape_control_characters
from shared.problems.submission_file import SUFFIXES
from shared.problems.submission_file import Language as LanguageName
from shared.source_files import SOURCE_FILES_MAX, SourceFile
from warpboard.api import Api
from warpboard.files import read_source
from warpboard.local_run import LocalHarness

FILE_CHARS_MAX = 24_000
FILES_CHARS_MAX = 60_000
TEXT_CHARS = 8_000
TEXT_CHARS_MAX = 40_000
ITEMS_MAX = 200
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
OtherFiles = Annotated[
    dict[str, str] | None,
    Field(
        max_length=SOURCE_FILES_MAX - 1,
        description="The texts of the files beside the kernel, by name such as helper.cu, where "
        "the problem allows several.",
    ),
]
Gpus = Annotated[Sequence[Gpu], Field(max_length=16)]
Language = Annotated[
    LanguageName, Field(description="The language of source; the suffix of path implies it.")
]


# The limits of fields by name; for others, TEXT_CHARS_MAX and ITEMS_MAX hold.
FIELD_CHARS_MAX = {"message": 1_200, "reason": 1_200, "statement": FILE_CHARS_MAX, "diff": 20_000}
FIELD_ITEMS_MAX = {"mismatches": 5, "cases": 64}
# Fields of the API that no tool takes and that explain nothing to a person or a model; others are
# the subject of a tool of their own.
OMITTED = {
    *("id", "participant_id", "submission", "url", "links", "as_of", "as_of_at", "version", "run"),
    *("digest", "manifest", "source_digest", "key_commit", "fingerprint", "harness", "media"),
    *("process_us", "null_us", "statistics", "error", "freedom", "dropped", "delta", "usage"),
    *("environment", "timeline", "results", "source", "log_head", "log_tail", "state_owner"),
    *("state_deadline_at", "lease_until_at", "result_version", "check"),
}


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


@dataclass(frozen=True)
class ToolResult:
    """What a tool answers: a value, what it means in words, and the call to make next.

    `cut` says what the value does not have.
    """

    value: msgspec.Struct
    next_step: str = ""
    summary: Sequence[str] = ()
    cut: Sequence[str] = ()

    @property
    def document(self) -> JsonObject:
        """The result as JSON, without omitted fields; all texts and lists are bounded.

        >>> from shared.api.cases import Roofline
        >>> ToolResult(Roofline(gflops=2.0), "call follow").document
        {'next': 'call follow', 'gflops': 2.0}
        """
        cut = list(self.cut)
        document: JsonObject = _trim("", msgspec.to_builtins(self.value), cut)
        notes = {"summary": list(self.summary), "next": self.next_step, "cut": cut}
        return {name: note for name, note in notes.items() if note} | document


def _trim(name: str, value: Any, cut: list[str]) -> Any:
    """Return the value of a field without what is omitted; add to `cut` what is too long."""
    if isinstance(value, str):
        text, note = head(value, FIELD_CHARS_MAX.get(name, TEXT_CHARS_MAX))
        cut += [f"{name}: {note}"] if note else []
        return text
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        count_max = FIELD_ITEMS_MAX.get(name, ITEMS_MAX)
        if len(value) > count_max:
            cut.append(f"{name}: the last {len(value) - count_max} of {len(value)}")
        return [_trim(name, item, cut) for item in value[:count_max]]
    if isinstance(value, dict):
        return {
            key: _trim(key, item, cut)
            for key, item in value.items()
            if key not in OMITTED and item not in (None, "", {})
        }
    return value


@dataclass(frozen=True)
class ToolContext:
    """The platform as the user of this server, this machine, and the caller's progress.

    `report_progress` is called with how far a tool is, of how much, and a sentence.
    """

    api: Api
    harness: LocalHarness
    report_progress: Callable[[float, float, str], Awaitable[None]]


def load_kernel(
    source: str | None, path: str | None, language: str, others: Mapping[str, str] | None
) -> tuple[SourceFile, ...]:
    """Return a kernel's files, the entry file first, from text or a local file.

    `others` are the texts of the files beside it, by name. Raises Refused.
    """
    added = [
        SourceFile(name, text.encode("utf-8", "surrogatepass"))
        for name, text in (others or {}).items()
    ]
    if (source is None) == (path is None):
        reason = "give the kernel once: its text as source, or its file as path"
        raise Refused("bad_source", reason, "source")
    if source is not None:
        if not source.strip():
            raise Refused("empty_file", "the kernel has no text: give its whole source", "source")
        data = source.encode("utf-8", "surrogatepass")
        return SourceFile(f"kernel{SUFFIXES[language]}", data), *added
    file = Path(str(path)).expanduser()
    if file.suffix not in SUFFIXES.values():
        ends = ", ".join(SUFFIXES.values())
        raise Refused(
            "bad_extension", f"{file.name} has none of the suffixes {ends}: rename it", "path"
        )
    data = read_source(file)
    if not data:
        raise Refused("empty_file", f"{file} is empty: write the kernel into it", "path")
    return SourceFile(file.name, data), *added
