"""What the log says is under way: the words of the fold, all that a snapshot keeps."""

from datetime import datetime

import msgspec

from shared import events
from shared.events import Blob, RejudgeItem, Requires
from shared.ids import BASELINE_ACCOUNT, derived

CANARY = "canary"
ATTEMPTS_MAX = 3
OPEN_SUBMISSIONS_MAX = 100


class Submission(msgspec.Struct):
    """A submission without its terminal event; `cancel` is why somebody wants it to end."""

    id: str
    version: int
    account: str
    problem: str
    problem_digest: str
    gpu: str
    mode: str
    source: Blob
    name: str
    deadline_at: datetime
    class_: str = "practice"
    requires: Requires = Requires()
    bucket: str = ""
    cost: int = 0
    case: int = 0
    job: str | None = None
    cancel: str | None = None


class Job(msgspec.Struct):
    """The work a submission gives; it waits while `run` is None and it is not over.

    `agents` hold its lease since `leased_at`, `avoid` failed it before, and `took_down` counts
    those that died of it; `charge_s` is what its participant was charged for the run at hand.
    None of the `excluded` agents may take it.
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
    case: int = 0
    duel: str = ""
    rival: Blob | None = None
    rival_name: str = ""
    confirmation: str = ""
    excluded: list[str] = []
    attempt: int = 0
    run: str | None = None
    agents: list[str] = []
    leased_at: datetime | None = None
    avoid: list[str] = []
    took_down: int = 0
    charge_s: float = 0.0
    cancel: str = ""
    is_over: bool = False
    over_at: datetime | None = None

    @property
    def is_side(self) -> bool:
        """Whether its end ends no submission: a baseline's does, though it waits among rejudges."""
        return self.class_ == CANARY or bool(self.rejudge or self.duel or self.confirmation)

    @property
    def is_baseline(self) -> bool:
        """Whether it is the platform's own and nobody waits for it, for as long as it likes."""
        return self.account == BASELINE_ACCOUNT

    @property
    def lane(self) -> str:
        """Where it waits among its likes."""
        return f"{self.class_}/{self.mode}"


class Run(msgspec.Struct):
    """One attempt by one process of an agent; `end` is its terminal event's type, if any.

    `leader` is the run of the first of a gang, of a single agent its own.
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

    @property
    def is_member(self) -> bool:
        """Whether its agent only keeps itself free for the leader of its gang."""
        return self.leader != self.id


class Agent(msgspec.Struct):
    """An agent: what it offers, what operators and we think of it, and what it has in hand.

    `failures` counts the platform's failures in a row; `run` is open, `last_run` was its newest.
    """

    version: int = 0
    registration: events.AgentRegistered | None = None
    is_enrolled: bool = False
    cordon: str = ""
    drain: str = ""
    quarantine: str = ""
    revoked: str = ""
    failures: int = 0
    run: str = ""
    last_run: str = ""
    canaries: int = 0
    canary_at: datetime | None = None
    canary_job: str = ""

    @property
    def out_of_service(self) -> str:
        """Why it takes nothing at all, "" if it may."""
        for word, reason in (
            ("revoked", self.revoked),
            ("in quarantine", self.quarantine),
            ("drained", self.drain),
        ):
            if reason:
                return f"{word}: {reason}"
        return ""


class Lane(msgspec.Struct):
    """The waiting jobs of one class and mode, by participant, the oldest first.

    `used_s` is what each was charged, in GPU-seconds, counted from `floor_s`, where whoever comes
    anew begins; `passed` counts the leases that went to other lanes since its own last.
    """

    waiting: dict[str, list[tuple[int, str]]] = {}
    used_s: dict[str, float] = {}
    floor_s: float = 0.0
    passed: int = 0


class Canary(msgspec.Struct):
    """What a pool runs again and again; `times_us` are the newest good ones."""

    seq: int
    chosen: events.CanaryChosen
    times_us: list[float] = []


class Pool(msgspec.Struct):
    """The agents of one GPU type: what waits for them, and how long such things took lately.

    `gangs` are the waiting jobs of several GPUs, each with how many `leases` there were when it
    came; `gang_at` is how many there were when the last of them was leased.
    """

    paused: str | None = None
    canary: Canary | None = None
    lanes: dict[str, Lane] = {}
    leases: int = 0
    gangs: dict[str, int] = {}
    gang_at: int = 0
    recent_s: dict[str, list[float]] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether any job waits for it."""
        return any(lane.waiting for lane in self.lanes.values())

    @property
    def is_asked(self) -> bool:
        """Whether its agents are of interest: a job waits for them, or they have canaries."""
        return self.canary is not None or self.is_waited_for


class Rejudge(msgspec.Struct):
    """A rejudge with submissions that are not queued yet."""

    problem: str
    to_digest: str
    items: list[RejudgeItem]


class Refund(msgspec.Struct):
    """What a submission took of a quota and is to get back."""

    bucket: str
    cost: int
    reason: str


class Board(msgspec.Struct):
    """All that is open, and what must be known of the past; the fold changes it in place.

    `quotas` are the versions of the accounts that have something open, `open_count` how much that
    is, `refunds` what is owed to them; `requires` is by problem digest, where it is not the usual.
    """

    seq: int = 0
    last_id: str = ""
    submissions: dict[str, Submission] = {}
    jobs: dict[str, Job] = {}
    runs: dict[str, Run] = {}
    agents: dict[str, Agent] = {}
    pools: dict[str, Pool] = {}
    rejudges: dict[str, Rejudge] = {}
    duels: dict[str, events.DuelRequested] = {}
    confirmations: dict[str, events.ConfirmationRequested] = {}
    quotas: dict[str, int] = {}
    open_count: dict[str, int] = {}
    refunds: dict[str, dict[str, Refund]] = {}
    requires: dict[str, Requires] = {}

    def agent(self, name: str) -> Agent:
        """What is known of an agent, perhaps nothing yet; for the fold, which may add it."""
        return self.agents.get(name) or self.agents.setdefault(name, Agent())

    def pool(self, gpu: str) -> Pool:
        """The pool of a GPU type, perhaps an empty one; for the fold, which may add it."""
        return self.pools.get(gpu) or self.pools.setdefault(gpu, Pool())


def rejudge_job(rejudge: str, submission: str) -> str:
    """The id of a submission's job in a rejudge."""
    return derived(rejudge, f"job/{submission}")


def canary_job(agent: str, count: int) -> str:
    """The id of an agent's next canary, after so many."""
    return derived(agent, f"canary/{count}")


def next_run(agent: str, last_run: str) -> str:
    """The id of an agent's next run, after its last.

    Whoever gives an agent its next order must give it under this name, so the log keeps one.
    """
    return derived(agent, f"run/{last_run}")
