"""The state that the scheduler folds from the log, and the decisions that rules return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from sys import intern
from typing import Any

import msgspec

from shared import events, subjects
from shared.event_log import Append
from shared.events import Blob, Chunk, ChunkResult, Fact, RejudgeItem, Requires, RunOptions
from shared.subjects import BASELINE_ACCOUNT, contest_quota_id, derive_id

CANARY = "canary"
ATTEMPTS_MAX = 3
HOUR_S = 3600.0
NO_REQUIREMENTS, NO_OPTIONS = Requires(), RunOptions()


class Submission(msgspec.Struct, array_like=True):
    """An open submission; `cancel` is the reason why somebody wants it to end.

    Its own job, which stays as long as it is open, has everything else.
    """

    id: str
    version: int
    account: str
    job: str
    bucket: str = ""
    cost: int = 0
    normal_digest: str = ""
    cancel: str | None = None
    contest: str = ""
    contestant: str = ""
    contest_bucket: str = ""
    is_practice: bool = False

    @property
    def contest_quota(self) -> str:
        """The id of the quotas that it took one of in a contest."""
        return contest_quota_id(self.contest, self.contestant)


class Job(msgspec.Struct, array_like=True):
    """The work of a submission; it waits while `run` is None and `is_over` is false.

    `agents` hold its lease since `leased_at`, `avoid` failed it before, and `agents_lost` counts
    the runs that lost an agent after they had begun. `charge_s` is what its participant was charged
    for the current run. None of the `excluded_agents` may take it. `instance` is the agent that a
    launcher was asked to start for it; `launches` counts those that left it waiting, the last
    because of `launch_problem`. The job of a `chunk` has its evaluation as `submission`.
    """

    id: str
    version: int
    submission: str
    account: str
    problem: str
    problem_digest: str
    gpu: str
    mode: str
    class_: str
    requires: Requires
    source: Blob
    name: str
    deadline_at: datetime
    attempts_max: int
    queued_seq: int
    queued_at: datetime
    agent: str = ""
    rejudge: str = ""
    is_retime: bool = False
    options: RunOptions = RunOptions()
    duel: str = ""
    rival: Blob | None = None
    rival_name: str = ""
    confirmation: str = ""
    excluded_agents: list[str] = []
    check: str = ""
    chunk: Chunk | None = None
    attempt: int = 0
    run: str | None = None
    agents: list[str] = []
    leased_at: datetime | None = None
    avoid: list[str] = []
    agents_lost: int = 0
    charge_s: float = 0.0
    instance: str = ""
    launches: int = 0
    launch_problem: str = ""
    cancel: str = ""
    is_over: bool = False
    over_at: datetime | None = None

    def __post_init__(self) -> None:
        """Keep words that many jobs have in common once, also those of a snapshot."""
        self.account, self.problem = intern(self.account), intern(self.problem)
        self.problem_digest, self.name = intern(self.problem_digest), intern(self.name)
        self.gpu, self.mode, self.class_ = intern(self.gpu), intern(self.mode), intern(self.class_)
        if self.requires == NO_REQUIREMENTS:
            self.requires = NO_REQUIREMENTS
        if self.options == NO_OPTIONS:
            self.options = NO_OPTIONS

    @property
    def is_side(self) -> bool:
        """Whether its end ends no submission. A baseline's does, though it waits among rejudges."""
        return self.class_ == CANARY or bool(
            self.rejudge or self.duel or self.confirmation or self.check or self.chunk
        )

    @property
    def is_baseline(self) -> bool:
        """Whether the platform itself submitted it, so that nobody waits for it."""
        return self.account == BASELINE_ACCOUNT

    @property
    def is_deferrable(self) -> bool:
        """Whether nobody waits for its result, so that it gives way to whoever does."""
        return self.is_baseline or self.is_retime or bool(self.duel or self.confirmation)

    @property
    def is_awaited(self) -> bool:
        """Whether a person waits for its result, so that others give way to it."""
        return bool(self.check) or not (self.is_side or self.is_baseline)

    @property
    def payer(self) -> str:
        """Who is charged for its runs: evaluations do not cost a participant's next turn."""
        return f"{self.account}/{self.class_}" if self.chunk else self.account

    @property
    def kind(self) -> str:
        """What the job is, for people who look at the agent that runs it."""
        kinds = {
            CANARY: self.class_ == CANARY,
            "rejudge": self.rejudge,
            "duel": self.duel,
            "confirmation": self.confirmation,
            "check": self.check,
            "evaluation": self.chunk,
            "baseline": self.is_baseline,
        }
        return next((kind for kind, applies in kinds.items() if applies), "submission")

    @property
    def lane(self) -> str:
        """The key of the lane in which it waits."""
        return f"{self.class_}/{self.mode}"


def pooling_digest(submission: Submission, job: Job) -> str:
    """Return what submissions of equal sources have in common, of one and its own job."""
    return submission.normal_digest or job.source.digest


class Run(msgspec.Struct, array_like=True):
    """One attempt by one process of an agent; `end` is its terminal event's type, if any.

    `leader` is the run of the first agent of a gang; for a single agent it is the run itself.
    `token` is the sequence of its order. The run of a chunk ended with the `result`; `is_stopping`
    once it was asked to end early.
    """

    id: str
    agent: str
    job: str
    version: int
    session: str
    leader: str
    assigned_at: datetime
    lease_until_at: datetime
    has_begun: bool = False
    end: str | None = None
    code: str = ""
    reason: str = ""
    verdict: str = ""
    time_us: float = 0.0
    token: int = 0
    result: ChunkResult | None = None
    is_stopping: bool = False

    @property
    def is_member(self) -> bool:
        """Whether its agent only keeps itself free for the leader of its gang."""
        return self.leader != self.id


class Slot(msgspec.Struct):
    """The place of an agent for one run at a time: its open run, and its newest.

    `is_whole` says that the open run, of a gang, leaves the agent's other slots empty.
    """

    run: str = ""
    last_run: str = ""
    is_whole: bool = False

    def take(self, run: str, *, is_whole: bool) -> None:
        """Reserve it for a run."""
        self.run, self.is_whole = run, is_whole

    def free(self) -> None:
        """Note that its run is over."""
        self.run, self.is_whole = "", False


class Agent(msgspec.Struct):
    """An agent: its registration, what operators and the scheduler decided, and its current runs.

    `failures` counts the platform's failures in a row; what it lost with one session, the
    `lost_session`, is one failure, however many runs that ended. It has as many `slots` as it ever
    registered, of which those beyond its newest registration take no more runs. With a `launcher`
    it takes only the job for which that launcher was asked to start it.
    """

    version: int = 0
    registration: events.AgentRegistered | None = None
    is_enrolled: bool = False
    sign_key: str = ""
    cordon: str = ""
    drain: str = ""
    quarantine: str = ""
    revoked: str = ""
    failures: int = 0
    lost_session: str = ""
    slots: list[Slot] = msgspec.field(default_factory=lambda: [Slot()])
    canaries: int = 0
    canary_at: datetime | None = None
    canary_job: str = ""
    launcher: str = ""

    @property
    def out_of_service(self) -> str:
        """The reason why it takes no jobs, "" if it takes them."""
        if self.revoked:
            return f"revoked: {self.revoked}"
        if self.quarantine:
            return f"in quarantine: {self.quarantine}"
        return f"drained: {self.drain}" if self.drain else ""

    @property
    def runs(self) -> list[str]:
        """The open runs of its slots, also those whose order is still missing."""
        return [slot.run for slot in self.slots if slot.run]

    def next_run(self, name: str, place: int) -> str:
        """Return the id of the next run of a slot, after its last; `name` is the agent's.

        Every scheduler uses this id for the slot's next order, so the log keeps only one order.
        """
        return derive_id(name, f"run/{place}/{self.slots[place].last_run}")

    def find_slot(self, name: str, next_run: str) -> Slot | None:
        """Return the slot whose next run has this id."""
        for place, slot in enumerate(self.slots):
            if self.next_run(name, place) == next_run:
                return slot
        return None

    def free_slot(self, run: str) -> None:
        """Free the slot of a run that is over."""
        for slot in self.slots:
            if slot.run == run:
                slot.free()


class Lane(msgspec.Struct):
    """The waiting jobs of one class and mode, by participant, the oldest first.

    The next job is that of the participant with the least time: what the pool has charged, and
    `joined_s`. Newcomers begin at `floor_s`, the time of the last one served: `joined_s` is what
    each is treated as having used besides. `passed` counts the leases that went to other lanes
    since its own last one.
    """

    waiting: dict[str, list[tuple[int, str]]] = {}
    joined_s: dict[str, float] = {}
    floor_s: float = 0.0
    passed: int = 0


class Canary(msgspec.Struct):
    """The submission that every agent of a pool repeats; `times_us` are its newest good times."""

    seq: int
    chosen: events.CanaryChosen
    times_us: list[float] = []


class Pool(msgspec.Struct):
    """The agents of one GPU type: the jobs that wait for them, and how long recent runs took.

    `used_s` is for how many seconds each participant held agents, in all lanes, since the pool
    last had neither waiting jobs nor runs. `leased` are the jobs that hold agents, with their
    participants. `gangs` are the waiting jobs of several GPUs, each with the number of `leases`
    when it was queued; `gang_at` is that number when the last of them was leased. `deadlines` has
    all waiting jobs, the earliest deadline first.
    """

    paused: str | None = None
    canary: Canary | None = None
    lanes: dict[str, Lane] = {}
    used_s: dict[str, float] = {}
    leased: dict[str, str] = {}
    leases: int = 0
    gangs: dict[str, int] = {}
    gang_at: int = 0
    deadlines: list[tuple[datetime, str]] = []
    recent_s: dict[str, list[float]] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether any job waits for this pool."""
        return any(lane.waiting for lane in self.lanes.values())


class Instance(msgspec.Struct):
    """An agent that a launcher was asked to start for one job; `has_job` once it has its lease.

    `request` is the id of its InstanceRequested. It must be alive by `start_by_at`, and gone by
    `end_by_at`.
    """

    request: str
    agent: str
    job: str
    price: float
    requested_at: datetime
    start_by_at: datetime
    end_by_at: datetime
    has_job: bool = False


class Launcher(msgspec.Struct):
    """A launcher, the agents that it was asked for, and what the ended ones cost on a `day`.

    `failures` counts the agents that left a job waiting, or never came.
    """

    registered: events.LauncherRegistered
    version: int = 0
    instances: dict[str, Instance] = {}
    day: str = ""
    spent: float = 0.0
    failures: int = 0

    def cost_on(self, now: datetime) -> float:
        """Return what its agents cost today (UTC), those that run until now."""
        spent = self.spent if self.day == now.date().isoformat() else 0.0
        running = [
            instance.price * (now - instance.requested_at).total_seconds()
            for instance in self.instances.values()
        ]
        return spent + max(0.0, sum(running)) / HOUR_S


class Rejudge(msgspec.Struct):
    """A rejudge with submissions that are not queued yet; `is_retime` if ranker requested it."""

    problem: str
    to_digest: str
    items: list[RejudgeItem]
    is_retime: bool = False


class Evaluation(msgspec.Struct):
    """An open evaluation: its chunks' `jobs` that are not over, and how its items ended.

    `cancel` is the reason why somebody wants it to end. Its runs held devices for `device_s`.
    """

    version: int
    account: str
    item_s_max: float
    jobs: list[str] = []
    cancel: str | None = None
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    device_s: float = 0.0


class Refund(msgspec.Struct):
    """The quota that a submission took and that is to be returned."""

    bucket: str
    cost: int
    reason: str


class BestScore(msgspec.Struct):
    """A participant's best score on a leaderboard, never less than the score of their entry.

    `source` is what equal sources have in common. Their runs are pooled, so that of several the
    slowest one counts here.
    """

    submission: str
    source: str
    score_us: float


class SchedulerState(msgspec.Struct):
    """Everything that is open, and what must be known of the past; the fold changes it in place.

    `quotas` holds the quota versions of accounts with open submissions, `open_count` how many those
    are, and `refunds` what the accounts are owed. `requires` is keyed by problem digest and holds
    requirements that are not the default. `yardsticks` are the fixed times of the timed cases by
    `board_key`, and `bests` the best scores by `best_key`, the oldest first.

    `closing` are the submissions that are to be cancelled or whose job is over, and `active` the
    jobs that may need a decision before their deadline: those that were leased, are to be
    cancelled, lost their submission or an agent of a launcher. All others just wait, however many.
    """

    seq: int = 0
    submissions: dict[str, Submission] = {}
    closing: dict[str, None] = {}
    jobs: dict[str, Job] = {}
    active: dict[str, None] = {}
    runs: dict[str, Run] = {}
    agents: dict[str, Agent] = {}
    pools: dict[str, Pool] = {}
    launchers: dict[str, Launcher] = {}
    rejudges: dict[str, Rejudge] = {}
    duels: dict[str, events.DuelRequested] = {}
    confirmations: dict[str, events.ConfirmationRequested] = {}
    checks: dict[str, events.ProblemCheckRequested] = {}
    evaluations: dict[str, Evaluation] = {}
    quotas: dict[str, int] = {}
    open_count: dict[str, int] = {}
    refunds: dict[str, dict[str, Refund]] = {}
    requires: dict[str, Requires] = {}
    yardsticks: dict[str, dict[str, float]] = {}
    bests: dict[str, BestScore] = {}

    def agent(self, name: str) -> Agent:
        """Return an agent, created empty if unknown; only the fold calls this."""
        return self.agents.get(name) or self.agents.setdefault(name, Agent())

    def pool(self, gpu: str) -> Pool:
        """Return the pool of a GPU type, created empty if unknown; only the fold calls this."""
        return self.pools.get(gpu) or self.pools.setdefault(gpu, Pool())

    def is_orphan(self, job: Job) -> bool:
        """Return whether the submission of a job that is not a side job is over."""
        return not job.is_side and job.submission not in self.submissions

    def index_job(self, job: Job) -> None:
        """Update `active` and `closing` after a change of a job; only the fold calls this."""
        is_leased = job.run is not None
        if not job.is_over and (is_leased or job.cancel or job.launches or self.is_orphan(job)):
            self.active[job.id] = None
        else:
            self.active.pop(job.id, None)
        submission = self.submissions.get(job.submission) if job.is_over else None
        if submission is not None and submission.job == job.id:
            self.closing[submission.id] = None


def board_key(problem_digest: str, gpu: str) -> str:
    """Return the key of a problem version on a GPU type."""
    return f"{problem_digest} {gpu}"


def best_key(problem_digest: str, gpu: str, account: str) -> str:
    """Return the key of a participant's best score on a leaderboard."""
    return f"{board_key(problem_digest, gpu)} {account}"


@cache
def _shared_names(kind: type[msgspec.Struct], other: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name in other.__struct_fields__)


def shared_fields(value: msgspec.Struct, other: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a value that another type has too."""
    return {name: getattr(value, name) for name in _shared_names(type(value), other)}


def rejudge_job(rejudge: str, submission: str) -> str:
    """Return the id of a submission's job in a rejudge."""
    return derive_id(rejudge, f"job/{submission}")


def canary_job(agent: str, count: int) -> str:
    """Return the id of an agent's next canary, after `count` earlier ones."""
    return derive_id(agent, f"canary/{count}")


@dataclass(frozen=True)
class Offer:
    """An agent's heartbeat: its process, whether it takes an order now, and the runs that it has.

    The log may know already that some of these runs are over, and of others that began since.
    """

    agent: str
    session: str
    is_free: bool
    registration: events.AgentRegistered
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class World:
    """What the log does not hold: the time, the agents alive, and whether more may show up.

    `is_settled` is false while an agent may be alive that was not heard yet. While the clock is not
    trusted, nothing is past its time: no lease expires and no work is overdue. No lease expires
    either before `has_listened`: reports of agents may still wait for a scheduler. `misconduct`
    says why an agent must not be trusted any longer.
    """

    now: datetime
    offers: dict[str, Offer] = field(default_factory=dict)
    is_settled: bool = True
    is_clock_trusted: bool = True
    has_listened: bool = True
    misconduct: Mapping[str, str] = field(default_factory=dict)

    def is_past(self, at: datetime) -> bool:
        """Return whether a deadline or a lease is certainly over."""
        return self.is_clock_trusted and self.now >= at


Decision = tuple[Append, ...]


def split_decision(decision: Decision) -> Sequence[Decision]:
    """Split a decision into batches that are stored one after the other.

    The lease of a lone agent is stored before its order; everything else is stored at once. A
    missing order is added later (docs/adr/leases-and-orders.md).
    """
    is_lone = len(decision) == 2 and isinstance(decision[1].fact, events.JobAssigned)
    return (decision[:1], decision[1:]) if is_lone else (decision,)


def append_to_job(job: Job, fact: Fact) -> Append:
    """Return the append of a fact to a job's history."""
    return Append(subjects.job(job.id), fact, job.version, job.run or job.id, job.submission)


def append_to_run(run: Run, fact: Fact, submission: str) -> Append:
    """Return the append of a fact to a run's history."""
    return Append(subjects.run(run.agent, run.id), fact, run.version, run.id, submission)


def append_to_agent(state: SchedulerState, name: str, fact: Fact) -> Append:
    """Return the append of a fact to an agent's history."""
    return Append(subjects.agent(name), fact, state.agents[name].version, name, name)


SUBMIT_AGAIN = "this is not your kernel's fault and costs no quota: submit it again"


def fail_submission(
    state: SchedulerState, id_: str, code: str, reason: str, advice: str = SUBMIT_AGAIN
) -> Sequence[Append]:
    """End an open submission by the platform's fault; nothing if it is not open."""
    submission = state.submissions.get(id_)
    if submission is None:
        return ()
    job = state.jobs.get(submission.job)
    finished = events.SubmissionFinished(
        outcome="infra_failed",
        is_eligible=False,
        code=code,
        reason=f"{reason}; {advice}",
        job=submission.job,
        run=job.run if job else None,
    )
    aggregate = subjects.submission(id_)
    return (Append(aggregate, finished, submission.version, submission.job, id_),)


def give_up(
    state: SchedulerState, job: Job, code: str, reason: str, advice: str = SUBMIT_AGAIN
) -> Decision:
    """End a job that the platform could not run, and its submission."""
    fact = events.JobGivenUp(attempts=job.attempt, reason=reason, code=code, chunk=job.chunk)
    given_up = append_to_job(job, fact)
    if job.is_side:
        return (given_up,)
    return (given_up, *fail_submission(state, job.submission, code, reason, advice))
