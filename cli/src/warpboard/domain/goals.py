"""What stands beside a leaderboard's rows: baselines, and milestones, as they are told."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from shared.problems.milestones import SCORE
from warpboard.domain.units import time_text, when

MARK = "baseline"


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What the platform ran itself; why it failed is told to its author and to operators."""

    name: str
    note: str = ""
    state: str = ""
    score_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    vs_leader: float | None = None
    grade: str = ""
    tier: str | None = None
    level: str | None = None
    measured_at: datetime | None = None
    number: int | None = None
    reason: str | None = None


class When(msgspec.Struct, frozen=True, kw_only=True):
    """When a milestone is reached; a score is in seconds."""

    metric: str
    op: str
    value: float
    gpu: str | None = None


class Milestone(msgspec.Struct, frozen=True, kw_only=True):
    """A milestone of a leaderboard, and whether who asks reached it."""

    id: str
    title: str
    when: When
    reached: int = 0
    is_reached: bool = False
    reached_at: datetime | None = None
    number: int | None = None


class OwnMilestone(msgspec.Struct, frozen=True, kw_only=True):
    """A milestone that one reached."""

    problem: str
    gpu: str
    title: str
    problem_version: int
    number: int
    at: datetime


class OwnMilestones(msgspec.Struct, frozen=True, kw_only=True):
    """What one reached, newest first."""

    items: list[OwnMilestone]


class BaselineRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a baseline that was asked for; `is_new` false if one was waiting already."""

    name: str
    gpu: str
    is_new: bool


class BaselineRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a problem's baselines."""

    slug: str
    items: list[BaselineRun]


def when_text(one: When) -> str:
    """What a milestone asks for.

    >>> when_text(When(metric="score", op="<=", value=0.0001))
    'score <= 100 µs'
    >>> when_text(When(metric="vs_baseline.eager", op=">=", value=2))
    'vs_baseline.eager >= 2'
    """
    is_score = one.metric == SCORE
    value = time_text(one.value * 1e6) if is_score else f"{one.value:g}"
    return f"{one.metric} {one.op} {value}"


def standing_lines(gpu: str, found: Sequence[Baseline]) -> list[str]:
    """How each baseline of a problem stands on a GPU type."""
    return [f"{gpu}: {one.name} {_stands(one)}" for one in found]


def _stands(one: Baseline) -> str:
    if one.state == "measured":
        return f"took {time_text(one.score_us)}, measured {when(one.measured_at)}"
    if one.state == "failed":
        return f"failed: {one.reason or 'its author knows why'}"
    if one.state == "waiting":
        return "waits for an agent that is free"
    return "was not run: no agent took it in a day; run it again once there is one"
