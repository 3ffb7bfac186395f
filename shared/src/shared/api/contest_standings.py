"""The standing of a contest, its practice leaderboard, and the review of its winners."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Microseconds, SequenceNumber, SubmissionNumber, Timestamp
from shared.contests.definition import ReviewItem

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


# How the repetitions of a winner's runs on other agents stand. `waiting`: more are to come.
# `differs`: one was slower. `failed`: one did not pass. `incomplete`: too few agents can repeat it.
RepetitionState = Literal["waiting", "confirmed", "differs", "failed", "incomplete"]


class ContestCheck(ApiModel, frozen=True, kw_only=True):
    """An item of the check list of a winner: what the platform knows of it, and the decision.

    With `is_doubtful` the evidence speaks against the winner, whatever was decided. Until somebody
    decides, `is_passed` is null.
    """

    item: ReviewItem
    evidence: str
    is_doubtful: bool
    is_passed: bool | None = None
    note: str = ""
    actor: str = ""
    at: Timestamp | None = None


class NearCopySource(ApiModel, frozen=True, kw_only=True):
    """A submission of another whose source is nearly the same, from 0 to 1."""

    number: SubmissionNumber
    similarity: float


class ReviewedEntry(ApiModel, frozen=True, kw_only=True):
    """An entry of a winner, and what its reviewers look at.

    `confirmation` says how its repetitions on other agents stand; with `is_fresh` each draws hidden
    sizes of its own. `copies` are the submissions of others with an equal source, whenever they
    were received.
    """

    problem: str
    number: SubmissionNumber
    state: RepetitionState
    confirmation: str
    is_fresh: bool
    copies: list[SubmissionNumber]
    near_copies: list[NearCopySource]


class ContestResult(ApiModel, frozen=True, kw_only=True):
    """The place of a contestant in the results.

    Of winners, `repetitions` says how their runs on other agents stand. The checks and the entries
    are for organisers and operators. Who `is_disqualified` since has no claim to the place.
    """

    contestant: str
    name: str | None = None
    division: str
    place: int
    points: float
    is_disqualified: bool = False
    repetitions: RepetitionState | None = None
    checks: list[ContestCheck] | None = None
    entries: list[ReviewedEntry] | None = None


class ContestFinalist(ApiModel, frozen=True, kw_only=True):
    """A contestant who was admitted to the finals."""

    contestant: str
    name: str | None


class ContestResults(ApiModel, frozen=True, kw_only=True):
    """The results of a contest: none yet, provisional, or final, with the prizes as text.

    Provisional ones may be appealed until `appeals_until_at`. `outdated` says why they must be
    announced again, such as a disqualification since then; null if they need not. While a phase
    hides ranks, `finalists` has only the reader, if they are one.
    """

    contest: str
    title: str
    state: Literal["none", "provisional", "final"]
    announced_at: Timestamp | None
    appeals_until_at: Timestamp | None
    results_as_of: SequenceNumber | None
    outdated: str | None
    confirm_agents: Annotated[int, Meta(description="On how many agents winners are run again.")]
    prizes: str
    places: list[ContestResult]
    finalists: list[ContestFinalist]
    as_of: SequenceNumber
