"""What the HTTP API answers, as far as the command line reads it; unknown fields are left alone."""

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from shared.errors import Failed
from warpboard.domain.goals import Baseline, Milestone
from warpboard.domain.oversight import Balance

Answer = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One wrong element of a public case, as text."""

    index: str
    got: str
    expected: str


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """What a time amounts to; `share` is of what the GPU type's data sheet allows.

    Units: 10^9 bytes, and 10^9 operations, a second.
    """

    bandwidth_gb_s: float | None = None
    gflops: float | None = None
    dtype: str = ""
    share: float | None = None
    bound: str | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """How one case ended; times are of one call, in microseconds."""

    name: str
    stage: str
    verdict: str
    message: str = ""
    is_hidden: bool = False
    time_us: float | None = None
    interval_us: tuple[float, float] | None = None
    samples: int = 0
    process_us: list[float] = []
    null_us: list[float] = []
    grade: str = ""
    wrong: int = 0
    mismatches: list[Mismatch] = []
    roofline: Roofline | None = None
    vs_baseline: dict[str, float] = {}


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What a waiting submission waits for: its place, when it may begin, or why it cannot."""

    state: str
    position: int = 1
    ahead: int = 0
    eta_s: float | None = None
    eta_p90_s: float | None = None
    why: str | None = None
    agents_online: int = 0
    agents_busy: int = 0
    reason: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The case that is being run: `done` of `total` cases of the stage are over."""

    stage: str
    case: str
    done: int
    total: int


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One event in a submission's history."""

    seq: int
    type: str
    at: datetime
    note: str = ""
    actor: str = ""


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Where a finished submission stands, or why it is not ranked."""

    status: str
    eligible: bool | None = None
    code: str | None = None
    reason: str | None = None
    rank: int | None = None
    is_tied: bool = False
    runs: int = 1
    score_us: float | None = None
    interval_us: tuple[float, float] | None = None


class Moderation(msgspec.Struct, frozen=True, kw_only=True):
    """What people decided about a submission, and what came of its appeal."""

    rule: str | None = None
    reason: str | None = None
    appeal: str | None = None
    appeal_reason: str | None = None


class File(msgspec.Struct, frozen=True, kw_only=True):
    """What can be downloaded of a run."""

    name: str
    media: str = ""
    bytes: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution, on an agent or here: how it ended and what it measured."""

    verdict: str | None = None
    stage: str | None = None
    reason: str | None = None
    took_s: float | None = None
    level: str | None = None
    tier: str | None = None
    missing: list[str] = []
    cases: list[Case] = []
    files: list[File] = []
    log_head: str = ""
    log_tail: str = ""


class Submission(Run, frozen=True, kw_only=True):
    """One submission whole, with its newest run."""

    number: int
    problem: str
    problem_number: int
    gpu: str
    mode: str
    name: str
    state: str
    version: int
    is_over: bool
    participant: str | None = None
    agent: str | None = None
    outcome: str | None = None
    code: str | None = None
    is_eligible: bool = False
    grade: str = ""
    is_provisional: bool = False
    score_us: float | None = None
    received_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    state_since: datetime | None = None
    state_deadline_at: datetime | None = None
    state_owner: str | None = None
    queue: Queue | None = None
    note: str | None = None
    tag: str | None = None
    progress: Progress | None = None
    ranking: Ranking | None = None
    moderation: Moderation | None = None
    timeline: list[Moment] = []


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A line in a list of submissions."""

    number: int
    problem: str
    gpu: str
    mode: str
    name: str
    state: str
    participant: str | None = None
    received_at: datetime | None = None
    outcome: str | None = None
    verdict: str | None = None
    is_eligible: bool = False
    score_us: float | None = None
    tag: str | None = None


class Summaries(msgspec.Struct, frozen=True, kw_only=True):
    """A list of submissions, newest first."""

    items: list[Summary]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The promise for one GPU type, and what is left of the quota that it took of, if of one."""

    number: int
    gpu: str
    quota: Balance | None = None


class Receipts(msgspec.Struct, frozen=True, kw_only=True):
    """What a submit request was answered."""

    submissions: list[Receipt]
    problem_version: int = 0
    is_replay: bool = False


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A participant's best eligible run."""

    rank: int
    number: int
    score_us: float
    participant: str | None = None
    low_us: float | None = None
    high_us: float | None = None
    received_at: datetime | None = None
    tier: str | None = None
    level: str | None = None
    is_tied: bool = False
    runs: int = 1
    grade: str = ""
    is_provisional: bool = False
    roofline_fraction: float | None = None
    vs_baseline: dict[str, float] = {}


class Leaderboard(msgspec.Struct, frozen=True, kw_only=True):
    """One leaderboard, best first."""

    problem: str
    problem_version: int
    gpu: str
    items: list[Entry]
    title: str = ""
    as_of_at: datetime | None = None
    baselines: list[Baseline] = []
    milestones: list[Milestone] = []


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A wall that a machine cannot build, why not, and how to mend it."""

    wall: str
    reason: str = ""
    mend: str = ""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that registered, and whether it is alive."""

    id: str
    gpu: str
    level: str = ""
    tier: str = ""
    missing: list[Missing] = []
    toolchains: dict[str, str] = {}
    modes: list[str] = []
    details: dict[str, str] = {}
    quarantine: str = ""
    standing: str = ""
    standing_reason: str | None = None
    is_alive: bool = False
    is_free: bool = False


class Agents(msgspec.Struct, frozen=True, kw_only=True):
    """Every agent."""

    items: list[Agent]


def read(answer: Answer, kind: type[T]) -> T:
    """An answer as the type it should have. Errors: Failed if it has another shape."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise Failed(f"the platform's answer is no {kind.__name__}: {error}") from error
