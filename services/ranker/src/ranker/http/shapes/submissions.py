"""What is answered of submissions: lines of a list, whole ones, their cases and histories."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from ranker.http.shapes.cases import Case, Interval, Verdict
from ranker.http.shapes.waiting import Parked, Queue
from shared.answers import (
    At,
    Digest,
    Mode,
    Number,
    PooledOver,
    RunUs,
    Seconds,
    Seq,
    Us,
    Visibility,
)

State = Literal["received", "queued", "assigned", "running", "ranking", "finished"]
Outcome = Literal["passed", "failed", "cancelled", "infra_failed"]
Owner = Literal["scheduler", "gpu-agent", "ranker"]
Code = Annotated[str, Field(description="Why it ended so, for programs.")]


ResultVersion = Annotated[
    int, Field(description="The newest problem version that it has a result under.")
]


class Line(TypedDict):
    """A submission in a list; a name, note or tag is shown to its owner and staff."""

    number: Number
    id: str
    account: str
    participant: str | None
    problem: str
    problem_number: int
    gpu: str
    mode: Mode
    name: str
    received_at: At
    state: State
    state_since: At
    deadline_at: At
    lease_until_at: At | None
    outcome: Outcome | None
    verdict: Verdict | None
    code: Code | None
    is_eligible: bool
    result_version: ResultVersion
    score_us: Us | None
    pooled_over: PooledOver
    is_withdrawn: bool
    note: str | None
    tag: str | None
    state_deadline_at: At | None
    state_owner: Owner | None
    score: Seconds | None


class Newest(TypedDict):
    """The newest submissions that one may see."""

    items: list[Line]
    as_of: Seq
    parked: Parked | None


class Own(TypedDict):
    """One's own submissions, page by page."""

    items: list[Line]
    next_cursor: str | None
    as_of: Seq


class Evidence(TypedDict, total=False):
    """The first thing that went wrong; of a hidden case no more than its verdict."""

    stage: str
    case: str | None
    verdict: Verdict


class Ranking(TypedDict):
    """Where a submission stands, or why it is not ranked; others see it without the reasons."""

    status: Literal["ranked", "pending", "held", "not_ranked", "removed"]
    eligible: bool | None
    code: Code | None
    reason: NotRequired[str | None]
    evidence: NotRequired[Evidence]
    gpu: str
    rank: int | None
    is_tied: bool
    tied_with: Annotated[int | None, Field(description="How many others share the rank.")]
    score_us: Us | None
    run_us: RunUs
    pooled_over: PooledOver
    interval_us: Interval | None
    score: Seconds | None
    ci95: Interval | None
    best_number: Number | None
    delta_to_best: Seconds | None
    own_best_us: NotRequired[
        Annotated[Us | None, Field(description="The best that its owner had there before it.")]
    ]
    delta_to_next: Seconds | None
    problem_version: int
    decided_at: At | None
    appeal_url: NotRequired[str | None]


class Happened(TypedDict):
    """An event in the life of a submission; to others its note and actor are empty."""

    seq: Seq
    type: str
    at: At
    note: str
    actor: str
    state: Annotated[State | None, Field(description="Where it led to.")]


class File(TypedDict):
    """What a run left to be downloaded."""

    name: str
    media: str
    bytes: int
    digest: Digest


class Download(File):
    """The same, with what it is and where it lies."""

    kind: Literal["log", "samples", "artefact"]
    url: str


class Decided(TypedDict):
    """What people decided about a submission or its participant."""

    is_held: bool
    is_disqualified: bool
    rule: str | None
    reason: str | None
    decided_at: At | None
    appeal: Literal["filed", "accepted", "rejected"] | None
    appeal_reason: str | None
    appealed_at: At | None
    ban_reason: str | None
    banned_at: At | None
    ban_until_at: At | None
    is_withdrawn: bool
    withdrawn_reason: str | None
    withdrawn_at: At | None


class Result(TypedDict):
    """What a submission scored under a problem version."""

    problem_number: int
    rejudge: Annotated[str, Field(description="The rejudge that it comes from, or empty.")]
    verdict: Verdict | None
    is_eligible: bool
    code: Code
    reason: str
    score_us: Us | None
    run_us: RunUs
    pooled_over: PooledOver
    error: float | None
    freedom: int
    low_us: Us | None
    high_us: Us | None
    run: str | None
    at: At


class StageResult(TypedDict):
    """How a stage of a run ended, and how many cases it had."""

    stage: str
    verdict: str
    took_s: Seconds
    cases: int


class Progress(TypedDict):
    """The case at hand and the stages that ended, as the agent last said."""

    stage: str
    case: str
    done: int
    total: int
    stages: list[StageResult]


class Summary(TypedDict):
    """What everybody sees of a ranked submission."""

    id: str
    number: Number
    account: str
    participant: str | None
    problem: str
    problem_number: int
    problem_version: int
    gpu: str
    mode: Mode
    name: str
    received_at: At
    created_at: At
    deadline_at: At
    state: State
    state_since: At
    state_deadline_at: At | None
    state_owner: Owner | None
    version: Seq
    is_over: bool
    outcome: Outcome | None
    verdict: Verdict | None
    code: Code | None
    is_eligible: bool
    result_version: ResultVersion
    is_held: bool
    score_us: Us | None
    run_us: RunUs
    pooled_over: PooledOver
    low_us: Us | None
    high_us: Us | None
    grade: str
    is_provisional: bool
    level: str | None
    tier: str | None
    finished_at: At | None
    source: str | None
    ranking: Ranking | None
    timeline: list[Happened]
    cases: list[Case]
    blobs: list[Download]
    files: list[File]
    queue: Queue | None


class Whole(Summary):
    """All of a submission, for its owner and staff."""

    source_digest: Digest
    source_bytes: int
    visibility: Visibility
    board_deadline_at: At | None
    source_visible: Annotated[str, Field(description="Who else reads the source, and when.")]
    is_consented: Annotated[bool, Field(description="Whether what is asked for is accepted.")]
    baseline: Annotated[str, Field(description="Which of its problem's; empty for all others.")]
    is_withdrawn: bool
    lease_until_at: At | None
    agent: str | None
    attempt: int
    reason: str | None
    score: Seconds | None
    process_us: list[Us]
    error: float | None
    freedom: int
    delta: float
    run: str | None
    started_at: At | None
    ended_at: At | None
    missing: list[str]
    stage: str | None
    took_s: Seconds | None
    environment: dict[str, str]
    fingerprint: Annotated[
        str | None, Field(description="Of the machine: the same for agents of one make.")
    ]
    log_head: str
    log_tail: str
    usage: dict[str, float]
    key_commit: Annotated[str | None, Field(description="SHA-256 of the key of the run's seeds.")]
    note: str | None
    tag: str | None
    progress: Progress | None
    moderation: Decided | None
    results: list[Result]


Page = Whole | Summary
