"""Responses of the client's admin commands."""

from typing_extensions import TypedDict

from ingest.popcorn.response_models import Category, LeaderboardId, Ok, PolledSubmission, UserId
from shared.response_types import SubmissionNumber, TimestampText, Visibility


class IntakeSwitch(TypedDict):
    """Whether submissions are accepted now."""

    status: Ok
    accepts_jobs: bool


class AdminStats(TypedDict):
    """Statistics; times in seconds, names behind a dot are GPU types and accounts."""

    status: Ok
    stats: dict[str, float]


class AdminSubmission(TypedDict):
    """Any submission."""

    status: Ok
    submission: PolledSubmission


class SubmissionNumbers(TypedDict):
    """The numbers of a leaderboard's submissions, newest first."""

    status: Ok
    leaderboard: str
    limit: int
    offset: int
    submission_ids: list[SubmissionNumber]


class DeletedSubmissions(TypedDict):
    """How many submissions of a participant were taken off a leaderboard."""

    status: Ok
    leaderboard_id: LeaderboardId
    user_name: str
    deleted_submissions: int


class BanStatus(TypedDict):
    """Whether a participant is banned now."""

    status: Ok
    user_id: UserId
    banned: bool


class RateLimitSet(TypedDict):
    """A rate limit that was set."""

    status: Ok
    leaderboard: str
    mode_category: Category
    max_submissions_per_hour: int


class RateLimitRemoved(TypedDict):
    """A rate limit that was lifted."""

    status: Ok
    leaderboard: str
    mode_category: str


class RateLimitItem(TypedDict):
    """How many submissions per hour each participant may send."""

    mode_category: Category
    max_submissions_per_hour: int


class RateLimitList(TypedDict):
    """The rate limits of a leaderboard."""

    status: Ok
    leaderboard: str
    rate_limits: list[RateLimitItem]


class CreatedLeaderboard(TypedDict):
    """A new leaderboard."""

    status: Ok
    leaderboard: str


class SkippedProblem(TypedDict):
    """A problem that was left unchanged."""

    name: str
    reason: str


class ProblemError(TypedDict):
    """A problem or a file that could not be published."""

    name: str
    error: str


class RepositoryUpdateResult(TypedDict):
    """The result for every problem of a repository."""

    status: Ok
    created: list[str]
    updated: list[str]
    skipped: list[SkippedProblem]
    errors: list[ProblemError]


class ArchivedLeaderboard(TypedDict):
    """An archived leaderboard."""

    status: Ok
    leaderboard: str
    force: bool


class LeaderboardVisibility(TypedDict):
    """Who sees a leaderboard now."""

    status: Ok
    leaderboard: str
    visibility: Visibility


class CreatedInvites(TypedDict):
    """New invites."""

    status: Ok
    leaderboards: list[str]
    codes: list[str]


class InviteItem(TypedDict):
    """An invite, and who claimed it."""

    code: str
    user_id: str | None
    user_name: str | None
    claimed_at: TimestampText | None
    created_at: TimestampText


class InviteList(TypedDict):
    """The invites to a leaderboard."""

    status: Ok
    leaderboard: str
    invites: list[InviteItem]


class RevokedInviteCode(TypedDict):
    """A revoked invite."""

    status: Ok
    code: str
    was_claimed: bool
