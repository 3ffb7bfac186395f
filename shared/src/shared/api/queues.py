"""The platform: its health, queues and dead letters, and the response to a decision."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import (
    ApiModel,
    QueueClass,
    Seconds,
    SequenceNumber,
    SubmissionNumber,
    Timestamp,
)
from shared.states import UnfinishedState

Event = Annotated[
    str | None, Meta(description="The event that was written; null if nothing had to change.")
]


class Capabilities(ApiModel, frozen=True, kw_only=True):
    """What the profiler service supports, which the public client checks before it uses them."""

    request_capture_options: list[str]


class HealthStatus(ApiModel, frozen=True, kw_only=True):
    """The service is healthy."""

    status: Literal["ok"]
    version: Annotated[str, Meta(description="The version of the platform.")]
    capabilities: Capabilities


class DecisionResponse(ApiModel, frozen=True, kw_only=True):
    """A decision that is in the log."""

    event: Event
    seq: SequenceNumber | None


class DeadLetter(ApiModel, frozen=True, kw_only=True):
    """An event that a consumer gave up."""

    consumer: str
    stream: str
    seq: SequenceNumber
    reason: str
    at: Timestamp
    deliveries: Annotated[int, Meta(description="How often it was delivered.")]
    place: Annotated[
        SequenceNumber, Meta(description="What was delivered: the event, or its redrive.")
    ]


class DeadLetters(ApiModel, frozen=True, kw_only=True):
    """Dead letters, oldest first."""

    items: list[DeadLetter]


class Parked(ApiModel, frozen=True, kw_only=True):
    """The event at which the read models are stopped, and why."""

    seq: SequenceNumber
    error: str


class Quantiles(ApiModel, frozen=True, kw_only=True):
    """The median and 90th percentile of a duration."""

    p50: Seconds | None
    p90: Seconds | None


class Queue(ApiModel, frozen=True, kw_only=True):
    """The queue of a GPU type; `position` 1 is next, null without a forecast."""

    gpu: str
    state: Literal["queued", "paused", "no_agent"]
    position: Annotated[int, Meta(ge=1)] | None
    ahead: Annotated[int, Meta(ge=0)] | None
    run_s: Quantiles | None
    agents_online: int
    agents_busy: int
    reason: str | None
    as_of: Timestamp
    eta_s: Seconds | None = None
    eta_p90_s: Seconds | None = None
    why: str | None = None


class Depth(ApiModel, frozen=True, kw_only=True):
    """The number of submissions in an unfinished state."""

    gpu: str
    state: UnfinishedState
    submissions: int
    oldest_at: Timestamp


class Launcher(ApiModel, frozen=True, kw_only=True):
    """A launcher, which starts agents for waiting jobs; costs are those of all its GPU types."""

    name: str
    kind: str
    running: int
    running_max: int
    cost_today: float
    daily_cost_max: float
    toolchains: Annotated[
        list[str], Meta(description="What its agents have; empty if it does not know.")
    ] = []


class QueueOfGpu(Queue, frozen=True, kw_only=True):
    """The queue that a new submission for a GPU type would join.

    Participants take turns, so `waiting` does not determine the place.
    """

    waiting: Annotated[int, Meta(ge=0, description="How many submissions wait for it.")]
    items: list[Depth]
    toolchains: Annotated[
        list[list[str]],
        Meta(description="The toolchains of each online agent; equal ones once."),
    ] = []
    launchers: Annotated[
        list[Launcher], Meta(description="What starts agents of this GPU type on demand.")
    ] = []


class Job(ApiModel, frozen=True, kw_only=True):
    """A place in a queue; only its owner and staff see whose it is."""

    submission: str | None
    number: SubmissionNumber | None
    is_baseline: Annotated[bool, Meta(description="Whether it is the platform's own run.")]
    position: int
    eta_s: Seconds | None
    eta_p90_s: Seconds | None
    why: str | None
    queue_class: Annotated[QueueClass | None, Meta(description="Earlier classes come first.")]


class Pool(ApiModel, frozen=True, kw_only=True):
    """The queue of one GPU type."""

    gpu: str
    waiting: int
    paused: str | None
    agents_online: int
    slots_free: Annotated[
        int | None,
        Meta(description="How many runs the agents could begin now; null without a forecast."),
    ]
    slots_busy: int | None
    run_s: Quantiles | None
    forecast_at: Timestamp | None
    forecast: list[Job]
    launchers: list[Launcher] = []


class Queues(ApiModel, frozen=True, kw_only=True):
    """Unfinished submissions by GPU type."""

    items: list[Depth]
    pools: list[Pool]
    as_of: SequenceNumber
    parked: Parked | None


class QueueSnapshot(ApiModel, frozen=True, kw_only=True):
    """The queue when a request came, at most a second old."""

    gpu: str
    state: str
    waiting: Annotated[
        int,
        Meta(description="How many submissions wait for the GPU type; participants take turns."),
    ]
    run_s: Quantiles | None
    agents_online: int
    agents_busy: int
    reason: Annotated[str | None, Meta(description="Why there is no agent, if there is none.")]
    as_of: Timestamp | None


class IntakeStatus(ApiModel, frozen=True, kw_only=True):
    """Why no submissions are accepted now; null if they are."""

    paused: str | None
