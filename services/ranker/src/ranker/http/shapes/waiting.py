"""What is answered of queues and agents."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from shared.answers import At, Digest, Number, Seconds, Seq

Waits = Literal["received", "queued", "assigned", "running", "ranking"]


class Parked(TypedDict):
    """The event before which the read models stand, and why."""

    seq: Seq
    error: str


class Quantiles(TypedDict):
    """How long something takes, half of the time and nine times in ten."""

    p50: Seconds | None
    p90: Seconds | None


class Queue(TypedDict):
    """What waits for a GPU type; `position` 1 is next, null while the scheduler has not said it."""

    gpu: str
    pool: str
    state: Literal["queued", "paused", "no_agent"]
    position: Annotated[int | None, Field(ge=1)]
    ahead: Annotated[int | None, Field(ge=0)]
    wait_s: Quantiles | None
    run_s: Quantiles | None
    agents_online: int
    agents_busy: int
    reason: str | None
    as_of: At
    eta_s: NotRequired[Seconds | None]
    eta_p90_s: NotRequired[Seconds | None]
    why: NotRequired[str | None]


class Depth(TypedDict):
    """How many submissions are in a state that is not the last."""

    gpu: str
    state: Waits
    submissions: int
    oldest_at: At


class QueueOfGpu(Queue):
    """What whoever submits for a GPU type now would wait for.

    Nobody's place follows from `waiting`: participants take turns.
    """

    waiting: Annotated[int, Field(ge=0, description="How many submissions wait for it.")]
    items: list[Depth]


class Job(TypedDict):
    """A place in a queue; whose it is, its owner and staff alone are told."""

    submission: str | None
    number: Number | None
    position: int
    eta_s: Seconds | None
    eta_p90_s: Seconds | None
    why: str | None


class Pool(TypedDict):
    """The queue of one GPU type."""

    gpu: str
    depth: int
    paused: str | None
    agents_online: int
    agents_free: int | None
    agents_busy: int | None
    run_s_p50: Seconds | None
    run_s_p90: Seconds | None
    forecast_at: At | None
    forecast: list[Job]


class Queues(TypedDict):
    """What is not over yet, by GPU type."""

    items: list[Depth]
    pools: list[Pool]
    as_of: Seq
    parked: Parked | None


class Wall(TypedDict):
    """A wall that a machine cannot build, why not, and how to mend it."""

    wall: str
    reason: str
    mend: str


class Agent(TypedDict):
    """Who registered, what they offer, and what was decided about them."""

    id: str
    gpu: str
    count: int
    fingerprint: str | None
    level: str
    harness: str | None
    details: dict[str, str]
    tier: str
    missing: list[Wall]
    toolchains: dict[str, str]
    modes: list[str]
    quarantine: str
    registered_at: At | None
    owner: str | None
    enrolled_at: At | None
    cordoned: str | None
    drained: str | None
    quarantined: str | None
    revoked: str | None
    is_enrolled: bool
    is_alive: bool
    is_free: bool
    standing: Literal["revoked", "quarantined", "drained", "cordoned", "enrolled", "not_enrolled"]
    standing_reason: str | None


class HarnessUser(TypedDict):
    """An agent that has a harness code now, by its newest registration."""

    id: str
    gpu: str
    registered_at: At
    is_alive: bool


class Harness(TypedDict):
    """A harness code that agents registered with: the zip of its files is at `url`."""

    digest: Digest
    version: str
    seen_at: At
    agents: list[HarnessUser]
    name: Annotated[str, Field(description="What the file is called.")]
    url: str


class Harnesses(TypedDict):
    """Every harness code, that of the newest registration first."""

    items: list[Harness]
    as_of: Seq


class Agents(TypedDict):
    """Every agent that ever registered or was enrolled."""

    items: list[Agent]
    as_of: Seq
