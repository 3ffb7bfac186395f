"""Facts of runs: one attempt of one agent at a job."""

from datetime import datetime
from typing import ClassVar

import msgspec

from shared.events.fact import Fact
from shared.events.values import Artefact, Blob, CaseResult, DuelResult, StageResult


class JobAssigned(Fact, frozen=True, kw_only=True):
    """The order to one process of an agent; its sequence is the run's fencing token.

    A `gang` are the agents of a job of several GPUs; all but the first just keep theirs free.
    `gpus` says which GPU of their host each of them has, in the same order, where they said it.
    A profile of one timed case alone names the `case`, from 1 on. In mode `duel` the source is
    timed against its `rival`.
    """

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
    gang: list[str] = []
    class_: str = msgspec.field(default="practice", name="class")
    gpus: list[int] = []
    case: int = 0
    rival: Blob | None = None
    rival_name: str = ""


class RunStarted(Fact, frozen=True, kw_only=True):
    """The agent began the run; its harness is bound to the key behind `key_commit`."""

    aggregate: ClassVar[str] = "report"
    former_aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"

    fingerprint: str
    harness: str
    level: str
    tier: str
    key_commit: str
    missing: list[str] = []


class RunStageFinished(Fact, frozen=True, kw_only=True):
    """A stage of the run is over; only in older logs, for a run's end names its stages."""

    aggregate: ClassVar[str] = "report"
    former_aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"

    stage: str
    verdict: str
    took_s: float
    cases: int


class RunCompleted(Fact, frozen=True, kw_only=True):
    """The harness gave a verdict; `key` opens `key_commit`, so the run can be repeated.

    `stages` are those that ended, in order; an older run has a RunStageFinished for each instead.
    """

    aggregate: ClassVar[str] = "report"
    former_aggregate: ClassVar[str] = "run"
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
    duel: DuelResult | None = None
    stages: list[StageResult] = []


class RunFailed(Fact, frozen=True, kw_only=True):
    """The platform or the problem failed, never the submission: there is no verdict.

    `has_passed_self_test`: a known kernel passed on the agent after the failure, so the failure
    does not count towards its quarantine. `stages` are those that ended before, in order.
    """

    aggregate: ClassVar[str] = "report"
    former_aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"
    is_terminal: ClassVar[bool] = True

    stage: str
    code: str
    reason: str
    has_passed_self_test: bool = False
    stages: list[StageResult] = []


class JobExpired(Fact, frozen=True, kw_only=True):
    """The lease is over: what the agent still says of this run no longer counts."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    reason: str
    code: str = ""


class RunDiscarded(Fact, frozen=True, kw_only=True):
    """The record of a result that came after the lease; it changes nothing."""

    aggregate: ClassVar[str] = "report"
    former_aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "gpu-agent"

    verdict: str


class RunCancelled(Fact, frozen=True, kw_only=True):
    """The lease was taken back because its job was cancelled."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    reason: str


class RunReleased(Fact, frozen=True, kw_only=True):
    """The gang that an agent was kept free for is done with it."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "scheduler"
    is_terminal: ClassVar[bool] = True

    reason: str
