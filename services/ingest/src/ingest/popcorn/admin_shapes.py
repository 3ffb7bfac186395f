"""What the client's admin commands are answered."""

from typing_extensions import TypedDict

from ingest.popcorn.shapes import Category, LeaderboardId, Ok, Polled, UserId
from shared.answers import AtText, Number, Visibility


class Switched(TypedDict):
    """Whether submissions are taken in now."""

    status: Ok
    accepts_jobs: bool


class StatsTold(TypedDict):
    """How much there was to do; times in seconds, names behind a dot are GPU types and accounts."""

    status: Ok
    stats: dict[str, float]


class Anybodys(TypedDict):
    """Anybody's submission."""

    status: Ok
    submission: Polled


class NumbersListed(TypedDict):
    """The numbers of a leaderboard's submissions, newest first."""

    status: Ok
    leaderboard: str
    limit: int
    offset: int
    submission_ids: list[Number]


class DeletedMany(TypedDict):
    """How many of a participant's submissions are off a leaderboard."""

    status: Ok
    leaderboard_id: LeaderboardId
    user_name: str
    deleted_submissions: int


class Banned(TypedDict):
    """Whether a participant is kept out now."""

    status: Ok
    user_id: UserId
    banned: bool


class Limited(TypedDict):
    """A limit of a leaderboard."""

    status: Ok
    leaderboard: str
    mode_category: Category
    max_submissions_per_hour: int


class Unlimited(TypedDict):
    """A limit that is lifted."""

    status: Ok
    leaderboard: str
    mode_category: str


class RateLimitTold(TypedDict):
    """How often in an hour a participant may submit."""

    mode_category: Category
    max_submissions_per_hour: int


class RateLimitsTold(TypedDict):
    """The limits of a leaderboard."""

    status: Ok
    leaderboard: str
    rate_limits: list[RateLimitTold]


class BoardMade(TypedDict):
    """A leaderboard that is there now."""

    status: Ok
    leaderboard: str


class Skipped(TypedDict):
    """A problem that was left as it is."""

    name: str
    reason: str


class Broken(TypedDict):
    """A problem, or a file, that could not be published."""

    name: str
    error: str


class Updated(TypedDict):
    """What came of every problem of a repository."""

    status: Ok
    created: list[str]
    updated: list[str]
    skipped: list[Skipped]
    errors: list[Broken]


class BoardArchived(TypedDict):
    """A leaderboard that takes nothing in any more."""

    status: Ok
    leaderboard: str
    force: bool


class Seen(TypedDict):
    """Who sees a leaderboard now."""

    status: Ok
    leaderboard: str
    visibility: Visibility


class CodesMade(TypedDict):
    """Invites that were just made."""

    status: Ok
    leaderboards: list[str]
    codes: list[str]


class InviteListed(TypedDict):
    """An invite, and who claimed it."""

    code: str
    user_id: str | None
    user_name: str | None
    claimed_at: AtText | None
    created_at: AtText


class InvitesListed(TypedDict):
    """The invites to a leaderboard."""

    status: Ok
    leaderboard: str
    invites: list[InviteListed]


class CodeRevoked(TypedDict):
    """An invite that makes nobody a member any more."""

    status: Ok
    code: str
    was_claimed: bool
