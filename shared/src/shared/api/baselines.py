"""Baselines and milestones."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.cases import Interval
from shared.api.fields import ApiModel, Microseconds, SequenceNumber, SubmissionNumber, Timestamp

Ratio = Annotated[
    float | None,
    Meta(description="Its score divided by the best score: how many times slower it is."),
]


class Baseline(ApiModel, frozen=True, kw_only=True):
    """A baseline that the platform ran; it is unranked and belongs to nobody."""

    name: str
    note: str
    state: Annotated[
        Literal["measured", "failed", "waiting", "absent"],
        Meta(description="`absent`: no agent ran it, or it was never requested."),
    ]
    score_us: Microseconds | None
    interval_us: Interval | None
    vs_leader: Ratio
    grade: str
    tier: str | None
    level: str | None
    measured_at: Timestamp | None
    number: Annotated[SubmissionNumber | None, Meta(description="Shown to its author and staff.")]
    code: Annotated[str | None, Meta(description="Why it failed; for its author and staff.")]
    reason: Annotated[str | None, Meta(description="The same in words.")]


class MilestoneCondition(ApiModel, frozen=True, kw_only=True):
    """When a milestone is reached; scores are in seconds. Without `gpu`: every GPU type."""

    metric: str
    op: Literal[">=", "<=", ">", "<"]
    value: float
    gpu: str | None


class Milestone(ApiModel, frozen=True, kw_only=True):
    """A milestone of a leaderboard, and who reached it."""

    id: str
    title: str
    when: MilestoneCondition
    reached: Annotated[int, Meta(description="How many participants reached it on this GPU type.")]
    is_reached: Annotated[bool, Meta(description="Whether the reader reached it.")]
    reached_at: Timestamp | None
    number: Annotated[
        SubmissionNumber | None,
        Meta(description="The submission with which the reader reached it."),
    ]


class OwnMilestone(ApiModel, frozen=True, kw_only=True):
    """A milestone that a participant reached; they keep it under later versions."""

    problem: str
    gpu: str
    id: str
    title: str
    problem_version: int
    value: float
    number: SubmissionNumber
    reached_at: Timestamp


class OwnMilestones(ApiModel, frozen=True, kw_only=True):
    """What a participant reached, newest first."""

    items: list[OwnMilestone]
    as_of: SequenceNumber


class BaselineRun(ApiModel, frozen=True, kw_only=True):
    """A run of a baseline on a GPU type; `is_new` false if one was already waiting."""

    name: str
    gpu: str
    submission: str
    is_new: bool


class Baselines(ApiModel, frozen=True, kw_only=True):
    """The current runs of a problem's baselines."""

    slug: str
    items: list[BaselineRun]
