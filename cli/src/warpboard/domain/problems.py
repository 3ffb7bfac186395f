"""What the HTTP API answers about problems, as far as the command line reads it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec

from warpboard.domain.answers import Answer, File

# What is said of a problem beside its files, as fields of a form.
Fields = Mapping[str, str | Sequence[str]]
NO_FIELDS: Fields = MappingProxyType({})


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A problem's newest version."""

    slug: str
    number: int
    is_new: bool
    warnings: list[str] = []


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How a problem is checked, timed and ranked; cases without their seeds."""

    formula: str = ""
    tolerances: str = ""
    ties: str = ""
    source_policy: str = ""
    licence: dict[str, str] = {}
    consent: str = ""
    cases: dict[str, list[Answer]] = {}
    roofline: dict[str, str] = {}


class Native(msgspec.Struct, frozen=True, kw_only=True):
    """How a problem in C++ is compiled."""

    defines: dict[str, str] = {}
    flags: list[str] = []
    sources: list[str] = []
    arrays: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A language to begin in, and how the file to begin with is called."""

    language: str
    name: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The newest version of a problem."""

    slug: str
    number: int
    title: str
    gpus: list[str]
    gpus_closed: list[str] = []
    digest: str = ""
    cases_count: dict[str, int] = {}
    ranking_by: str = ""
    published_at: datetime | None = None
    languages: list[str] = []
    source_bytes_max: int = 0
    budgets_s: dict[str, float] = {}
    state: str = ""
    visibility: str = "public"
    deadline_at: datetime | None = None
    check: Answer = {}
    description: str = ""
    statement: str = ""
    templates: dict[str, str] = {}
    starts: list[Start] = []
    files: list[File] = []
    lang: str = "py"
    submission: str = "submission.py"
    form: str = "task"
    main: str = ""
    is_multi_gpu: bool = False
    native: Native = Native()
    answers: str = ""
    memory_mib: int = 0
    rules: Rules | None = None


class Problems(msgspec.Struct, frozen=True, kw_only=True):
    """Every problem."""

    items: list[Problem]
