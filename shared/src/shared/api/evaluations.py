"""Evaluations: many sources for one problem version, which no leaderboard shows."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.cases import Case, Verdict
from shared.api.fields import (
    PRINTABLE_LINE,
    ApiModel,
    Digest,
    Microseconds,
    Seconds,
    SequenceNumber,
    Timestamp,
)
from shared.run_values import Composition, StageResult
from shared.source_files import SOURCE_FILES_MAX, SourceFile
from shared.states import EvaluationState

EvaluationMode = Literal["test", "benchmark"]
ItemOutcome = Literal["completed", "failed", "cancelled"]
Bounds = tuple[float, float]


class RequestModel(
    ApiModel, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A type that clients send: unknown fields are refused."""


class EvaluationItem(RequestModel, frozen=True, kw_only=True):
    """One source to evaluate; `id` is the client's own name of it, which its result has, too.

    `others` are the files beside it, by their names relative to it.
    """

    id: Annotated[str, Meta(min_length=1, max_length=200, pattern=PRINTABLE_LINE)]
    source: Annotated[str, Meta(min_length=1)]
    name: Annotated[
        str,
        Meta(min_length=1, max_length=200, description="Its suffix says in which language it is."),
    ] = "submission.py"
    others: Annotated[
        dict[str, str], Meta(max_length=SOURCE_FILES_MAX - 1, description="Files beside it.")
    ] = {}

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """All its files, the entry first."""
        texts = {self.name: self.source} | self.others
        return tuple(
            SourceFile(name, text.encode("utf-8", "surrogatepass")) for name, text in texts.items()
        )


class EvaluationRequest(RequestModel, frozen=True, kw_only=True):
    """Sources to evaluate on one problem and GPU type."""

    problem: Annotated[str, Meta(min_length=1)]
    gpu: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="By default the problem's only GPU type."),
    ] = None
    mode: EvaluationMode = "test"
    items: Annotated[list[EvaluationItem], Meta(min_length=1)]
    use_cache: Annotated[
        bool,
        Meta(description="False runs sources, too, whose verdict in mode `test` is known."),
    ] = True
    precision: Annotated[
        float,
        Meta(description="As for a benchmark, a fraction; 0 means its default.", ge=0, le=0.2),
    ] = 0.0


class Evaluation(ApiModel, frozen=True, kw_only=True):
    """An evaluation and how far it is; `ended` of its `items` have a result."""

    id: str
    participant_id: str
    participant: str | None = None
    problem: str
    problem_version: int
    problem_digest: Digest
    gpu: str
    mode: EvaluationMode
    state: EvaluationState
    state_owner: Annotated[
        str | None, Meta(description="The service that must end this state.")
    ] = None
    is_cancelling: bool = False
    outcome: Literal["completed", "cancelled"] | None = None
    items: int
    ended: int
    completed: Annotated[int, Meta(description="With a verdict, the cached ones among them.")]
    failed: Annotated[int, Meta(description="Without a verdict, by a fault of the platform.")]
    cancelled: int
    cached: int
    device_s: Annotated[Seconds, Meta(description="For how long its runs held devices.")]
    requested_at: Timestamp
    deadline_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    version: SequenceNumber
    results_url: str
    warnings: list[str] = []

    @property
    def is_over(self) -> bool:
        """Whether every item has a result."""
        return self.state == "finished"


class Evaluations(ApiModel, frozen=True, kw_only=True):
    """Evaluations, newest first; `next_before` continues the list."""

    items: list[Evaluation]
    next_before: SequenceNumber | None
    as_of: SequenceNumber


class EvaluationResult(ApiModel, frozen=True, kw_only=True, omit_defaults=True):
    """How one item ended: the `number`-th result of its evaluation, counted from 1.

    Without a `verdict` the item `failed` or was `cancelled`, and `failure_code` says why; that is
    never the fault of the source. The times are of mode `benchmark`, over the yardstick as in a
    benchmark. `doubts` say why a moderator would review a ranked submission of this source.
    """

    number: int
    item: Annotated[int, Meta(description="Its place in the evaluation, which promotes it.")]
    id: str
    outcome: ItemOutcome
    verdict: Verdict | None = None
    failure_code: str = ""
    reason: str = ""
    is_cached: bool = False
    stage: str = ""
    cases: list[Case] = []
    stages: list[StageResult] = []
    speedup: float | None = None
    interval: Annotated[Bounds | None, Meta(description="The 95 % interval of the speed-up.")] = (
        None
    )
    time_us: Microseconds | None = None
    time_interval_us: Bounds | None = None
    grade: str = ""
    composition: Composition | None = None
    doubts: list[str] = []
    log_head: str = ""
    log_tail: str = ""
    took_s: Seconds = 0.0
    usage: dict[str, float] = {}
    source_digest: str = ""
    problem_digest: str = ""
    harness_code: str = ""


class EvaluationUse(ApiModel, frozen=True, kw_only=True):
    """What one token used on one GPU type; "" is a login without a token."""

    participant_id: str
    participant: str | None
    token: str
    gpu: str
    evaluations: int
    items: int
    cached: int
    device_s: Seconds
    cost: Annotated[
        float | None, Meta(description="By the price of the GPU type; null without one.")
    ] = None


class EvaluationUses(ApiModel, frozen=True, kw_only=True):
    """What evaluations used since an instant, the most device time first."""

    since: Timestamp
    items: list[EvaluationUse]
    as_of: SequenceNumber


class CachedVerdictFound(ApiModel, frozen=True, kw_only=True):
    """A verdict for the digest of a source, and where its result is."""

    source: str
    verdict: str
    results: str
    line: int


class CachedVerdicts(ApiModel, frozen=True, kw_only=True):
    """The verdicts that are known."""

    items: list[CachedVerdictFound]
