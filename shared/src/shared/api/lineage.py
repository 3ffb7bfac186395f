"""The lineage of a submission: what it is derived from, and what is derived from it."""

from typing import Annotated, Literal

from msgspec import Meta

from harness.vocabulary import SubmissionMode
from shared.api.cases import Interval
from shared.api.fields import ApiModel, Microseconds, SequenceNumber, SubmissionNumber, Timestamp

# The share of equal code from which on a submission comes from an earlier one. Of the catalogue's
# solutions, one pair in ten of different kernels for one problem has so much in common [measured].
SIMILARITY_MIN = 0.7


class LineageParent(ApiModel, frozen=True, kw_only=True):
    """A submission that another one comes from, as its participant declared or ranker detected."""

    number: SubmissionNumber
    kind: Literal["declared", "detected"]
    similarity: Annotated[
        float | None,
        Meta(description="The share of equal code, 0 to 1; null if the sources are not compared."),
    ]


class LineageMember(ApiModel, frozen=True, kw_only=True):
    """A submission in a family tree."""

    number: SubmissionNumber
    generation: Annotated[
        int, Meta(description="0: the submission itself; below 0: ancestors; above: descendants.")
    ]
    participant_id: str
    participant: str | None
    problem_version: int
    gpu: str
    mode: SubmissionMode
    received_at: Timestamp
    score_us: Microseconds | None
    interval_us: Interval | None
    parents: Annotated[
        list[LineageParent],
        Meta(description="The first is its parent in the tree; a declared one is before others."),
    ]
    speedup: Annotated[
        float | None,
        Meta(
            description="How many times as fast as `speedup_over` it is; null if none has a time."
        ),
    ]
    speedup_interval: Annotated[
        Interval | None, Meta(description="The 95 % interval of the speed-up.")
    ]
    speedup_over: Annotated[
        SubmissionNumber | None,
        Meta(description="Its nearest ancestor with a time on the same GPU type and version."),
    ]
    more_children: Annotated[int, Meta(description="How many of its children are not listed.")]


class Lineage(ApiModel, frozen=True, kw_only=True):
    """A family tree, depth first: ancestors, the submission, and its descendants."""

    items: list[LineageMember]
    is_complete: Annotated[
        bool, Meta(description="False while the newest sources are still being compared.")
    ]
    as_of: SequenceNumber
