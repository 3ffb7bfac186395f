"""What is told of a submission's history: events of the log under public names."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from ranker.http.shapes.cases import Verdict
from ranker.http.shapes.submissions import Code, Outcome, StageResult
from shared.answers import At, Mode, Seconds, Seq

Type = Literal[
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


class Told(TypedDict):
    """One event; which fields it has says its type, and who reads it."""

    id: Annotated[Seq, Field(description="Its place: go on after it with Last-Event-ID.")]
    type: Type
    at: At
    version: int
    problem: NotRequired[str]
    problem_version: NotRequired[int]
    gpu: NotRequired[str]
    mode: NotRequired[Mode]
    name: NotRequired[str]
    deadline_at: NotRequired[At]
    reason: NotRequired[str]
    rule: NotRequired[str]
    is_accepted: NotRequired[bool]
    code: NotRequired[Code]
    outcome: NotRequired[Outcome]
    verdict: NotRequired[Verdict | None]
    eligible: NotRequired[bool]
    score: NotRequired[Seconds | None]
    grade: NotRequired[str]
    is_provisional: NotRequired[bool]
    is_over: NotRequired[bool]
    attempts_max: NotRequired[int]
    attempts: NotRequired[int]
    attempt: NotRequired[int]
    agent: NotRequired[str]
    lease_until_at: NotRequired[At]
    harness: NotRequired[str]
    level: NotRequired[str]
    tier: NotRequired[str]
    key_commit: NotRequired[str | None]
    stage: NotRequired[str]
    took_s: NotRequired[Seconds]
    cases: NotRequired[int]
    cases_failed: NotRequired[int]
    stages: NotRequired[list[StageResult]]


class End(TypedDict):
    """What the stream says last: whose history is over, and up to which place."""

    number: int
    id: Seq
