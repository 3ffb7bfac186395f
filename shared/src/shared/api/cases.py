"""The results of cases, baselines and milestones."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Microseconds, SequenceNumber, SubmissionNumber, Timestamp
from shared.run_values import Mismatch

Verdict = Annotated[
    str, Meta(description="`passed`, or what went wrong; decided by the supervisor.")
]
Interval = Annotated[tuple[float, float], Meta(description="A 95 % interval, low and high.")]
YardstickMicroseconds = Annotated[
    Microseconds | None,
    Meta(
        description="The time of the yardstick, a fixed correct kernel of the same problem; null "
        "if this was measured alone, by a problem's own program."
    ),
]
Speedup = Annotated[
    float | None, Meta(description="How many times as fast as the yardstick it is.")
]
SpeedupInterval = Annotated[
    tuple[float, float] | None, Meta(description="The 95 % interval of the speed-up.")
]
Speedups = Annotated[
    dict[str, float],
    Meta(description="How many times faster than each baseline it is, by the baseline's name."),
]


class YardstickComparison(ApiModel, frozen=True, kw_only=True):
    """A time compared with the yardstick's; null if it was measured alone."""

    yardstick_us: YardstickMicroseconds = None
    speedup: Speedup = None
    speedup_interval: SpeedupInterval = None


class Roofline(ApiModel, frozen=True, kw_only=True):
    """The throughput behind a time, in 10^9 bytes and 10^9 operations per second."""

    bandwidth_gb_s: float | None = None
    gflops: float | None = None
    dtype: Annotated[str, Meta(description="The number type of the operations.")] = ""
    share: Annotated[
        float | None,
        Meta(description="The share of the data sheet's limit; null where it is unknown."),
    ] = None
    bound: Literal["memory", "compute"] | None = None


class Case(YardstickComparison, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a case; of a hidden one only stage and verdict."""

    name: str
    stage: str
    verdict: Verdict
    is_hidden: bool
    message: str = ""
    time_us: Microseconds | None = None
    interval_us: Interval | None = None
    samples: int = 0
    process_us: list[Microseconds] = []
    error: float | None = None
    freedom: int = 0
    null_us: list[Microseconds] = []
    grade: str = ""
    statistics: dict[str, float] = {}
    dropped: int = 0
    wrong: int = 0
    mismatches: list[Mismatch] = []
    weight: Annotated[float, Meta(description="The weight of a timed case in the score.")] = 1.0
    roofline: Roofline | None = None
    vs_baseline: Speedups = {}


class Estimate(ApiModel, frozen=True, kw_only=True):
    """The time of one call, and its uncertainty."""

    time_us: Microseconds
    interval_us: Interval | None
    statistics: dict[str, float]
    samples: int | None
    dropped: int | None
    process_us: list[Microseconds] | None
    error: float | None
    freedom: int | None
    null_us: list[Microseconds] | None
    grade: str | None
    yardstick_us: YardstickMicroseconds
    speedup: Speedup
    speedup_interval: SpeedupInterval


class CaseShown(ApiModel, frozen=True, kw_only=True):
    """The result of a case and, if it is public, its arguments."""

    index: int
    name: str
    stage: str
    is_hidden: bool
    args: Annotated[dict[str, Any] | None, Meta(description="Its arguments, without the seed.")]
    verdict: Verdict
    message: str | None
    wrong: int
    mismatches: list[Mismatch]
    estimate: Estimate | None
    roofline: Annotated[
        Roofline | None, Meta(description="Null if the problem does not declare its work.")
    ]
    vs_baseline: Speedups


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
