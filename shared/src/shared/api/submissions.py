"""Submissions: receipts, lists, details, timelines, and histories of events by public names."""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from harness.vocabulary import SubmissionMode
from shared.api.cases import Case, Interval, Verdict, YardstickComparison
from shared.api.fields import (
    ApiModel,
    BestRank,
    Digest,
    Microseconds,
    OwnRunMicroseconds,
    PooledSubmissions,
    Seconds,
    SequenceNumber,
    SubmissionNumber,
    Timestamp,
    Visibility,
)
from shared.api.queues import DecisionResponse, Parked, Queue, QueueSnapshot
from shared.api.quotas import Balance
from shared.run_values import Composition, StageResult
from shared.source_files import SourceFile
from shared.states import SubmissionState

Outcome = Literal["passed", "failed", "timed_out", "cancelled", "infra_failed"]
# What lists of submissions can be filtered by; `open` is any state but finished.
LISTED_STATES: tuple[str, ...] = ("open", *get_args(SubmissionState), *get_args(Outcome))
Owner = Literal["scheduler", "gpu-agent", "ranker"]
Code = Annotated[str, Meta(description="Why it ended this way, for programs.")]
ResultVersion = Annotated[
    int, Meta(description="The newest problem version under which it has a result.")
]


# What a request may name.
REQUESTED_GPUS_MAX = 8
NCU_NAME_BASES = ("function", "demangled", "mangled")


class SubmissionRequest(msgspec.Struct, frozen=True):
    """A submission to send; without GPU types, those of the file or the problem apply.

    `name` and `source` are the entry, `others` the files beside it, with names relative to it.
    `case` is the only case to profile, counted from 1; 0 means all. The kernels that ncu captures
    can be chosen as in `RunOptions`. A `runner` is the launcher that starts an agent for it. One
    that does not wait for an agent is refused (`no_agent`) if nobody serves a GPU type now. A
    benchmark ends once its interval has the half width `precision`, a fraction; 0 means that of the
    file's directive, else the default. `licence` is that of the source in releases, "" for that of
    the account. `parent` is the number of the submission that it is derived from; 0 means that of
    the file's directive, else none. One that `needs_licence` is refused (`licence_missing`) if it
    is ranked and neither it nor the account has a licence.
    """

    name: str
    source: bytes
    problem: str
    mode: str
    gpus: tuple[str, ...] = ()
    case: int = 0
    note: str = ""
    tag: str = ""
    runner: str = ""
    ncu_kernel_name: str = ""
    ncu_kernel_name_base: str = ""
    ncu_launch_count: int = 0
    waits_for_agent: bool = True
    precision: float = 0.0
    licence: str = ""
    parent: int = 0
    needs_licence: bool = False
    others: tuple[SourceFile, ...] = ()

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """All its files, the entry first."""
        return SourceFile(self.name, self.source), *self.others

    @property
    def uploads(self) -> list[tuple[str, tuple[str, bytes]]]:
        """The files of the form that sends it, each with the name of its field."""
        fields = ["file", *["files"] * len(self.others)]
        return [(field, (it.name, it.data)) for field, it in zip(fields, self.files, strict=True)]

    @property
    def form(self) -> dict[str, str | list[str]]:
        """The fields of the form that sends it, beside its file."""
        optional = {"case": str(self.case or ""), "note": self.note, "tag": self.tag}
        optional |= {"runner": self.runner, "ncu_kernel_name": self.ncu_kernel_name}
        optional["ncu_kernel_name_base"] = self.ncu_kernel_name_base
        optional["ncu_launch_count"] = str(self.ncu_launch_count or "")
        optional["precision"] = str(self.precision or "")
        optional["licence"] = self.licence
        optional["parent"] = str(self.parent or "")
        optional["needs_licence"] = "true" if self.needs_licence else ""
        optional["waits_for_agent"] = "" if self.waits_for_agent else "false"
        return {
            "problem": self.problem,
            "mode": self.mode,
            "gpu": list(self.gpus),
            **{name: text for name, text in optional.items() if text},
        }


class SubmissionLine(ApiModel, frozen=True, kw_only=True):
    """A submission in a list; name, note and tag are shown to its owner and staff."""

    # Everybody sees a field that `PRIVATE` in ranker's `http/access.py` does not name.

    number: SubmissionNumber
    id: str
    participant_id: str
    participant: str | None
    problem: str
    problem_version: int
    gpu: str
    mode: SubmissionMode
    name: str
    received_at: Timestamp
    state: SubmissionState
    state_since: Timestamp
    deadline_at: Timestamp
    lease_until_at: Timestamp | None
    outcome: Outcome | None
    verdict: Verdict | None
    code: Code | None
    is_eligible: bool
    result_version: ResultVersion
    score_us: Microseconds | None
    pooled_over: PooledSubmissions
    is_withdrawn: bool
    note: str | None
    tag: str | None
    state_deadline_at: Timestamp | None
    state_owner: Owner | None
    has_several_files: bool = False


class NewestSubmissions(ApiModel, frozen=True, kw_only=True):
    """The newest submissions that the reader can see."""

    items: list[SubmissionLine]
    as_of: SequenceNumber
    parked: Parked | None


class OwnSubmissions(ApiModel, frozen=True, kw_only=True):
    """The reader's own submissions, page by page."""

    items: list[SubmissionLine]
    next_cursor: str | None
    as_of: SequenceNumber


class Evidence(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """The first failure; of a hidden case only its verdict."""

    stage: str = ""
    case: str | None = None
    verdict: Verdict = ""


class Ranking(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """The rank of a submission, or why it has none; others see it without the reasons."""

    status: Literal["ranked", "pending", "held", "not_ranked", "removed"]
    is_eligible: bool | None
    code: Code | None
    reason: str | None = None
    evidence: Evidence | None = None
    gpu: str
    rank: int | None
    best_rank: BestRank = None
    is_tied: bool
    tied_with: Annotated[int | None, Meta(description="How many others share the rank.")]
    score_us: Microseconds | None
    run_us: OwnRunMicroseconds
    pooled_over: PooledSubmissions
    interval_us: Interval | None
    best_number: SubmissionNumber | None
    delta_to_best: Seconds | None
    own_best_us: Annotated[
        Microseconds | None, Meta(description="The owner's best score there before it.")
    ] = None
    rank_before: Annotated[
        int | None,
        Meta(description="The rank that the owner's best score before it would have now."),
    ] = None
    delta_to_next: Seconds | None
    problem_version: int
    decided_at: Timestamp | None
    appeal_url: str | None = None


class TimelineEntry(ApiModel, frozen=True, kw_only=True):
    """An event of a submission; for other readers, note and actor are empty."""

    seq: SequenceNumber
    type: str
    at: Timestamp
    note: str
    actor: str
    state: Annotated[SubmissionState | None, Meta(description="The state after the event.")]


class File(ApiModel, frozen=True, kw_only=True):
    """A downloadable file of a run."""

    name: str
    media: str
    bytes: int
    digest: Digest


class Download(File, frozen=True, kw_only=True):
    """A file with its kind and URL."""

    kind: Literal["log", "samples", "artefact"]
    url: str


class ModerationState(ApiModel, frozen=True, kw_only=True):
    """Moderators' decisions about a submission or its participant."""

    is_held: bool
    is_disqualified: bool
    rule: str | None
    reason: str | None
    decided_at: Timestamp | None
    appeal: Literal["filed", "accepted", "rejected"] | None
    appeal_reason: str | None
    appealed_at: Timestamp | None
    ban_reason: str | None
    banned_at: Timestamp | None
    ban_until_at: Timestamp | None
    is_withdrawn: bool
    withdrawn_reason: str | None
    withdrawn_at: Timestamp | None


class Result(YardstickComparison, frozen=True, kw_only=True):
    """The result of a submission under a problem version."""

    problem_version: int
    rejudge: Annotated[str, Meta(description="The rejudge that it comes from, or empty.")]
    verdict: Verdict | None
    is_eligible: bool
    code: Code
    reason: str
    score_us: Microseconds | None
    run_us: OwnRunMicroseconds
    pooled_over: PooledSubmissions
    error: float | None
    freedom: int
    interval_us: Interval | None
    run: str | None
    at: Timestamp


class Progress(ApiModel, frozen=True, kw_only=True):
    """The running case and the finished stages, as the agent last reported."""

    stage: str
    case: str
    done: int
    total: int
    stages: list[StageResult]


class SourceText(ApiModel, frozen=True, kw_only=True):
    """A file of a submission; its name is a path relative to the entry file."""

    name: str
    text: str


class SubmissionSummary(YardstickComparison, frozen=True, kw_only=True):
    """The public part of a ranked submission."""

    id: str
    number: SubmissionNumber
    participant_id: str
    participant: str | None
    problem: str
    problem_version: int
    gpu: str
    mode: SubmissionMode
    name: str
    received_at: Timestamp
    deadline_at: Timestamp
    state: SubmissionState
    state_since: Timestamp
    state_deadline_at: Timestamp | None
    state_owner: Owner | None
    version: SequenceNumber
    is_over: bool
    outcome: Outcome | None
    verdict: Verdict | None
    code: Code | None
    is_eligible: bool
    result_version: ResultVersion
    is_held: bool
    score_us: Microseconds | None
    run_us: OwnRunMicroseconds
    pooled_over: PooledSubmissions
    interval_us: Interval | None
    grade: str
    is_provisional: bool
    level: str | None
    tier: str | None
    finished_at: Timestamp | None
    source: Annotated[str | None, Meta(description="The entry file, if it was asked for.")]
    ranking: Ranking | None
    timeline: list[TimelineEntry]
    cases: list[Case]
    files: list[Download]
    queue: Queue | None
    composition: Annotated[
        Composition | None,
        Meta(description="Null if it was not recorded; others see only the shares."),
    ] = None
    source_files: Annotated[
        list[SourceText],
        Meta(description="Its files, the entry file first; empty unless they were asked for."),
    ] = []


class FullSubmission(SubmissionSummary, frozen=True, kw_only=True):
    """A submission in full, as its owner and staff see it; clients decode both forms as this."""

    source_digest: Digest | None = None
    source_bytes: int = 0
    visibility: Visibility | None = None
    board_deadline_at: Timestamp | None = None
    source_visible: Annotated[str, Meta(description="Who else may read the source, and when.")] = ""
    is_consented: Annotated[
        bool, Meta(description="Whether the owner gave the required consent.")
    ] = False
    baseline: Annotated[
        str, Meta(description="Which of the problem's baselines it is; empty for submissions.")
    ] = ""
    is_withdrawn: bool = False
    lease_until_at: Timestamp | None = None
    agent: str | None = None
    attempt: int = 0
    reason: str | None = None
    process_us: list[Microseconds] = []
    error: float | None = None
    freedom: int = 0
    delta: float = 0.0
    run: str | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    missing: list[str] = []
    stage: str | None = None
    took_s: Seconds | None = None
    environment: dict[str, str] = {}
    fingerprint: Annotated[
        str | None, Meta(description="Of the machine: equal for agents of the same kind.")
    ] = None
    log_head: str = ""
    log_tail: str = ""
    usage: dict[str, float] = {}
    metrics: Annotated[
        dict[str, float], Meta(description="What the run measured besides, if the problem asks.")
    ] = {}
    key_commit: Annotated[
        str | None, Meta(description="SHA-256 of the key of the run's seeds.")
    ] = None
    note: str | None = None
    tag: str | None = None
    progress: Progress | None = None
    moderation: ModerationState | None = None
    results: list[Result] = []


SubmissionPage = FullSubmission | SubmissionSummary


class Links(ApiModel, frozen=True, kw_only=True):
    """The URLs of a submission, its events, and its cancellation."""

    self: str
    events: str
    cancel: str


class Receipt(ApiModel, frozen=True, kw_only=True):
    """A submission that is in the log; it ends by `deadline_at`."""

    number: SubmissionNumber
    id: str
    gpu: str
    state: Literal["received"]
    deadline_at: Timestamp
    queue: Annotated[QueueSnapshot | None, Meta(description="Null if it is unknown.")]
    quota: Balance | None
    links: Links
    warning: Annotated[
        str | None, Meta(description="Why nobody can run it now, and what happens then.")
    ] = None


class SubmissionReceipts(ApiModel, frozen=True, kw_only=True):
    """The accepted submissions, one for each GPU type."""

    submissions: list[Receipt]
    problem_version: int
    replayed: Annotated[bool, Meta(description="Whether this repeats an earlier response.")]
    licence_notice: Annotated[
        str | None,
        Meta(description="Why the source is in no release, and how to choose a licence."),
    ] = None


class CancelledSubmission(DecisionResponse, frozen=True, kw_only=True):
    """A submission that will end without a verdict."""

    number: SubmissionNumber
    state: Literal["cancelling"]


class WithdrawnSubmission(DecisionResponse, frozen=True, kw_only=True):
    """A submission that is off its leaderboard for ever."""

    number: SubmissionNumber
    state: Literal["withdrawn"]


class SubmissionNote(ApiModel, frozen=True, kw_only=True):
    """The private note on a submission."""

    number: SubmissionNumber
    note: str | None
    tag: str | None


HistoryEventType = Literal[
    "SubmissionReceived",
    "SubmissionCancelRequested",
    "SubmissionRanked",
    "SubmissionNotRanked",
    "SubmissionHeld",
    "SubmissionCancelled",
    "SubmissionEnded",
    "SubmissionReleased",
    "SubmissionDisqualified",
    "SubmissionRestored",
    "SubmissionWithdrawn",
    "SubmissionRejudged",
    "RetimeRequested",
    "RetimeDiscarded",
    "AppealFiled",
    "AppealDecided",
    "JobAssigned",
    "JobExpired",
    "JobRequeued",
    "JobGivenUp",
    "JobCancelled",
    "RunStarted",
    "RunCompleted",
    "RunFailed",
    "RunCancelled",
]


class HistoryEvent(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """One event; its fields depend on its type and on the reader."""

    id: Annotated[
        SequenceNumber,
        Meta(description="Its sequence; pass it as Last-Event-ID to continue after it."),
    ]
    type: HistoryEventType
    at: Timestamp
    version: int
    problem: str | None = None
    problem_version: int | None = None
    gpu: str | None = None
    mode: SubmissionMode | None = None
    name: str | None = None
    deadline_at: Timestamp | None = None
    reason: str | None = None
    rule: str | None = None
    is_accepted: bool | None = None
    code: Code | None = None
    outcome: Outcome | None = None
    verdict: Verdict | None = None
    is_eligible: bool | None = None
    score_us: Microseconds | None = None
    grade: str | None = None
    is_provisional: bool | None = None
    is_over: bool | None = None
    attempts_max: int | None = None
    attempts: int | None = None
    attempt: int | None = None
    agent: str | None = None
    lease_until_at: Timestamp | None = None
    harness: str | None = None
    level: str | None = None
    tier: str | None = None
    key_commit: str | None = None
    stage: str | None = None
    took_s: Seconds | None = None
    cases: int | None = None
    cases_failed: int | None = None
    stages: list[StageResult] | None = None


class HistoryEnd(ApiModel, frozen=True, kw_only=True):
    """The last message of a stream: whose history is complete, and up to which sequence."""

    number: int
    id: SequenceNumber
