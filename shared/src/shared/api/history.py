"""A submission's history: events under their public names."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.cases import Verdict
from shared.api.fields import ApiModel, Microseconds, Mode, Seconds, SequenceNumber, Timestamp
from shared.api.submissions import Code, Outcome, StageResult

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
    "AppealFiled",
    "AppealDecided",
    "JobQueued",
    "JobAssigned",
    "JobExpired",
    "JobRequeued",
    "JobGivenUp",
    "JobCancelled",
    "RunStarted",
    "StageCompleted",
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
    mode: Mode | None = None
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
