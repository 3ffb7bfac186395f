"""What the tools answer: one struct for each tool; what a struct leaves out is unknown or none.

Units: microseconds of one call where a name ends in `_us`; smaller is better.
"""

from datetime import datetime
from typing import Any

import msgspec

from warpboard.domain.answers import Entry, Mismatch, Ranking, Roofline, Summary
from warpboard.domain.comparison import CaseDelta
from warpboard.domain.goals import Baseline, Milestone
from warpboard.domain.oversight import Balance


class Tell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every answer has in common: it leaves out what it has nothing to say about."""


class Listed(Tell, frozen=True, kw_only=True):
    """A problem in a list."""

    slug: str
    title: str
    gpus: list[str]
    languages: list[str] = []
    ranking_by: str = ""
    deadline_at: datetime | None = None
    state: str = ""


class Problems(Tell, frozen=True, kw_only=True):
    """The problems that one may see."""

    problems: list[Listed]
    cut: list[str] = []


class File(Tell, frozen=True, kw_only=True):
    """A text file."""

    name: str
    text: str


class Task(Tell, frozen=True, kw_only=True):
    """All that one needs to know to write a kernel for a problem."""

    slug: str
    version: int
    title: str
    statement: str
    gpus: list[str]
    languages: list[str]
    source_bytes_max: int
    ranked_by: str
    starter: File
    files: list[File]
    rules: dict[str, str] = {}
    tests: list[dict[str, Any]] = []
    benchmarks: list[dict[str, Any]] = []
    budgets_s: dict[str, float] = {}
    deadline_at: datetime | None = None
    cut: list[str] = []


class Receipt(Tell, frozen=True, kw_only=True):
    """A submission that was taken in, and what is left of the quota that it took of."""

    number: int
    gpu: str
    quota: Balance | None = None


class Submitted(Tell, frozen=True, kw_only=True):
    """The numbers of the submissions that were made."""

    problem: str
    mode: str
    submissions: list[Receipt]
    next: str


class Event(Tell, frozen=True, kw_only=True):
    """Something that happened to a submission, at a place of its history."""

    place: int
    type: str
    line: str


class Followed(Tell, frozen=True, kw_only=True):
    """What happened since `after`, and where the submission is now."""

    number: int
    state: str
    is_over: bool
    news: str
    events: list[Event]
    next_after: int
    next: str
    verdict: str | None = None
    outcome: str | None = None
    cut: list[str] = []


class Failing(Tell, frozen=True, kw_only=True):
    """A case that did not pass; of a hidden one nothing but its verdict is told."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    wrong: int = 0
    mismatches: list[Mismatch] = []


class Timed(Tell, frozen=True, kw_only=True):
    """The time of a case, its interval, and how many times as fast as each baseline it is."""

    name: str
    time_us: float
    interval_us: tuple[float, float] | None = None
    samples: int = 0
    grade: str = ""
    roofline: Roofline | None = None
    vs_baseline: dict[str, float] = {}


class Result(Tell, frozen=True, kw_only=True):
    """How a submission ended, or where it is."""

    number: int
    problem: str
    gpu: str
    mode: str
    state: str
    is_over: bool
    summary: list[str]
    next: str
    outcome: str | None = None
    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    score_us: float | None = None
    interval_us: tuple[float, float] | None = None
    ranking: Ranking | None = None
    cases_count: int = 0
    failing: list[Failing] = []
    timed: list[Timed] = []
    grade: str = ""
    is_provisional: bool = False
    tier: str | None = None
    level: str | None = None
    files: list[str] = []
    cut: list[str] = []


class Text(Tell, frozen=True, kw_only=True):
    """A text of a submission, bounded."""

    number: int
    name: str
    text: str
    files: list[str] = []
    cut: list[str] = []


class Compared(Tell, frozen=True, kw_only=True):
    """Two submissions beside each other; a ratio below 1 means that b is faster."""

    a: int
    b: int
    summary: str
    cases: list[CaseDelta]
    score: CaseDelta | None = None
    diff: str | None = None
    cut: list[str] = []


class Board(Tell, frozen=True, kw_only=True):
    """One leaderboard, best first; the baselines, which the platform ran, have no rank."""

    gpu: str
    problem_version: int
    entries: list[Entry]
    baselines: list[Baseline] = []
    milestones: list[Milestone] = []


class Boards(Tell, frozen=True, kw_only=True):
    """The leaderboards of a problem."""

    problem: str
    boards: list[Board]
    empty: list[str] = []
    cut: list[str] = []


class Mine(Tell, frozen=True, kw_only=True):
    """One's own submissions, newest first."""

    submissions: list[Summary]
    next_cursor: str | None = None


class Cancelled(Tell, frozen=True, kw_only=True):
    """A submission that ends without a verdict."""

    number: int
    state: str
    next: str


class Quotas(Tell, frozen=True, kw_only=True):
    """Every limit that holds; no limit if there is none."""

    quotas: list[Balance]
    summary: str


class Ran(Tell, frozen=True, kw_only=True):
    """How a run on this machine ended; it counts for nothing."""

    problem: str
    verdict: str | None
    summary: list[str]
    stage: str | None = None
    reason: str | None = None
    score_us: float | None = None
    failing: list[Failing] = []
    timed: list[Timed] = []
    log: str = ""
    cut: list[str] = []
