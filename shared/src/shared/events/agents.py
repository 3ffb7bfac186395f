"""Facts about agents and their pools, acts of operators, and the protection of the log."""

from typing import ClassVar, TypeAlias

import msgspec

from shared.events.values import FIRST_MODES, Blob, Fact, Missing


class AgentEvent(Fact, frozen=True, kw_only=True):
    """An event of an agent."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"


class AgentRegistered(AgentEvent, frozen=True, kw_only=True):
    """What an agent offers, recorded when it changes.

    With a `quarantine`, which is its reason, it accepts no orders until it is restarted.
    `memory_mib` is the memory of its GPU or, for the CPU, of its host; `sandbox_memory_mib` is the
    most host memory that a submission may use.
    """

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


class AgentEnrolled(AgentEvent, frozen=True, kw_only=True):
    """An agent may sign with this Ed25519 key, base64; a later key replaces it."""

    is_operator_act: ClassVar[bool] = True
    sign_key: str
    owner: str
    reason: str = ""


class AgentRevoked(AgentEvent, frozen=True, kw_only=True):
    """An agent may no longer work or sign."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class AgentCordoned(AgentEvent, frozen=True, kw_only=True):
    """An agent takes only canaries until it is released."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class AgentDrained(AgentEvent, frozen=True, kw_only=True):
    """An agent takes nothing new; the current run may finish."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class AgentQuarantined(AgentEvent, frozen=True, kw_only=True):
    """An agent failed too often, or a canary ran badly: it takes nothing until released."""

    publisher: ClassVar[str] = "scheduler"
    reason: str
    failures: int


class AgentReleased(AgentEvent, frozen=True, kw_only=True):
    """Cordon, drain and quarantine of an agent ended."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class CanaryJudged(AgentEvent, frozen=True, kw_only=True):
    """A canary ran on an agent; `ratio` is its time divided by the pool's usual time."""

    publisher: ClassVar[str] = "scheduler"
    run: str
    ratio: float
    is_good: bool


class PoolEvent(Fact, frozen=True, kw_only=True):
    """An event of a pool, the agents of one GPU type."""

    aggregate: ClassVar[str] = "pool"
    publisher: ClassVar[str] = "ingest"


class PoolPaused(PoolEvent, frozen=True, kw_only=True):
    """No job of this GPU type is assigned until the pool is resumed."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class PoolResumed(PoolEvent, frozen=True, kw_only=True):
    """Jobs of this GPU type are assigned again."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class CanaryChosen(PoolEvent, frozen=True, kw_only=True):
    """This submission runs on every agent of the pool repeatedly."""

    is_operator_act: ClassVar[bool] = True
    submission: str
    account: str
    problem: str
    problem_number: int
    problem_digest: str
    source: Blob
    name: str
    every_s: float
    ratio_max: float


class CanaryRemoved(PoolEvent, frozen=True, kw_only=True):
    """The pool no longer runs a canary."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class PlatformEvent(Fact, frozen=True, kw_only=True):
    """An event of the platform itself."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"


class IntakePaused(PlatformEvent, frozen=True, kw_only=True):
    """No submissions are accepted until intake is resumed."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class IntakeResumed(PlatformEvent, frozen=True, kw_only=True):
    """Submissions are accepted again."""

    is_operator_act: ClassVar[bool] = True
    reason: str


class AuditSealed(PlatformEvent, frozen=True, kw_only=True):
    """The hash chain over events 1 to `seq` ends in `chain`, hex; signed."""

    publisher: ClassVar[str] = "ranker"
    seq: int
    chain: str
    count: int


class ProjectionSwitched(PlatformEvent, frozen=True, kw_only=True):
    """Readers of a projection use another schema, folded up to `seq`."""

    publisher: ClassVar[str] = "ranker"
    name: str
    from_schema: str
    to_schema: str
    seq: int
    is_equal: bool


class EventSkipped(PlatformEvent, frozen=True, kw_only=True):
    """A projection continues without an event that it could not fold."""

    is_operator_act: ClassVar[bool] = True
    projection: str
    seq: int
    reason: str


class DeadLetterRedriven(PlatformEvent, frozen=True, kw_only=True):
    """An event that a consumer gave up was delivered to it again."""

    is_operator_act: ClassVar[bool] = True
    consumer: str
    seq: int
    reason: str


class LogImported(PlatformEvent, frozen=True, kw_only=True):
    """A log begins as a copy of another log, whose chain ended in `chain`."""

    publisher: ClassVar[str] = "ranker"
    chain: str
    count: int


class AccountTablesAdopted(PlatformEvent, frozen=True, kw_only=True):
    """Participants' names are in the tables with this register; the event contains no name."""

    register: str
    reason: str


class OperatorActed(PlatformEvent, frozen=True, kw_only=True):
    """An act of an operator that has no event of its own."""

    is_operator_act: ClassVar[bool] = True
    command: str
    target: str
    reason: str


AgentFact: TypeAlias = (
    AgentRegistered
    | AgentEnrolled
    | AgentRevoked
    | AgentCordoned
    | AgentDrained
    | AgentQuarantined
    | AgentReleased
    | CanaryJudged
)
PoolFact: TypeAlias = PoolPaused | PoolResumed | CanaryChosen | CanaryRemoved
PlatformFact: TypeAlias = (
    IntakePaused
    | IntakeResumed
    | AuditSealed
    | ProjectionSwitched
    | EventSkipped
    | DeadLetterRedriven
    | LogImported
    | AccountTablesAdopted
    | OperatorActed
)
