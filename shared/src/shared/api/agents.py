"""Agents and the harness codes that they run."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Digest, SequenceNumber, Timestamp


class MissingWall(ApiModel, frozen=True, kw_only=True):
    """A sandbox primitive that a machine cannot set up, why not, and how to fix it."""

    wall: str
    reason: str
    fix: str


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
    is_free: bool
    standing: Literal["revoked", "quarantined", "drained", "cordoned", "enrolled", "not_enrolled"]
    standing_reason: str | None


class Agents(ApiModel, frozen=True, kw_only=True):
    """Every agent that was ever registered or enrolled."""

    items: list[Agent]
    as_of: SequenceNumber


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
