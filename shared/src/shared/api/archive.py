"""The archive: kernels whose sources the reader may read, found by what they compute."""

from typing import Annotated

from msgspec import Meta

from shared.api.fields import ApiModel, Microseconds, SequenceNumber, SubmissionNumber, Timestamp


class ArchivedKernel(ApiModel, frozen=True, kw_only=True):
    """A correct ranked kernel; `GET /v1/submissions/{number}?source=true` has its source."""

    number: SubmissionNumber
    problem: str
    problem_version: int
    title: Annotated[str, Meta(description="The title of its problem.")]
    gpu: str
    language: Annotated[str, Meta(description="By the suffix of its file.")]
    toolchains: list[str]
    participant_id: str
    participant: str | None
    received_at: Timestamp
    score_us: Microseconds | None
    speedup: Annotated[
        float | None, Meta(description="How many times as fast as `speedup_over` it is.")
    ]
    speedup_over: Annotated[
        str, Meta(description="`yardstick`, or the name of the fastest baseline; empty if neither.")
    ]
    operations: Annotated[
        list[str], Meta(description="What its source computes, such as `softmax`.")
    ]
    similarity: Annotated[
        float | None,
        Meta(description="The share of its code that equals that of the given source, 0 to 1."),
    ]
    reason: Annotated[str, Meta(description="Why it matches; empty without a query.")]
    copies: Annotated[
        list[SubmissionNumber],
        Meta(description="Near-duplicates on the same leaderboard, which are not listed."),
    ]


class ArchiveSearch(ApiModel, frozen=True, kw_only=True):
    """The kernels that match, best first; without a query, by speed-up."""

    items: list[ArchivedKernel]
    next_cursor: str | None
    is_complete: Annotated[
        bool, Meta(description="False while the newest sources are still being read.")
    ]
    as_of: SequenceNumber
