"""Facts about problems, submissions, their jobs, and the runs of jobs on agents."""

from datetime import datetime
from typing import ClassVar, TypeAlias

import msgspec

from shared.events.values import (
    Artefact,
    Baseline,
    Blob,
    CaseResult,
    Chunk,
    ChunkResult,
    ChunkVerdicts,
    Fact,
    RestatedScore,
    Roof,
)
from shared.problems.values import Milestone, Requires
from shared.run_values import Composition, DuelResult, StageResult


class ProblemPublished(Fact, frozen=True, kw_only=True):
    """A problem has a new immutable version; `digest` is that of its manifest.

    `consent` names the file whose text a participant accepts before they submit, "" for none.
    `source_visible` and `publish` say who reads the sources submitted to this version, and when.
    `report` is the report of its check; `unchecked` says why there is none. `tested_gpus` are those
    on which the check ran its code and a correct solution. Only the platform runs the `baselines`.
    A submission has up to `source_files_max` files, of `source_bytes_max` together.
    `roofs` are of the timed cases, if the author declared their minimum work. `lang` is that
    of the problem's own code, `py` or `cu`.
    """

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
    requires: Requires = Requires()
    consent: str = ""
    source_visible: str = "after_close"
    publish: str = "after_close"
    report: Blob | None = None
    unchecked: str = ""
    baselines: list[Baseline] = []
    milestones: list[Milestone] = []
    roofs: list[Roof] = []
    lang: str
    tested_gpus: list[str] = []
    source_files_max: int = 1


class ProblemCheckRequested(Fact, frozen=True, kw_only=True):
    """An author wants a version to be checked on an agent of this GPU type; it is not published.

    The checks of one account are one history, and `check` is the id of this one. Its job is named
    by `subjects.job_id_of`, and ends the check: the signed verdict of its run names the report.
    `files` are those that the author sent, `request` names them for the agent, and `gpus` are the
    GPU types of the leaderboards.
    """

    aggregate: ClassVar[str] = "check"
    publisher: ClassVar[str] = "ingest"
    check: str
    account: str
    problem: str
    problem_digest: str
    gpu: str
    gpus: list[str]
    files: dict[str, Blob]
    request: Blob
    deadline_at: datetime
    requires: Requires = Requires()


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a submission asks of its run beside the mode; the order and the harness get the same.

    A profile of only one timed case names the `case`, starting from 1; 0 means all of them. ncu
    captures only kernels that `ncu_kernel_name` matches (an expression after `regex:`), as their
    `ncu_kernel_name_base`, and `ncu_launch_count` of them; "" and 0 mean its defaults. A benchmark
    ends once the 95 % interval of its times has the half width `precision`, a fraction; 0 means
    the default.
    """

    case: int = 0
    ncu_kernel_name: str = ""
    ncu_kernel_name_base: str = ""
    ncu_launch_count: int = 0
    precision: float = 0.0


class SubmissionReceived(Fact, RunOptions, frozen=True, kw_only=True):
    """A participant's source was accepted; it must now end in one terminal event.

    The blob `source` has all its files (`shared.source_files`), `name` is the entry's.
    `bucket` is the quota it was counted on, "" for none; `class_` is its class in the queue. One
    with a `baseline` is the platform's own, by that name, and is never ranked. Its job waits from
    now on. `normal_digest` is that of the source without comments, white space and the names of
    local variables, "" if it has none. `licence` is the one that its participant chose for this
    submission, "" for that of their account. `parent` is the number of the submission that it is
    declared to be derived from, 0 for none. `contest` is the contest that it was sent to, by its
    `contestant`, who is the participant or the team of that moment; both are "" for none.
    `contest_bucket` is what it took one of in the quotas of the contest's phase, "" for none.
    One with `is_practice` came after the deadline of a leaderboard that is in no contest: it is
    ranked on the practice leaderboard only. `sent_at` is when its participant sent it, if an
    operator submits it again; it counts from then on.
    """

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ingest"
    version: ClassVar[int] = 2
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
    class_: str = msgspec.field(default="practice", name="class")
    requires: Requires = Requires()
    bucket: str = ""
    cost: int = 0
    baseline: str = ""
    normal_digest: str = ""
    licence: str = ""
    parent: int = 0
    contest: str = ""
    contestant: str = ""
    contest_bucket: str = ""
    is_practice: bool = False
    sent_at: datetime | None = None

    @property
    def pooling_digest(self) -> str:
        """What equal sources have in common: scores are pooled, and copies found, by it."""
        return self.normal_digest or self.source.digest


class SubmissionFinished(Fact, frozen=True, kw_only=True):
    """The only end of a submission, with the final decision on its eligibility.

    `process_us` is the score of each fresh process; `error` is the standard error of ln(score_us)
    with `freedom` degrees of freedom, never under `sigma_run` for one process; two scores closer
    than `delta`, a fraction, are tied. `yardstick_us` is the score of the yardstick in the same
    unit; None if the run was timed alone, by a problem's own program.
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
    yardstick_us: float | None = None


class YardstickFixed(Fact, frozen=True, kw_only=True):
    """The yardstick's times for one problem version and GPU type, which are a unit for ever.

    `times_us` are by timed case, the medians of `runs`. Later runs are timed in this unit, and
    `restated` are the scores of earlier ones in it.
    """

    aggregate: ClassVar[str] = "yardstick"
    publisher: ClassVar[str] = "ranker"
    is_terminal: ClassVar[bool] = True
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    times_us: dict[str, float]
    runs: list[str]
    restated: list[RestatedScore] = []


class SubmissionCancelRequested(Fact, frozen=True, kw_only=True):
    """The actor wants the submission to end without a verdict."""

    aggregate: ClassVar[str] = "submission"
    publisher: ClassVar[str] = "ingest"
    reason: str


class JobEvent(Fact, frozen=True, kw_only=True):
    """An event of a job."""

    aggregate: ClassVar[str] = "job"
    publisher: ClassVar[str] = "scheduler"


class JobQueued(JobEvent, frozen=True, kw_only=True):
    """The job of a rejudge, canary, duel, confirmation, check or half chunk waits for an agent.

    A submission's own job waits from SubmissionReceived on, the chunks of an evaluation from
    EvaluationRequested on. A chunk whose agents died twice is split: its job keeps the first half,
    and this is the second one. This one names its `source`, since its
    submission may be over. A check has no submission: its own id stands there, and its source is
    the request. A canary's is for `agent` only, a duel's also names the `rival` of its
    source, and a confirmation's goes to none of the `excluded_agents`.
    """

    submission: str
    account: str
    problem: str
    problem_digest: str
    gpu: str
    mode: str
    deadline_at: datetime
    attempts_max: int
    class_: str = msgspec.field(default="practice", name="class")
    requires: Requires = Requires()
    rejudge: str = ""
    agent: str = ""
    source: Blob | None = None
    name: str = ""
    duel: str = ""
    rival: Blob | None = None
    rival_name: str = ""
    confirmation: str = ""
    excluded_agents: list[str] = []
    check: str = ""
    chunk: Chunk | None = None


class JobLeased(JobEvent, frozen=True, kw_only=True):
    """A job was leased to an agent; that run's JobAssigned follows, even after a crash in between.

    A job of several GPUs is leased to a gang, all `agents` at once, of which the first runs it; its
    orders are stored in one batch with this. A lease whose run is ordered for another job is void.
    `chunk` are the items of an evaluation that the run gets.
    """

    run: str
    agent: str
    attempt: int
    lease_until_at: datetime
    agents: list[str] = []
    chunk: Chunk | None = None


class JobRequeued(JobEvent, frozen=True, kw_only=True):
    """A run ended without a verdict; the job waits again.

    The job of a chunk goes on with the items of `chunk`. `result` are those that its run ended,
    because it was asked to stop; none of them runs again.
    """

    run: str
    reason: str
    avoid_agents: list[str] = []
    chunk: Chunk | None = None
    result: ChunkResult | None = None


class JobFinished(JobEvent, frozen=True, kw_only=True):
    """A run of a rejudge, canary, duel, confirmation, check or chunk ended with a verdict.

    A submission's own job ends with the RunCompleted of the run that its lease names. `result` are
    the items of a chunk.
    """

    is_terminal: ClassVar[bool] = True
    run: str
    verdict: str
    result: ChunkResult | None = None


class JobGivenUp(JobEvent, frozen=True, kw_only=True):
    """The platform could not run the job within its attempts or its time.

    The items of `chunk`, if it was one, end without a verdict; `code` says why.
    """

    is_terminal: ClassVar[bool] = True
    attempts: int
    reason: str
    code: str = ""
    chunk: Chunk | None = None


class JobCancelled(JobEvent, frozen=True, kw_only=True):
    """The job ended without a verdict, because somebody cancelled it.

    The items of `chunk`, if it was one, end without a verdict.
    """

    is_terminal: ClassVar[bool] = True
    reason: str
    chunk: Chunk | None = None


class RunEvent(Fact, frozen=True, kw_only=True):
    """An event of a run that scheduler writes."""

    aggregate: ClassVar[str] = "run"
    publisher: ClassVar[str] = "scheduler"


class JobAssigned(RunEvent, RunOptions, frozen=True, kw_only=True):
    """The order to one process of an agent; its sequence is the run's fencing token.

    A `gang` lists the agents of a job of several GPUs; all but the first only keep theirs free.
    `gpus` lists each agent's GPU on the host, in the same order, if they reported it. In mode
    `duel` the source is timed against its `rival`; in mode `check` the problem itself is checked.
    `yardstick_us` are the fixed times of the yardstick by timed case, empty if there are none.
    `best_us` is the best score of the participant on this leaderboard, 0 if it is not known or the
    run has to end in any case. With a `chunk`, `source` has the sources of the whole evaluation, a
    line of JSON for each item (`shared.evaluations`), and the run takes those of the chunk in their
    order; its `submission` is the evaluation.
    """

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
    rival: Blob | None = None
    rival_name: str = ""
    yardstick_us: dict[str, float] = {}
    best_us: float = 0.0
    chunk: Chunk | None = None


class ReportEvent(Fact, frozen=True, kw_only=True):
    """An agent's report on its run."""

    aggregate: ClassVar[str] = "report"
    publisher: ClassVar[str] = "gpu-agent"


class RunStarted(ReportEvent, frozen=True, kw_only=True):
    """The agent started the run; its harness is bound to the key committed to in `key_commit`."""

    fingerprint: str
    harness: str
    level: str
    tier: str
    key_commit: str
    missing: list[str] = []


class RunCompleted(ReportEvent, frozen=True, kw_only=True):
    """The harness gave a verdict; `key` opens `key_commit`, so that the run can be repeated.

    `stages` lists the completed stages in order. `composition` is what produced the answer, None if
    it was not recorded. `stopped` says in words why a ranked run stopped early, "" if it did not,
    and `over_limit` which of the problem's `metrics` are out of bounds.
    The run of a chunk ends with the verdict `passed` and no cases. `chunk` names the items that it
    ended, at least one, the first of its order among them; fewer than ordered if it was asked to
    stop, or if the platform failed at the next one. Their results are the artefact `results.jsonl`
    (`shared.evaluations`).
    """

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
    composition: Composition | None = None
    stopped: str = ""
    chunk: ChunkVerdicts | None = None
    metrics: dict[str, float] = {}
    over_limit: str = ""


class RunFailed(ReportEvent, frozen=True, kw_only=True):
    """The platform or the problem failed, not the submission: there is no verdict.

    The run of a chunk failed at its first item.

    `has_passed_self_test`: a known kernel passed on the agent after the failure, so the failure
    does not count towards its quarantine. `stages` lists the stages completed before, in order.
    """

    is_terminal: ClassVar[bool] = True
    stage: str
    code: str
    reason: str
    has_passed_self_test: bool = False
    stages: list[StageResult] = []


class JobExpired(RunEvent, frozen=True, kw_only=True):
    """The lease ended: later reports of the agent on this run do not count."""

    is_terminal: ClassVar[bool] = True
    reason: str
    code: str


class RunDiscarded(ReportEvent, frozen=True, kw_only=True):
    """A result that came after the lease; it changes nothing."""

    verdict: str


class RunCancelled(RunEvent, frozen=True, kw_only=True):
    """The lease was revoked: its job was cancelled, or gives way to a participant's."""

    is_terminal: ClassVar[bool] = True
    reason: str


class RunReleased(RunEvent, frozen=True, kw_only=True):
    """The gang for which the agent was kept free has finished."""

    is_terminal: ClassVar[bool] = True
    reason: str


class SlotReserved(RunEvent, frozen=True, kw_only=True):
    """A slot of an agent stays empty beside `run`, with which a gang has the whole agent.

    It takes the id of the slot's next run, so that the log refuses an order with that id.
    """

    is_terminal: ClassVar[bool] = True
    run: str


SubmissionFact: TypeAlias = (
    ProblemPublished
    | ProblemCheckRequested
    | SubmissionReceived
    | SubmissionFinished
    | SubmissionCancelRequested
    | YardstickFixed
)
JobFact: TypeAlias = JobQueued | JobLeased | JobRequeued | JobFinished | JobGivenUp | JobCancelled
RunFact: TypeAlias = (
    JobAssigned
    | RunStarted
    | RunCompleted
    | RunFailed
    | JobExpired
    | RunDiscarded
    | RunCancelled
    | RunReleased
    | SlotReserved
)
