"""Facts of agents, and of the pools that they make."""

from typing import ClassVar

import msgspec

from shared.events.fact import Fact
from shared.events.values import FIRST_MODES, Blob, Missing


class AgentRegistered(Fact, frozen=True, kw_only=True):
    """What an agent offers, written when it differs from what it said before.

    With a `quarantine` it takes no orders, for this reason, until it is started again.
    `memory_mib` is that of its GPU or, for the processor, of its machine; `sandbox_memory_mib` the
    most of its machine's that a submission may have.
    """

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "scheduler"

    gpu: str
    count: int
    fingerprint: str
    level: str
    harness: str
    details: dict[str, str]
    tier: str = ""
    missing: list[Missing] = []
    toolchains: dict[str, str] = {}
    modes: list[str] = msgspec.field(default_factory=lambda: list(FIRST_MODES))
    quarantine: str = ""
    memory_mib: int = 0
    host: str = ""
    sandbox_memory_mib: int = 0


class AgentEnrolled(Fact, frozen=True, kw_only=True):
    """An agent may sign with this Ed25519 key, base64; a later one replaces it."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"

    sign_key: str
    owner: str
    reason: str = ""


class AgentRevoked(Fact, frozen=True, kw_only=True):
    """An agent may work and sign no more."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"

    reason: str


class AgentCordoned(Fact, frozen=True, kw_only=True):
    """An agent takes canaries alone, until it is released."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"

    reason: str


class AgentDrained(Fact, frozen=True, kw_only=True):
    """An agent takes nothing more; the run in hand may end."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"

    reason: str


class AgentQuarantined(Fact, frozen=True, kw_only=True):
    """An agent failed too often, or a canary ran badly: it takes nothing until released."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "scheduler"

    reason: str
    failures: int


class AgentReleased(Fact, frozen=True, kw_only=True):
    """Cordon, drain and quarantine of an agent are over."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"

    reason: str


class CanaryJudged(Fact, frozen=True, kw_only=True):
    """A canary ran on an agent; `ratio` is its time over the pool's usual one."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "scheduler"

    run: str
    ratio: float
    is_good: bool


class PoolPaused(Fact, frozen=True, kw_only=True):
    """No job of this GPU type is given out, until the pool is resumed."""

    aggregate: ClassVar[str] = "pool"
    publisher: ClassVar[str] = "ingest"

    reason: str


class PoolResumed(Fact, frozen=True, kw_only=True):
    """Jobs of this GPU type are given out again."""

    aggregate: ClassVar[str] = "pool"
    publisher: ClassVar[str] = "ingest"

    reason: str


class CanaryChosen(Fact, frozen=True, kw_only=True):
    """This submission is run on every agent of the pool, again and again."""

    aggregate: ClassVar[str] = "pool"
    publisher: ClassVar[str] = "ingest"

    submission: str
    account: str
    problem: str
    problem_number: int
    problem_digest: str
    source: Blob
    name: str
    every_s: float
    ratio_max: float


class CanaryRemoved(Fact, frozen=True, kw_only=True):
    """The pool runs no canary any more."""

    aggregate: ClassVar[str] = "pool"
    publisher: ClassVar[str] = "ingest"

    reason: str
