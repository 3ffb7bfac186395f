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
