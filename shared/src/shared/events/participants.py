"""Facts about accounts and access: quotas, moderation, tokens, roles, invites, webhooks.

They contain no name, secret or address: those are in tables, where they can be erased.
"""

from datetime import datetime
from typing import ClassVar, TypeAlias

from shared.events.values import Blob, Fact

SCOPES = (
    "submit",
    "submit:ranked",
    "profile",
    "read:own",
    "delete:own",
    "join",
    "account",
    "webhooks",
    "author",
    "admin:submissions",
    "admin:participants",
    "admin:problems",
    "admin:operate",
    "admin",
)
ROLES = ("participant", "creator", "moderator", "admin")
VISIBILITIES = ("public", "closed")
TOKEN_KINDS = ("api", "cli", "device", "web")
# What a webhook can subscribe to; these are not the types of our internal events.
WEBHOOK_KINDS = (
    "submission.ended",
    "submission.ranked",
    "submission.held",
    "entry.overtaken",
    "problem.opened",
    "problem.deadline_moved",
    "problem.closed",
    "problem.version_published",
    "rejudge.applied",
)

CHANNELS = ("off", "thread", "dm")
# How participants can be notified on Discord; the first choice is the default.
PREFERENCES = {
    "overtaken": CHANNELS,
    "run_finished": CHANNELS,
    "deadline_near": CHANNELS,
    "ranked_line": ("on", "off"),
    "threads": ("default", "per_submission", "per_problem"),
}


class AccountOpened(Fact, frozen=True, kw_only=True):
    """A participant has an account; `via` is the way they came."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    via: str


class IdentityLinked(Fact, frozen=True, kw_only=True):
    """An identity on another system belongs to this participant; a table holds its name there."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    identity: str
    provider: str


class IdentityUnlinked(Fact, frozen=True, kw_only=True):
    """An identity no longer belongs to this participant."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    identity: str
    reason: str


class TokenIssued(Fact, frozen=True, kw_only=True):
    """A token acts for a participant; only its hash is stored, as SHA-256 in hexadecimal.

    `problems` limits it to these problems; an empty list means all. Its public number is the
    sequence of this event.
    """

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    token: str
    token_hash: str
    kind: str
    scopes: list[str]
    expires_at: datetime | None
    problems: list[str] = []
    reason: str = ""


class TokenRevoked(Fact, frozen=True, kw_only=True):
    """A token is no longer valid."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    token: str
    reason: str


class RoleGranted(Fact, frozen=True, kw_only=True):
    """A participant may do what a role allows."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    role: str
    reason: str


class RoleRevoked(Fact, frozen=True, kw_only=True):
    """A participant may no longer do what a role allows."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    role: str
    reason: str


class PreferenceSet(Fact, frozen=True, kw_only=True):
    """A participant chose how to be notified on Discord; PREFERENCES lists the choices."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    preference: str
    value: str


class LeaderboardChanged(Fact, frozen=True, kw_only=True):
    """A leaderboard's visibility, deadline or GPU types changed.

    None leaves `visibility` and `gpus` unchanged; by default `gpus` are those of the newest
    version. `has_deadline` None leaves the deadline unchanged; false means that there is none;
    true, that it is `deadline_at`.
    """

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    visibility: str | None
    reason: str
    has_deadline: bool | None = None
    deadline_at: datetime | None = None
    gpus: list[str] | None = None


class LeaderboardArchived(Fact, frozen=True, kw_only=True):
    """A leaderboard accepts no more submissions; it can still be read."""

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    reason: str


class InviteIssued(Fact, frozen=True, kw_only=True):
    """A code makes one participant a member of closed leaderboards, once."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    code_hash: str
    problems: list[str]
    expires_at: datetime | None
    reason: str = ""


class InviteRedeemed(Fact, frozen=True, kw_only=True):
    """A participant became a member with an invite."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"

    account: str


class InviteRevoked(Fact, frozen=True, kw_only=True):
    """An invite is no longer valid; whoever became a member with it no longer is one."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    reason: str


class SubmissionWithdrawn(Fact, frozen=True, kw_only=True):
    """A submission leaves its leaderboard for ever; its history and its quota cost stay."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    reason: str


class WebhookAdded(Fact, frozen=True, kw_only=True):
    """A participant's address is notified of events; the address itself is in a table."""

    aggregate: ClassVar[str] = "webhook"
    publisher: ClassVar[str] = "ingest"

    account: str
    problems: list[str]
    kinds: list[str]


class WebhookRemoved(Fact, frozen=True, kw_only=True):
    """An address is no longer notified."""

    aggregate: ClassVar[str] = "webhook"
    publisher: ClassVar[str] = "ingest"

    reason: str


class AccountBanned(Fact, frozen=True, kw_only=True):
    """A participant may not submit or be ranked, until a time or for ever."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    reason: str
    until_at: datetime | None = None


class AccountUnbanned(Fact, frozen=True, kw_only=True):
    """A ban ended."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    reason: str


class BanAppealFiled(Fact, frozen=True, kw_only=True):
    """A banned participant asks for a review of the ban."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    text: Blob


class BanAppealDecided(Fact, frozen=True, kw_only=True):
    """A ban was reviewed; an accepted appeal comes with AccountUnbanned."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    is_accepted: bool
    reason: str


class ConsentGiven(Fact, frozen=True, kw_only=True):
    """A participant accepted a problem's consent text, named by its digest.

    `number` is the version in which they read it; it holds for every version with that text.
    """

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    problem: str
    number: int
    digest: str


class ConsentWithdrawn(Fact, frozen=True, kw_only=True):
    """A participant withdraws their consent to a problem's text; nothing more is published."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    problem: str
    digest: str


class QuotaTaken(Fact, frozen=True, kw_only=True):
    """A submission used an account's quota; stored in one batch with the submission."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "ingest"

    submission: str
    bucket: str
    cost: int
    window_until_at: datetime


class QuotaReturned(Fact, frozen=True, kw_only=True):
    """A submission's quota was refunded."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "scheduler"

    submission: str
    bucket: str
    cost: int
    reason: str


class QuotaLimitSet(Fact, frozen=True, kw_only=True):
    """An account, or everybody with the account `default`, has a limit for a bucket."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    bucket: str
    limit: int
    window_s: float
    reason: str


class SubmissionHeld(Fact, frozen=True, kw_only=True):
    """A submission is kept off its leaderboard until it is reviewed."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    rule: str
    reason: str
    evidence: Blob | None = None


class SubmissionReleased(Fact, frozen=True, kw_only=True):
    """A held submission may be ranked."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    reason: str


class SubmissionDisqualified(Fact, frozen=True, kw_only=True):
    """A submission is removed from its leaderboard."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    rule: str
    reason: str
    evidence: Blob | None = None


class SubmissionRestored(Fact, frozen=True, kw_only=True):
    """A disqualified submission may be ranked again."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    reason: str


class AppealFiled(Fact, frozen=True, kw_only=True):
    """A participant asks for a review of a decision."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    text: Blob


class AppealDecided(Fact, frozen=True, kw_only=True):
    """A decision was reviewed; an accepted appeal restores the submission."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"
    is_operator_act: ClassVar[bool] = True

    is_accepted: bool
    reason: str


AccessFact: TypeAlias = (
    AccountOpened
    | IdentityLinked
    | IdentityUnlinked
    | TokenIssued
    | TokenRevoked
    | RoleGranted
    | RoleRevoked
    | PreferenceSet
    | LeaderboardChanged
    | LeaderboardArchived
    | InviteIssued
    | InviteRedeemed
    | InviteRevoked
    | SubmissionWithdrawn
    | WebhookAdded
    | WebhookRemoved
)
QuotaFact: TypeAlias = QuotaTaken | QuotaReturned | QuotaLimitSet
ModerationFact: TypeAlias = (
    AccountBanned
    | AccountUnbanned
    | BanAppealFiled
    | BanAppealDecided
    | ConsentGiven
    | ConsentWithdrawn
    | SubmissionHeld
    | SubmissionReleased
    | SubmissionDisqualified
    | SubmissionRestored
    | AppealFiled
    | AppealDecided
)
