"""Facts of who may do what: accounts, tokens, roles, boards, invites, withdrawals, webhooks.

No name, no secret and no address is in them: those lie in tables, where they can be erased.
"""

from datetime import datetime
from typing import ClassVar

from shared.events.fact import Fact

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
# What an address may be told of; not the types of our events, which are our own matter.
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

HOWS = ("off", "thread", "dm")
# What participants may choose of how they are told on Discord; the first is so until they do.
PREFERENCES = {
    "overtaken": HOWS,
    "run_finished": HOWS,
    "deadline_near": HOWS,
    "ranked_line": ("on", "off"),
    "threads": ("default", "per_submission", "per_problem"),
}


class AccountOpened(Fact, frozen=True, kw_only=True):
    """A participant has an account; `via` says by which way they came."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    via: str


class IdentityLinked(Fact, frozen=True, kw_only=True):
    """Somebody known elsewhere is this participant; who they are there lies in a table."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    identity: str
    provider: str


class IdentityUnlinked(Fact, frozen=True, kw_only=True):
    """An identity is this participant's no longer."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    identity: str
    reason: str


class TokenIssued(Fact, frozen=True, kw_only=True):
    """A secret acts for a participant; its hash alone is kept, as SHA-256 in hexadecimal.

    `problems` limits it to those; an empty list is all of them. Its public number is the sequence
    of this event.
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
    """A token acts for nobody any more."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    token: str
    reason: str


class RoleGranted(Fact, frozen=True, kw_only=True):
    """A participant may do what a role allows."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    role: str
    reason: str


class RoleRevoked(Fact, frozen=True, kw_only=True):
    """A participant may no longer do what a role allows."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    role: str
    reason: str


class PreferenceSet(Fact, frozen=True, kw_only=True):
    """A participant chose how they are told of something on Discord; PREFERENCES has what of."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"

    preference: str
    value: str


class LeaderboardChanged(Fact, frozen=True, kw_only=True):
    """Who sees a leaderboard, until when and on which GPU types it takes submissions in, changed.

    None leaves `visibility` and `gpus` as they are; `gpus` are those of the newest version until
    they are said. `has_deadline` None leaves the deadline as it is; false means that there is none;
    true, that it is `deadline_at`.
    """

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"

    visibility: str | None
    reason: str
    has_deadline: bool | None = None
    deadline_at: datetime | None = None
    gpus: list[str] | None = None


class LeaderboardArchived(Fact, frozen=True, kw_only=True):
    """A leaderboard takes nothing in any more; it stays to be read."""

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"

    reason: str


class InviteIssued(Fact, frozen=True, kw_only=True):
    """Whoever has a code becomes a member of closed leaderboards; once, by one participant."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"

    code_hash: str
    problems: list[str]
    expires_at: datetime | None
    reason: str = ""


class InviteRedeemed(Fact, frozen=True, kw_only=True):
    """A participant is a member by an invite."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"

    account: str


class InviteRevoked(Fact, frozen=True, kw_only=True):
    """An invite makes nobody a member; who was one by it is one no longer."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"

    reason: str


class SubmissionWithdrawn(Fact, frozen=True, kw_only=True):
    """A submission leaves its leaderboard for ever; its history and its cost stay."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"

    reason: str


class WebhookAdded(Fact, frozen=True, kw_only=True):
    """An address of a participant's is told of events; where it is lies in a table."""

    aggregate: ClassVar[str] = "webhook"
    publisher: ClassVar[str] = "ingest"

    account: str
    problems: list[str]
    kinds: list[str]


class WebhookRemoved(Fact, frozen=True, kw_only=True):
    """An address is told nothing any more."""

    aggregate: ClassVar[str] = "webhook"
    publisher: ClassVar[str] = "ingest"

    reason: str
