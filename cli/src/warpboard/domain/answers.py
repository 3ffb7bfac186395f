"""What the HTTP API answers, as far as the command line reads it; unknown fields are left alone."""

from datetime import datetime

import msgspec

from shared.telling.answers import (
    Answer,
    Case,
    File,
    Mismatch,
    Moderation,
    Moment,
    Progress,
    Queue,
    Ranking,
    Roofline,
    Run,
    Submission,
    read,
)
from warpboard.domain.goals import Baseline, Milestone
from warpboard.domain.oversight import Balance

__all__ = [
    "Agent",
    "Agents",
    "Answer",
    "Case",
    "Entry",
    "File",
    "Leaderboard",
    "Mismatch",
    "Missing",
    "Moderation",
    "Moment",
    "Progress",
    "Queue",
    "Ranking",
    "Receipt",
    "Receipts",
    "Roofline",
    "Run",
    "Submission",
    "Summaries",
    "Summary",
    "read",
]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A line in a list of submissions."""

    number: int
    problem: str
    gpu: str
    mode: str
    name: str
    state: str
    participant: str | None = None
    received_at: datetime | None = None
    outcome: str | None = None
    verdict: str | None = None
    is_eligible: bool = False
    score_us: float | None = None
    pooled_over: list[int] = []
    tag: str | None = None


class Summaries(msgspec.Struct, frozen=True, kw_only=True):
    """A list of submissions, newest first."""

    items: list[Summary]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The promise for one GPU type, and what is left of the quota that it took of, if of one."""

    number: int
    gpu: str
    quota: Balance | None = None


class Receipts(msgspec.Struct, frozen=True, kw_only=True):
    """What a submit request was answered."""

    submissions: list[Receipt]
    problem_version: int = 0
    replayed: bool = False


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A participant's best eligible run."""

    rank: int
    number: int
    score_us: float
    participant: str | None = None
    low_us: float | None = None
    high_us: float | None = None
    received_at: datetime | None = None
    tier: str | None = None
    level: str | None = None
    is_tied: bool = False
    pooled_over: list[int] = []
    grade: str = ""
    is_provisional: bool = False
    roofline_fraction: float | None = None
    vs_baseline: dict[str, float] = {}
    duel: str = ""
    confirmation: str = ""


class OtherVersion(msgspec.Struct, frozen=True, kw_only=True):
    """Another version of a problem that has entries."""

    problem_version: int
    entries_count: int


class Leaderboard(msgspec.Struct, frozen=True, kw_only=True):
    """One leaderboard, best first."""

    problem: str
    problem_version: int
    gpu: str
    items: list[Entry]
    title: str = ""
    as_of_at: datetime | None = None
    baselines: list[Baseline] = []
    milestones: list[Milestone] = []
    other_versions: list[OtherVersion] = []


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A wall that a machine cannot build, why not, and how to mend it."""

    wall: str
    reason: str = ""
    mend: str = ""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that registered, and whether it is alive."""

    id: str
    gpu: str
    level: str = ""
    tier: str = ""
    missing: list[Missing] = []
    toolchains: dict[str, str] = {}
    modes: list[str] = []
    details: dict[str, str] = {}
    quarantine: str = ""
    standing: str = ""
    standing_reason: str | None = None
    is_alive: bool = False
    is_free: bool = False


class Agents(msgspec.Struct, frozen=True, kw_only=True):
    """Every agent."""

    items: list[Agent]
