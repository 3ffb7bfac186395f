"""The standing of a contest, its practice leaderboard, and the review of its winners."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Microseconds, SequenceNumber, SubmissionNumber, Timestamp

# The rounds of a contest, and what comes after its close.
StandingRound = Literal["qualifier", "main", "finals", "practice"]
# `live`: as it is. `frozen`: what was received before the freeze. `provisional`: proposed, and can
# be appealed. `final`: confirmed.
StandingState = Literal["live", "frozen", "provisional", "final"]


class ContestEntry(ApiModel, frozen=True, kw_only=True):
    """The entry of a contestant on a problem: its place in the division, and its points.

    `points` are those of the place times the weight of the problem. They are part of the sum unless
    the contest counts only the best problems, and this is not one of them (`is_counted`).
    """

    problem: str
    gpu: str
    rank: int
    is_tied: bool
    number: SubmissionNumber
    score_us: Microseconds
    received_at: Timestamp
    points: float
    is_counted: bool = True


class ContestStandingRow(ApiModel, frozen=True, kw_only=True):
    """A contestant, who is a person or a team, with the sum of their points.

    `members` are the accounts of the contestant, and `names` their names.
    """

    rank: int
    is_tied: bool
    points: float
    contestant: str
    name: str | None = None
    members: list[str] = []
    names: list[str | None] = []
    entries: list[ContestEntry] = []
    is_finalist: bool = False


class DivisionStanding(ApiModel, frozen=True, kw_only=True):
    """The standing of one division, best first."""

    division: str
    title: str
    rows: list[ContestStandingRow]


class ContestStanding(ApiModel, frozen=True, kw_only=True):
    """The standing of a contest after a round, or the leaderboard of practice after the close.

    It counts submissions that were received before `until_at`; None for all of the round.
    With `hidden` the current phase shows no ranks, and there are no rows.
    """

    contest: str
    title: str
    round: StandingRound
    state: Annotated[StandingState, Meta(description="Whether it can change.")]
    is_hidden: bool
    until_at: Timestamp | None
    divisions: list[DivisionStanding]
    as_of: SequenceNumber
    as_of_at: Timestamp | None = None


class ContestReviewDecision(ApiModel, frozen=True, kw_only=True):
    """The newest decision on an item of the check list of a winner."""

    item: str
    is_passed: bool
    note: str
    actor: str
    at: Timestamp


class ReviewedEntry(ApiModel, frozen=True, kw_only=True):
    """An entry of a winner, and what its reviewers look at.

    `confirmation` says how its repetition on another agent ended. `copies` are the submissions of
    others with an equal source, whenever they were received.
    """

    problem: str
    number: SubmissionNumber
    confirmation: str
    copies: list[SubmissionNumber]


class ContestResult(ApiModel, frozen=True, kw_only=True):
    """The place of a contestant in the results; the review is for organisers and operators."""

    contestant: str
    division: str
    place: int
    points: float
    review: list[ContestReviewDecision] | None = None
    entries: list[ReviewedEntry] | None = None


class ContestResults(ApiModel, frozen=True, kw_only=True):
    """The results of a contest: none yet, provisional, or final, with the prizes as text."""

    contest: str
    state: Literal["none", "provisional", "final"]
    announced_at: Timestamp | None
    results_as_of: SequenceNumber | None
    prizes: str
    places: list[ContestResult]
    finalists: list[str]
    as_of: SequenceNumber
