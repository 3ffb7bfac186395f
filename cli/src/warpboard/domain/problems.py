"""What the HTTP API answers about problems, as far as the command line reads it."""

from datetime import datetime

import msgspec

from warpboard.domain.answers import Answer, File


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
    defines: dict[str, str] = {}
    compile_flags: list[str] = []
    rules: Rules | None = None


class Problems(msgspec.Struct, frozen=True, kw_only=True):
    """Every problem."""

    items: list[Problem]
