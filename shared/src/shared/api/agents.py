"""Agents and the harness codes that they run."""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Digest, SequenceNumber, SubmissionNumber, Timestamp

# The standings of agents that take jobs.
STANDINGS_AT_WORK = ("", "enrolled", "not_enrolled")


class MissingWall(ApiModel, frozen=True, kw_only=True):
    """A sandbox primitive that a machine cannot set up, why not, and how to fix it."""

    wall: str
    reason: str
    fix: str


class CurrentRun(ApiModel, frozen=True, kw_only=True):
    """A run that an agent has now, as the scheduler last reported."""

    kind: Literal[
        "submission",
        "baseline",
        "evaluation",
        "rejudge",
        "duel",
        "confirmation",
        "check",
        "canary",
    ]
    number: Annotated[
        SubmissionNumber | None,
        Meta(description="The submission; null if the reader cannot see it."),
    ]
    assigned_at: Timestamp


class CanaryRun(ApiModel, frozen=True, kw_only=True):
    """A canary on an agent; `ratio` is its time divided by the pool's usual time, 0 if it failed.

    One that is not good failed or was too slow.
    """

    at: Timestamp
    ratio: float
    is_good: bool


class Agent(ApiModel, frozen=True, kw_only=True):
    """A registered agent, its capabilities, and decisions about it."""

    id: str
    gpu: str
    count: int
    fingerprint: str | None
    level: str
    harness: str | None
    details: dict[str, str]
    tier: str
    missing: list[MissingWall]
    toolchains: dict[str, str]
    modes: list[str]
    quarantine: str
    registered_at: Timestamp | None
    owner: str | None
    enrolled_at: Timestamp | None
    cordoned: str | None
    drained: str | None
    quarantined: str | None
    revoked: str | None
    is_enrolled: bool
    is_alive: bool
    is_free: Annotated[bool, Meta(description="Whether it has a free slot.")]
    standing: Literal["revoked", "quarantined", "drained", "cordoned", "enrolled", "not_enrolled"]
    standing_reason: str | None
    slots: Annotated[int, Meta(description="How many runs it takes at once.")] = 1
    current_runs: list[CurrentRun] = []
    canaries: Annotated[
        list[CanaryRun], Meta(description="The newest 20 canaries, newest first.")
    ] = []

    @property
    def takes_jobs(self) -> bool:
        """Whether it is alive, and neither an operator nor its quarantine holds it back."""
        return self.is_alive and self.standing in STANDINGS_AT_WORK and not self.quarantine


class Agents(ApiModel, frozen=True, kw_only=True):
    """Every agent that was ever registered or enrolled, and the GPU types that launchers serve."""

    items: list[Agent]
    as_of: SequenceNumber
    launched: list[str] = []

    def gpus_with_agents(self) -> list[str]:
        """Return the GPU types with a live agent whose verdicts count."""
        return sorted({it.gpu for it in self.items if it.is_alive and it.is_enrolled})

    def gpus_without_agents(self, gpus: Iterable[str]) -> list[str]:
        """Return those of the GPU types for which no live agent takes jobs and none is started."""
        served = {agent.gpu.lower() for agent in self.items if agent.takes_jobs}
        served |= {gpu.lower() for gpu in self.launched}
        return [gpu for gpu in gpus if gpu.lower() not in served]


class HarnessUser(ApiModel, frozen=True, kw_only=True):
    """An agent whose newest registration has this harness code."""

    id: str
    gpu: str
    registered_at: Timestamp
    is_alive: bool


class Harness(ApiModel, frozen=True, kw_only=True):
    """A harness code of registered agents; `url` is the zip of its files."""

    digest: Digest
    version: str
    seen_at: Timestamp
    agents: list[HarnessUser]
    name: Annotated[str, Meta(description="The file name.")]
    url: str


class Harnesses(ApiModel, frozen=True, kw_only=True):
    """Every harness code, newest registration first."""

    items: list[Harness]
    as_of: SequenceNumber
