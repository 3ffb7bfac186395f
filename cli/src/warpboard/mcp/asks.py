"""What the tools are asked: one struct for each tool; unknown fields are refused."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from warpboard.mcp.bounds import TEXT_CHARS, TEXT_CHARS_MAX

FOLLOW_S_MAX = 50
RUN_S_MAX = 50

Slug = Annotated[str, Meta(min_length=1, max_length=95, description="The problem's slug.")]
Number = Annotated[int, Meta(ge=1, le=2**53 - 1, description="The submission's number.")]
Gpu = Annotated[str, Meta(min_length=1, max_length=32, description="A GPU type, such as H200.")]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Chars = Annotated[
    int, Meta(ge=100, le=TEXT_CHARS_MAX, description="At most so many characters of text.")
]
Mode = Annotated[
    Literal["test", "benchmark", "profile", "ranked"],
    Meta(
        description="test: is it right; benchmark: how fast; profile: where the time goes; "
        "ranked: counts for the leaderboard."
    ),
]
Source = Annotated[
    str | None,
    Meta(description="The whole text of the kernel file; give either this or path."),
]
Path = Annotated[
    str | None,
    Meta(description="A kernel file (.py, .cpp, .cu) on the machine this server runs on."),
]
Gpus = Annotated[list[Gpu], Meta(max_length=16)]
Language = Annotated[
    Literal["python", "cpp", "cuda"],
    Meta(description="Of source; a path's ending says it by itself."),
]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool's arguments have in common: nothing but their strictness."""


class ListProblems(Ask, frozen=True, kw_only=True):
    """Nothing is asked."""


class ReadTask(Ask, frozen=True, kw_only=True):
    """Which problem's task."""

    problem: Slug
    gpus: Annotated[
        Gpus, Meta(description="Those that the starter is to be for; none means all.")
    ] = []
    language: Annotated[
        str | None, Meta(description="Of the starter file, such as Python or CUDA.")
    ] = None


class Submit(Ask, frozen=True, kw_only=True):
    """A kernel for a problem."""

    problem: Slug
    source: Source = None
    path: Path = None
    language: Language = "python"
    mode: Mode = "test"
    gpus: Annotated[
        Gpus,
        Meta(description="One submission each; none means all that the file's directives name."),
    ] = []


class Follow(Ask, frozen=True, kw_only=True):
    """Which submission, from where, for how long."""

    number: Number
    after: Annotated[
        int, Meta(ge=0, description="Only events after this place: next_after of the last call.")
    ] = 0
    wait_s: Annotated[
        float,
        Meta(ge=0, le=FOLLOW_S_MAX, description="Wait so long for its end, at most 50 seconds."),
    ] = 25.0


class ReadResult(Ask, frozen=True, kw_only=True):
    """Which submission's result."""

    number: Number


class ReadLog(Ask, frozen=True, kw_only=True):
    """Which submission's log, from which end."""

    number: Number
    end: Annotated[Literal["head", "tail"], Meta(description="The log's beginning or its end.")] = (
        "tail"
    )
    chars_max: Chars = TEXT_CHARS


class ReadProfile(Ask, frozen=True, kw_only=True):
    """Which submission's profile, and which of its files."""

    number: Number
    file: Annotated[
        Name | None, Meta(description="A name from files; none is the first report in text.")
    ] = None
    chars_max: Chars = TEXT_CHARS


class Compare(Ask, frozen=True, kw_only=True):
    """Two submissions to the same problem."""

    a: Number
    b: Number


class Leaderboard(Ask, frozen=True, kw_only=True):
    """Which leaderboards."""

    problem: Slug
    gpu: Annotated[Gpu | None, Meta(description="None means every GPU type with an entry.")] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="Entries of each leaderboard.")] = 20


class MySubmissions(Ask, frozen=True, kw_only=True):
    """Which of one's own submissions."""

    problem: Annotated[Slug | None, Meta(description="None means all problems.")] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="How many, newest first.")] = 20
    cursor: Annotated[Name | None, Meta(description="next_cursor of the page before.")] = None


class Cancel(Ask, frozen=True, kw_only=True):
    """Which submission is to end, and why."""

    number: Number
    reason: Annotated[str, Meta(max_length=500, description="For the record.")] = ""


class Quota(Ask, frozen=True, kw_only=True):
    """Which quotas: all, or those of one problem."""

    problem: Annotated[Slug | None, Meta(description="None means all that were used.")] = None
    gpu: Annotated[Gpu | None, Meta(description="With a problem; none means all it has.")] = None


class RunLocally(Ask, frozen=True, kw_only=True):
    """A kernel to run on this machine's CPU."""

    problem: Slug
    source: Source = None
    path: Path = None
    language: Language = "python"
    mode: Annotated[
        Literal["test", "benchmark"], Meta(description="test: is it right; benchmark: how fast.")
    ] = "test"
    within_s: Annotated[float, Meta(ge=1, le=RUN_S_MAX, description="Stopped after this.")] = 45.0
