"""Moderation, rejudges, operators' acts and seals."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from shared.api.cases import Verdict
from shared.api.fields import (
    ApiModel,
    Digest,
    Microseconds,
    SequenceNumber,
    SubmissionNumber,
    Timestamp,
)
from shared.api.submissions import Code, Outcome


class Decision(ApiModel, frozen=True, kw_only=True):
    """A decision about a submission, made or pending."""

    number: SubmissionNumber
    id: str
    participant: str | None
    problem: str
    problem_version: int
    gpu: str
    outcome: Outcome | None
    code: Code | None
    end_reason: str | None
    is_held_by_rule: bool
    is_held: bool
    is_disqualified: bool
    rule: str | None
    reason: str | None
    actor: str | None
    decided_at: Timestamp | None
    evidence: str | None
    appeal: Literal["filed", "accepted", "rejected"] | None
    appeal_text: str | None
    appeal_reason: str | None
    appealed_at: Timestamp | None
    is_withdrawn: bool
    withdrawn_at: Timestamp | None


class Moderation(ApiModel, frozen=True, kw_only=True):
    """Decisions, newest first."""

    items: list[Decision]
    as_of: SequenceNumber


class Rejudge(ApiModel, frozen=True, kw_only=True):
    """Submissions that run again under another version of their problem."""

    id: str
    problem: str
    from_version: int
    to_version: int
    select: Literal["best", "all", "noisy"]
    reason: str
    actor: str
    count: int
    state: Literal["running", "previewed", "applied", "discarded"]
    changed_count: int | None
    diff: Annotated[str | None, Meta(description="The digest of the preview.")]
    requested_at: Timestamp
    previewed_at: Timestamp | None
    ended_at: Timestamp | None
    end_reason: str | None
    end_actor: str | None
    judged: int


class Rejudges(ApiModel, frozen=True, kw_only=True):
    """Rejudges, newest first."""

    items: list[Rejudge]
    as_of: SequenceNumber


class ItemSide(ApiModel, frozen=True, kw_only=True):
    """A submission's result before or after a rejudge."""

    verdict: Verdict | None
    is_eligible: bool | None
    code: Code | None
    reason: str | None
    score_us: Microseconds | None
    rank: int | None


class Item(ApiModel, frozen=True, kw_only=True):
    """What a rejudge changes for a submission."""

    submission: str
    number: SubmissionNumber
    participant_id: str
    gpu: str
    old: ItemSide
    new: ItemSide
    changed: bool


class Move(ApiModel, frozen=True, kw_only=True):
    """A participant whose rank changes on a leaderboard."""

    gpu: str
    participant_id: str
    old_rank: int | None
    new_rank: int | None


class Preview(ApiModel, frozen=True, kw_only=True):
    """What a rejudge would change, or changed."""

    items: list[Item]
    moves: list[Move]
    changed_count: int


class FullRejudge(Rejudge, frozen=True, kw_only=True):
    """A rejudge with its preview, once there is one."""

    preview: Preview | None
    as_of: SequenceNumber


class OperatorAct(ApiModel, frozen=True, kw_only=True):
    """An operator's act; `data` is its event without long or secret fields."""

    seq: SequenceNumber
    at: Timestamp
    actor: str
    type: str
    about: Annotated[str, Meta(description="The aggregate, such as `pool.H100`.")]
    reason: str | None
    data: dict[str, Any]


class OperatorActs(ApiModel, frozen=True, kw_only=True):
    """Acts, newest first; a page may have few or none although more follow."""

    items: list[OperatorAct]
    next_before: int | None


class SealKey(ApiModel, frozen=True, kw_only=True):
    """The public key for checking the signatures of seals."""

    algorithm: Literal["ed25519"]
    key: Annotated[str, Meta(description="Base64.")]


class Seal(ApiModel, frozen=True, kw_only=True):
    """A signed position of the chain; the signature covers `data` and the sequence before it."""

    seq: SequenceNumber
    at: Timestamp
    sealed_seq: SequenceNumber
    chain: Digest
    sig: str | None
    data: str


class Seals(ApiModel, frozen=True, kw_only=True):
    """Seals, newest first."""

    items: list[Seal]
    key: str | None


class EventRange(ApiModel, frozen=True, kw_only=True):
    """Events in a row."""

    first: SequenceNumber
    last: SequenceNumber


class LogScrub(ApiModel, frozen=True, kw_only=True):
    """The comparison of the log with its archive: the pass under way, the last one, the damage."""

    began_at: Annotated[Timestamp | None, Meta(description="When the newest pass began.")]
    seq: Annotated[SequenceNumber, Meta(description="How far the newest pass has come.")]
    ended_at: Annotated[Timestamp | None, Meta(description="When the last complete pass ended.")]
    ended_seq: Annotated[SequenceNumber, Meta(description="How far it came.")]
    damaged_events: Annotated[
        int, Meta(description="How many events the log lacks, or has in another form.")
    ]
    damaged: list[EventRange]
    archive_damaged: Annotated[
        list[EventRange], Meta(description="Where the archive is not what was archived.")
    ]


class RequestedRejudge(ApiModel, frozen=True, kw_only=True):
    """A rejudge that has started, and how many submissions it runs again."""

    id: str
    count: int
    from_version: int
    to_version: int


class RejudgeSummary(ApiModel, frozen=True, kw_only=True):
    """A rejudge and its size."""

    problem: str
    from_version: int
    to_version: int
    count: Annotated[int, Meta(description="How many run again.")]
    changed_count: Annotated[int, Meta(description="How many results changed.")]
