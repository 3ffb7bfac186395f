"""Labels of the advisory screen: what in a source a moderator should look at."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, SequenceNumber, SubmissionNumber, Timestamp
from shared.api.submissions import Code, Outcome

Severity = Literal["high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")


class SourcePlace(ApiModel, frozen=True, kw_only=True):
    """A line of a file of a submission."""

    file: str
    line: Annotated[int, Meta(description="From 1.")]


class SourceLabel(ApiModel, frozen=True, kw_only=True):
    """A rule of the screen, and where in the source it applies."""

    rule: Annotated[str, Meta(description="Such as `timer_patched`.")]
    severity: Severity
    title: Annotated[str, Meta(description="Completes “The source …”.")]
    places: Annotated[
        list[SourcePlace], Meta(description="The first three lines of each file that match.")
    ]


class LabelledSubmission(ApiModel, frozen=True, kw_only=True):
    """A ranked submission with labels; they change neither its score nor its rank."""

    number: SubmissionNumber
    participant_id: str
    participant: str | None
    problem: str
    problem_version: int
    gpu: str
    received_at: Timestamp
    outcome: Outcome | None
    code: Code | None
    labels: Annotated[list[SourceLabel], Meta(description="The most severe first.")]


class LabelledSubmissions(ApiModel, frozen=True, kw_only=True):
    """Labelled submissions, newest first."""

    items: list[LabelledSubmission]
    next_before: Annotated[
        int | None, Meta(description="Pass it as `before` for the next page; null on the last.")
    ]
    version: Annotated[int, Meta(description="The version of the screen.")]
    is_complete: Annotated[
        bool, Meta(description="False while the newest sources are still being screened.")
    ]
    as_of: SequenceNumber


class LabelEvidence(SourcePlace, frozen=True, kw_only=True):
    """A line of a source that a label is about, quoted."""

    excerpt: Annotated[
        str, Meta(description="The line, at most 160 characters; empty if the source is gone.")
    ]


class ExplainedLabel(SourceLabel, frozen=True, kw_only=True):
    """A label with its evidence, and what it may and may not mean."""

    why: str
    page: Annotated[str, Meta(description="The address of the rule's description.")]
    evidence: list[LabelEvidence]


class SubmissionLabels(ApiModel, frozen=True, kw_only=True):
    """The labels of a submission, the most severe first."""

    number: SubmissionNumber
    labels: list[ExplainedLabel]
    version: Annotated[int, Meta(description="The version of the screen.")]
    as_of: SequenceNumber
