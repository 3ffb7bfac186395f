"""What is answered of baselines and milestones."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ranker.http.shapes.cases import Interval
from shared.answers import At, Number, Seconds, Seq, Us

Ratio = Annotated[
    float | None,
    Field(description="Its score over the best one's: how many times as long it takes."),
]


class Baseline(TypedDict):
    """What the platform ran beside the submissions: unranked, and nobody's."""

    name: str
    note: str
    state: Annotated[
        Literal["measured", "failed", "waiting", "absent"],
        Field(description="`absent`: no agent ran it, or it never was asked for."),
    ]
    score_us: Us | None
    score: Seconds | None
    low_us: Us | None
    high_us: Us | None
    ci95: Interval | None
    vs_leader: Ratio
    grade: str
    tier: str | None
    level: str | None
    measured_at: At | None
    number: Annotated[Number | None, Field(description="Shown to its author and staff.")]
    code: Annotated[str | None, Field(description="Why it failed: to its author and staff.")]
    reason: Annotated[str | None, Field(description="The same, in words.")]


class When(TypedDict):
    """When a milestone is reached; a score is in seconds. No `gpu` is each GPU type."""

    metric: str
    op: Literal[">=", "<=", ">", "<"]
    value: float
    gpu: str | None


class Milestone(TypedDict):
    """A milestone of a leaderboard, and who reached it."""

    id: str
    title: str
    when: When
    reached: Annotated[int, Field(description="How many participants did, on this GPU type.")]
    is_reached: Annotated[bool, Field(description="Whether who asks is among them.")]
    reached_at: At | None
    number: Annotated[Number | None, Field(description="With which submission who asks did.")]


class OwnMilestone(TypedDict):
    """A milestone that a participant reached; it stays theirs, whatever version comes."""

    problem: str
    gpu: str
    id: str
    title: str
    problem_version: int
    value: float
    number: Number
    at: At


class OwnMilestones(TypedDict):
    """What a participant reached, newest first."""

    items: list[OwnMilestone]
    as_of: Seq
