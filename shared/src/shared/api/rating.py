"""The rating of participants over all problems."""

from typing import Annotated

from msgspec import Meta

from shared.api.fields import ApiModel, SequenceNumber, SubmissionNumber, Timestamp


class RatedProblem(ApiModel, frozen=True, kw_only=True):
    """What a participant has from a problem: the points of the leaderboard that gives most."""

    problem: str
    problem_version: int
    gpu: str
    rank: int
    entries_count: int
    number: SubmissionNumber
    points: Annotated[float, Meta(description="From 0 to below 100.")]


class RatedParticipant(ApiModel, frozen=True, kw_only=True):
    """A participant with their rating: the sum of their points."""

    participant_id: str
    participant: Annotated[str | None, Meta(description="Null once the name is deleted.")]
    rating: float
    rank: int
    is_tied: bool
    problems: Annotated[list[RatedProblem], Meta(description="The most points first.")]


class Ratings(ApiModel, frozen=True, kw_only=True):
    """Rated participants, the best first."""

    items: list[RatedParticipant]
    total: Annotated[int, Meta(description="How many participants are rated.")]
    next_after: Annotated[
        int | None, Meta(description="Pass it as `after` for the next page; null on the last.")
    ]
    at: Annotated[Timestamp, Meta(description="The instant that the rating is of.")]
    as_of: SequenceNumber
