"""Facts about agents and their pools, the log itself, leaderboards, duels and rejudges."""

from datetime import datetime
from typing import ClassVar, TypeAlias

from shared.events.submissions import SubmissionFinished
from shared.events.values import (
    Blob,
    DuelSide,
    Fact,
    Missing,
    OperatorAct,
    RejudgeItem,
)
from shared.run_values import DuelResult


class AgentEvent(Fact, frozen=True, kw_only=True):
    """An event of an agent."""

    aggregate: ClassVar[str] = "agent"
    publisher: ClassVar[str] = "ingest"


class AgentRegistered(AgentEvent, frozen=True, kw_only=True):
    """What an agent offers, recorded when it changes.

    With a `quarantine`, which is its reason, it accepts no orders until it is restarted.
    `memory_mib` is the memory of its GPU or, for the CPU, of its host; `sandbox_memory_mib` is the
    most host memory that a submission may use. It takes `slots` runs at once: one that has the
    device, and others that it builds meanwhile. `release` is the version of its software, "" for
    0.2 and before.
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
    modes: list[str]
    quarantine: str = ""
    memory_mib: int = 0
    host: str = ""
    sandbox_memory_mib: int = 0
    slots: int = 1
    release: str = ""


class AgentEnrolled(AgentEvent, frozen=True, kw_only=True):
    """An agent may sign with this Ed25519 key, base64; a later key replaces it."""

    is_operator_act: ClassVar[bool] = True
    sign_key: str
    owner: str
    reason: str = ""


class AgentRevoked(OperatorAct, AgentEvent, frozen=True, kw_only=True):
    """An agent may no longer work or sign."""


class AgentCordoned(OperatorAct, AgentEvent, frozen=True, kw_only=True):
    """An agent takes only canaries until it is released."""


class AgentDrained(OperatorAct, AgentEvent, frozen=True, kw_only=True):
    """An agent takes nothing new; the current run may finish."""


class AgentQuarantined(OperatorAct, AgentEvent, frozen=True, kw_only=True):
    """An agent takes nothing until released: failures, a bad canary, or an operator's decision."""

    publisher: ClassVar[str] = "ingest, scheduler"
    failures: int = 0


class AgentReleased(OperatorAct, AgentEvent, frozen=True, kw_only=True):
    """Cordon, drain and quarantine of an agent ended."""


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


class PoolPaused(OperatorAct, PoolEvent, frozen=True, kw_only=True):
    """No job of this GPU type is assigned until the pool is resumed."""


class PoolResumed(OperatorAct, PoolEvent, frozen=True, kw_only=True):
    """Jobs of this GPU type are assigned again."""


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


class CanaryRemoved(OperatorAct, PoolEvent, frozen=True, kw_only=True):
    """The pool no longer runs a canary."""


class LauncherEvent(Fact, frozen=True, kw_only=True):
    """An event of a launcher, which starts agents on demand, each for one job."""

    aggregate: ClassVar[str] = "launcher"
    publisher: ClassVar[str] = "launcher"


class LauncherRegistered(LauncherEvent, frozen=True, kw_only=True):
    """What a launcher offers, recorded when it changes.

    `prices` has the cost per hour for each GPU type that it serves. Its agents have the ids
    `agents`, so that at most this many run at once. Nothing is started on a day (UTC) on which its
    agents cost `daily_cost_max` already, nor counts as started after `start_s_max`.
    `toolchains` are those of its agents, empty if it does not know them.
    """

    kind: str
    prices: dict[str, float]
    agents: list[str]
    daily_cost_max: float
    start_s_max: float
    toolchains: list[str] = []


class InstanceRequested(LauncherEvent, frozen=True, kw_only=True):
    """A launcher is to start an agent, which gets this waiting job and no other."""

    publisher: ClassVar[str] = "scheduler"
    agent: str
    job: str
    gpu: str
    price: float
    start_by_at: datetime


class InstanceEnded(LauncherEvent, frozen=True, kw_only=True):
    """An agent that a launcher was to start has left or never came.

    `reason` is what went wrong, "" if it left in order; `url` leads to its log. `request` is the id
    of its InstanceRequested.
    """

    publisher: ClassVar[str] = "launcher, scheduler"
    agent: str
    job: str
    reason: str = ""
    url: str = ""
    request: str


class PlatformEvent(Fact, frozen=True, kw_only=True):
    """An event of the platform itself."""

    aggregate: ClassVar[str] = "audit"
    publisher: ClassVar[str] = "ingest"


class IntakePaused(OperatorAct, PlatformEvent, frozen=True, kw_only=True):
    """No submissions are accepted until intake is resumed."""


class IntakeResumed(OperatorAct, PlatformEvent, frozen=True, kw_only=True):
    """Submissions are accepted again."""


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


class EventSkipped(OperatorAct, PlatformEvent, frozen=True, kw_only=True):
    """A projection continues without an event that it could not fold."""

    projection: str
    seq: int


class DeadLetterRedriven(OperatorAct, PlatformEvent, frozen=True, kw_only=True):
    """An event that a consumer gave up was delivered to it again."""

    consumer: str
    seq: int


class LogImported(PlatformEvent, frozen=True, kw_only=True):
    """A log begins as a copy of another log, whose chain ended in `chain`."""

    publisher: ClassVar[str] = "ranker"
    chain: str
    count: int


class SealKeyChanged(PlatformEvent, frozen=True, kw_only=True):
    """The seals of events 1 to `seq` are by `old_key`, later ones by `new_key`, which signs this.

    A restore without the old key records it. The keys are public, in base64.
    """

    publisher: ClassVar[str] = "ranker"
    old_key: str
    new_key: str
    seq: int


class SegmentSealed(PlatformEvent, frozen=True, kw_only=True):
    """The events `first` to `last` are stored as the blob `events`; signed like a seal.

    `chain` is the hash chain up to `last`, hex. `histories` is the index of the histories of
    submissions, jobs and runs in it. A later event about the same `first` replaces this one.
    """

    publisher: ClassVar[str] = "ranker"
    first: int
    last: int
    chain: str
    events: Blob
    histories: Blob


class LogTruncated(PlatformEvent, frozen=True, kw_only=True):
    """The stream drops all histories that were over from its events 1 to `seq`.

    Segments have these events. `kept` is how many of them the stream still has; None while it is
    being truncated. A `seq` of 0 means that the stream has all events again.
    """

    publisher: ClassVar[str] = "ranker"
    seq: int
    kept: int | None = None


class AccountTablesAdopted(PlatformEvent, frozen=True, kw_only=True):
    """Participants' names are in the tables with this register; the event contains no name."""

    register: str
    reason: str


class OperatorActed(OperatorAct, PlatformEvent, frozen=True, kw_only=True):
    """An act of an operator that has no event of its own."""

    command: str
    target: str


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
LauncherFact: TypeAlias = LauncherRegistered | InstanceRequested | InstanceEnded
PoolFact: TypeAlias = PoolPaused | PoolResumed | CanaryChosen | CanaryRemoved
PlatformFact: TypeAlias = (
    IntakePaused
    | IntakeResumed
    | AuditSealed
    | ProjectionSwitched
    | EventSkipped
    | DeadLetterRedriven
    | LogImported
    | SealKeyChanged
    | SegmentSealed
    | LogTruncated
    | AccountTablesAdopted
    | OperatorActed
)


class LeaderboardEvent(Fact, frozen=True, kw_only=True):
    """An event of a leaderboard."""

    aggregate: ClassVar[str] = "ranking"
    publisher: ClassVar[str] = "ranker"


class RecordSet(LeaderboardEvent, frozen=True, kw_only=True):
    """A submission is the fastest on its leaderboard."""

    problem_number: int
    submission: str
    run: str
    account: str
    score_us: float
    previous_us: float | None = None


class PodiumChanged(LeaderboardEvent, frozen=True, kw_only=True):
    """The accounts in the first three places changed, or their order did.

    `is_by_run` if a run caused it, rather than a decision about another submission.
    """

    problem_number: int
    before: list[str]
    after: list[str]
    is_by_run: bool


class MilestoneReached(LeaderboardEvent, frozen=True, kw_only=True):
    """A participant reached a milestone on a leaderboard, for ever; `value` is the value met.

    It stays reached in all versions, whatever later happens to the submission.
    """

    problem_number: int
    milestone: str
    title: str
    account: str
    submission: str
    value: float


class DuelRequested(Fact, frozen=True, kw_only=True):
    """Two submissions of one leaderboard are to be timed in alternation.

    An operator requests it, or ranker for tied neighbours among the first three.
    """

    aggregate: ClassVar[str] = "duel"
    publisher: ClassVar[str] = "ingest, ranker"
    is_operator_act: ClassVar[bool] = True
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    first: DuelSide
    second: DuelSide
    reason: str = ""


class DuelJudged(Fact, frozen=True, kw_only=True):
    """A duel ended. `result` names the winner, A being the first; None without a signed verdict.

    It orders the two within their shared rank, and changes no score.
    """

    aggregate: ClassVar[str] = "duel"
    publisher: ClassVar[str] = "ranker"
    is_terminal: ClassVar[bool] = True
    problem: str
    problem_number: int
    gpu: str
    run: str | None = None
    result: DuelResult | None = None
    code: str = ""
    reason: str = ""


class ConfirmationRequested(Fact, frozen=True, kw_only=True):
    """A ranked run is to be repeated on another agent.

    It is of an entry among the first three of a leaderboard, or of a winner of the `contest`. `run`
    is the run to confirm, `agent` the agent that ran it, `score_us` its score, and `yardstick_us`
    that of its yardstick, None if it was timed alone. `other_agents` have repeated it already. With
    `is_fresh` a repetition counts only if it draws fresh hidden sizes.
    """

    aggregate: ClassVar[str] = "confirmation"
    publisher: ClassVar[str] = "ranker"
    problem: str
    problem_number: int
    problem_digest: str
    gpu: str
    item: RejudgeItem
    run: str
    agent: str
    score_us: float
    yardstick_us: float | None = None
    contest: str = ""
    is_fresh: bool = False
    other_agents: list[str] = []


class ConfirmationJudged(Fact, frozen=True, kw_only=True):
    """A confirmation ended. It changes no score and no rank.

    `code` is `confirmed`, `slower` or the verdict of a repetition that did not pass; without a
    `result` that counts it says why there is none. `ratio` is the score of the repetition divided
    by the score of the run.
    """

    aggregate: ClassVar[str] = "confirmation"
    publisher: ClassVar[str] = "ranker"
    is_terminal: ClassVar[bool] = True
    problem: str
    problem_number: int
    gpu: str
    agent: str = ""
    code: str
    reason: str = ""
    ratio: float | None = None
    result: SubmissionFinished | None = None


class RejudgeEvent(Fact, frozen=True, kw_only=True):
    """An event of a rejudge."""

    aggregate: ClassVar[str] = "rejudge"
    publisher: ClassVar[str] = "ingest"


class RejudgeRequested(OperatorAct, RejudgeEvent, frozen=True, kw_only=True):
    """These submissions are to run again.

    An operator requests it under another version of their problem. Ranker requests it under the
    same version, for an entry whose run was noisy, and applies or discards it by itself.
    """

    publisher: ClassVar[str] = "ingest, ranker"
    problem: str
    from_number: int
    to_number: int
    to_digest: str
    select: str
    items: list[RejudgeItem]

    @property
    def is_retime(self) -> bool:
        """Whether it times a noisy run again, under the same version."""
        return self.from_number == self.to_number


class RejudgeJudged(RejudgeEvent, frozen=True, kw_only=True):
    """One submission of a rejudge has a result, which does not count yet."""

    publisher: ClassVar[str] = "ranker"
    submission: str
    result: SubmissionFinished


class RejudgePreviewed(RejudgeEvent, frozen=True, kw_only=True):
    """All results of a rejudge are known; `diff` lists what they would change."""

    publisher: ClassVar[str] = "ranker"
    diff: Blob
    changed_count: int


class RejudgeApplied(OperatorAct, RejudgeEvent, frozen=True, kw_only=True):
    """The results of a rejudge count."""

    publisher: ClassVar[str] = "ingest, ranker"
    is_terminal: ClassVar[bool] = True


class RejudgeDiscarded(OperatorAct, RejudgeEvent, frozen=True, kw_only=True):
    """The results of a rejudge do not count."""

    publisher: ClassVar[str] = "ingest, ranker"
    is_terminal: ClassVar[bool] = True


LeaderboardFact: TypeAlias = RecordSet | PodiumChanged | MilestoneReached
ComparisonFact: TypeAlias = DuelRequested | DuelJudged | ConfirmationRequested | ConfirmationJudged
RejudgeFact: TypeAlias = (
    RejudgeRequested | RejudgeJudged | RejudgePreviewed | RejudgeApplied | RejudgeDiscarded
)
