"""The catalogue: every fact the platform records, for ever.

A field may be added with a default; anything else is a new version with an upcaster in `wire`.
Each fact says its aggregate (the subject it lives on), who publishes it, and whether it is the
last of its aggregate. `docs/events.md` is generated from here.
"""

from datetime import datetime
from typing import ClassVar

import msgspec

from shared.events.values import FIRST_MODES, Artefact, Blob, CaseResult, Missing


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What the data of an event is; its class name is the event's type."""

    aggregate: ClassVar[str] = ""
    publisher: ClassVar[str] = ""
    is_terminal: ClassVar[bool] = False
    version: ClassVar[int] = 1


class ProblemPublished(Fact, frozen=True, kw_only=True):
    """A problem has a new immutable version; `digest` is that of its manifest."""

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"

    number: int
    digest: str
    title: str
    manifest: Blob
    files: dict[str, Blob]
    gpus: list[str]
    cases_count: dict[str, int]
    ranking_by: str
    budgets_s: dict[str, float]
    source_bytes_max: int
    languages: list[str] = []


class SubmissionReceived(Fact, frozen=True, kw_only=True):
    """A participant's source was accepted; it now must end in one terminal event."""

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ingest"

    account: str
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    mode: str
    source: Blob
    name: str
    deadline_at: datetime
    via: str
    request_hash: str = ""


class SubmissionRejected(Fact, frozen=True, kw_only=True):
    """An accepted submission was turned down before any run; the participant's matter."""

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    code: str
    reason: str


class SubmissionFinished(Fact, frozen=True, kw_only=True):
    """The one end of a submission, with its eligibility decided once and for all.

    `process_us` is the score of each fresh process; `error` is the standard error of ln(score_us)
    with `freedom` degrees of freedom, never under `sigma_run` for one process; two scores closer
    than `delta`, a fraction, are tied.
    """

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ranker, scheduler"
    is_terminal: ClassVar[bool] = True

    outcome: str
    is_eligible: bool
    code: str
    reason: str
    job: str | None = None
    run: str | None = None
    verdict: str | None = None
    score_us: float | None = None
    interval_us: tuple[float, float] | None = None
    process_us: list[float] = []
    error: float | None = None
    freedom: int = 0
    sigma_run: float = 0.0
    delta: float | None = None
    grade: str = ""
    is_provisional: bool = False
    is_held: bool = False


class JobQueued(Fact, frozen=True, kw_only=True):
    """The work that a submission gives on one GPU type waits for an agent."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"

    submission: str
    account: str
    problem: str
    problem_digest: str
    gpu: str
    mode: str
    deadline_at: datetime
    attempts_max: int


class JobLeased(Fact, frozen=True, kw_only=True):
    """A job was given to an agent; stored in one batch with that run's JobAssigned."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"

    run: str
    agent: str
    attempt: int
    lease_until_at: datetime


class JobRequeued(Fact, frozen=True, kw_only=True):
    """The platform failed a run; the job waits again."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"

    run: str
    reason: str


class JobFinished(Fact, frozen=True, kw_only=True):
    """A run of the job ended with a verdict."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    run: str
    verdict: str


class JobGivenUp(Fact, frozen=True, kw_only=True):
    """The platform could not run the job in its attempts or its time."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    attempts: int
    reason: str


class JobAssigned(Fact, frozen=True, kw_only=True):
    """The order to one process of an agent; its sequence is the run's fencing token."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "scheduler"

    job: str
    submission: str
    attempt: int
    problem: str
    problem_digest: str
    source: Blob
    name: str
    gpu: str
    mode: str
    session: str
    lease_until_at: datetime
    deadline_at: datetime


class RunStarted(Fact, frozen=True, kw_only=True):
    """The agent began the run; its harness is bound to the key behind `key_commit`."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"

    fingerprint: str
    harness: str
    level: str
    tier: str
    key_commit: str
    missing: list[str] = []


class RunStageFinished(Fact, frozen=True, kw_only=True):
    """A stage of the run is over."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"

    stage: str
    verdict: str
    took_s: float
    cases: int


class RunCompleted(Fact, frozen=True, kw_only=True):
    """The harness gave a verdict; `key` opens `key_commit`, so the run can be repeated."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"
    is_terminal: ClassVar[bool] = True

    verdict: str
    stage: str
    reason: str
    cases: list[CaseResult]
    took_s: float
    key: str
    environment: dict[str, str]
    log_head: str = ""
    log_tail: str = ""
    log: Blob | None = None
    samples: Blob | None = None
    artefacts: list[Artefact] = []
    usage: dict[str, float] = {}
    sigma_run: float = 0.0
    tie_us: float = 0.0


class RunFailed(Fact, frozen=True, kw_only=True):
    """The platform or the problem failed, never the submission: there is no verdict."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"
    is_terminal: ClassVar[bool] = True

    stage: str
    code: str
    reason: str


class JobExpired(Fact, frozen=True, kw_only=True):
    """The lease is over: what the agent still says of this run no longer counts."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    reason: str


class RunDiscarded(Fact, frozen=True, kw_only=True):
    """The record of a result that came after the lease; it changes nothing."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"

    verdict: str


class AgentRegistered(Fact, frozen=True, kw_only=True):
    """What an agent offers, written when it differs from what it said before.

    With a `quarantine` it takes no orders, for this reason, until it is started again.
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


CATALOGUE: dict[str, type[Fact]] = {fact.__name__: fact for fact in Fact.__subclasses__()}
