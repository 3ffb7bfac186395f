"""Facts about accounts and access: quotas, moderation, tokens, roles, invites, webhooks.

They contain no name, secret or address: those are in tables, where they can be erased.
"""

from datetime import datetime
from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from shared.events.values import Blob, Fact, OperatorAct

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
# What a webhook can subscribe to; these are not the types of our internal events.
WebhookKind = Literal[
    "submission.ended",
    "submission.ranked",
    "submission.held",
    "entry.overtaken",
    "problem.opened",
    "problem.deadline_moved",
    "problem.closed",
    "problem.version_published",
    "rejudge.applied",
]
WEBHOOK_KINDS: tuple[str, ...] = get_args(WebhookKind)


class AccountEvent(Fact, frozen=True, kw_only=True):
    """An event of a participant's account."""

    aggregate: ClassVar[str] = "account"
    publisher: ClassVar[str] = "ingest"


class AccountOpened(AccountEvent, frozen=True, kw_only=True):
    """A participant has an account; `via` is the way they came."""

    via: str


class IdentityLinked(AccountEvent, frozen=True, kw_only=True):
    """An identity on another system belongs to this participant; a table holds its name there."""

    identity: str
    provider: str


class IdentityUnlinked(AccountEvent, frozen=True, kw_only=True):
    """An identity no longer belongs to this participant."""

    identity: str
    reason: str


class TokenIssued(AccountEvent, frozen=True, kw_only=True):
    """A token acts for a participant; only its hash is stored, as SHA-256 in hexadecimal.

    `problems` limits it to these problems; an empty list means all. Its public number is the
    sequence of this event.
    """

    token: str
    token_hash: str
    kind: str
    scopes: list[str]
    expires_at: datetime | None
    problems: list[str] = []
    reason: str = ""


class TokenRevoked(AccountEvent, frozen=True, kw_only=True):
    """A token is no longer valid."""

    token: str
    reason: str


class RoleGranted(OperatorAct, AccountEvent, frozen=True, kw_only=True):
    """A participant may do what a role allows."""

    role: str


class RoleRevoked(OperatorAct, AccountEvent, frozen=True, kw_only=True):
    """A participant may no longer do what a role allows."""

    role: str


class MergeOffered(AccountEvent, frozen=True, kw_only=True):
    """A participant made a code; who enters it in another account merges this one into that.

    Only the SHA-256 of the code is stored. A later offer replaces it.
    """

    code_hash: str
    expires_at: datetime


class AccountMerged(AccountEvent, frozen=True, kw_only=True):
    """This account is part of another one; the same batch has the other's MergeReceived.

    Until `undo_until_at`, a MergeUndone makes it an account of its own again. `reason` is that of
    an operator, "" if the participant merged both.
    """

    into: str
    undo_until_at: datetime
    reason: str = ""


class MergeReceived(AccountEvent, frozen=True, kw_only=True):
    """Another account is part of this one; stored in one batch with its AccountMerged.

    `consents` are the problems whose consent this account has from the other one, and
    `has_its_ban` says that it got the other's ban.
    """

    account: str
    consents: list[str] = []
    has_its_ban: bool = False


class MergeUndone(AccountEvent, frozen=True, kw_only=True):
    """This account is its own again; the same batch has the other's MergeReturned."""

    into: str
    reason: str = ""


class MergeReturned(AccountEvent, frozen=True, kw_only=True):
    """Another account is no longer part of this one."""

    account: str


class PreferenceSet(AccountEvent, frozen=True, kw_only=True):
    """A participant chose how to be notified, or a licence; `Preferences` has the choices."""

    preference: str
    value: str


class LeaderboardChanged(OperatorAct, frozen=True, kw_only=True):
    """A leaderboard's visibility, deadline, GPU types, practice or contest changed.

    None leaves `visibility`, `gpus`, `contest` and `has_practice` unchanged; by default `gpus` are
    those of the newest version, and `contest` is "", which means none. With `has_practice` it
    takes submissions for practice after its deadline; by default it does not. `has_deadline` None
    leaves the deadline unchanged; false means that there is none; true, that it is `deadline_at`.
    `tested_gpus` are further GPU types on which a later check ran the newest version.
    """

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"
    visibility: str | None
    has_deadline: bool | None = None
    deadline_at: datetime | None = None
    gpus: list[str] | None = None
    contest: str | None = None
    tested_gpus: list[str] = []
    has_practice: bool | None = None


class LeaderboardArchived(OperatorAct, frozen=True, kw_only=True):
    """A leaderboard accepts no more submissions; it can still be read."""

    aggregate: ClassVar[str] = "problem"
    publisher: ClassVar[str] = "ingest"


class InviteEvent(Fact, frozen=True, kw_only=True):
    """An event of an invite to closed leaderboards."""

    aggregate: ClassVar[str] = "invite"
    publisher: ClassVar[str] = "ingest"


class InviteIssued(InviteEvent, frozen=True, kw_only=True):
    """A code makes one participant a member of closed leaderboards, once."""

    is_operator_act: ClassVar[bool] = True
    code_hash: str
    problems: list[str]
    expires_at: datetime | None
    reason: str = ""


class InviteRedeemed(InviteEvent, frozen=True, kw_only=True):
    """A participant became a member with an invite."""

    account: str


class InviteRevoked(OperatorAct, InviteEvent, frozen=True, kw_only=True):
    """An invite is no longer valid; whoever became a member with it no longer is one."""


class ModerationEvent(Fact, frozen=True, kw_only=True):
    """A decision about a submission after its end."""

    aggregate: ClassVar[str] = "moderation"
    publisher: ClassVar[str] = "ingest"


class SubmissionWithdrawn(ModerationEvent, frozen=True, kw_only=True):
    """A submission leaves its leaderboard for ever; its history and its quota cost stay."""

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


class AccountBanned(OperatorAct, AccountEvent, frozen=True, kw_only=True):
    """A participant may not submit or be ranked, until a time or for ever."""

    until_at: datetime | None = None


class AccountUnbanned(OperatorAct, AccountEvent, frozen=True, kw_only=True):
    """A ban ended."""


class BanAppealFiled(AccountEvent, frozen=True, kw_only=True):
    """A banned participant asks for a review of the ban."""

    text: Blob


class BanAppealDecided(OperatorAct, AccountEvent, frozen=True, kw_only=True):
    """A ban was reviewed; an accepted appeal comes with AccountUnbanned."""

    is_accepted: bool


class ConsentGiven(AccountEvent, frozen=True, kw_only=True):
    """A participant accepted a problem's consent text, named by its digest.

    `number` is the version in which they read it; it holds for every version with that text.
    """

    problem: str
    number: int
    digest: str


class ConsentWithdrawn(AccountEvent, frozen=True, kw_only=True):
    """A participant withdraws their consent to a problem's text; nothing more is published."""

    problem: str
    digest: str


class QuotaEvent(Fact, frozen=True, kw_only=True):
    """An event of an account's quotas."""

    aggregate: ClassVar[str] = "quota"
    publisher: ClassVar[str] = "ingest"


class QuotaTaken(QuotaEvent, frozen=True, kw_only=True):
    """A submission used an account's quota; stored in one batch with the submission."""

    submission: str
    bucket: str
    cost: int
    window_until_at: datetime


class SubmissionsOpened(QuotaEvent, frozen=True, kw_only=True):
    """New submissions of an account count as open; stored in one batch with them.

    `ended` are earlier ones that are over and do not count any more.
    """

    submissions: list[str]
    ended: list[str] = []


class SharedUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a submission used of a quota, until its window ends."""

    submission: str
    bucket: str
    cost: int
    window_until_at: datetime


class SharedLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that an operator set for one account."""

    bucket: str
    limit: int
    window_s: float


class QuotaShared(QuotaEvent, frozen=True, kw_only=True):
    """What another account used counts for this one, too; stored with a merge or its undo.

    While they are merged, the other's own `limits` hold, too, where they are lower.
    """

    account: str
    uses: list[SharedUse] = []
    limits: list[SharedLimit] = []


class QuotaReturned(QuotaEvent, frozen=True, kw_only=True):
    """A submission's quota was refunded."""

    publisher: ClassVar[str] = "scheduler"
    submission: str
    bucket: str
    cost: int
    reason: str


# As a limit: none; and the highest one.
UNLIMITED, LIMIT_MAX = -1, 1_000_000


class QuotaLimitSet(OperatorAct, QuotaEvent, frozen=True, kw_only=True):
    """An account has a limit for a bucket, -1 for none; the account `default` is everybody.

    For a contestant of a contest `window_s` is 0: the limit holds over a whole phase.
    """

    bucket: str
    limit: int
    window_s: float


class SubmissionHeld(OperatorAct, ModerationEvent, frozen=True, kw_only=True):
    """A submission is kept off its leaderboard until it is reviewed.

    `is_by_author`: by the author of its problem, who then may also release it.
    """

    rule: str
    evidence: Blob | None = None
    is_by_author: bool = False


class SubmissionReleased(OperatorAct, ModerationEvent, frozen=True, kw_only=True):
    """A held submission may be ranked."""


class SubmissionDisqualified(OperatorAct, ModerationEvent, frozen=True, kw_only=True):
    """A submission is removed from its leaderboard."""

    rule: str
    evidence: Blob | None = None


class SubmissionRestored(OperatorAct, ModerationEvent, frozen=True, kw_only=True):
    """A disqualified submission may be ranked again."""


class AppealFiled(ModerationEvent, frozen=True, kw_only=True):
    """A participant asks for a review of a decision."""

    text: Blob


class AppealDecided(OperatorAct, ModerationEvent, frozen=True, kw_only=True):
    """A decision was reviewed; an accepted appeal restores the submission."""

    is_accepted: bool


AccessFact: TypeAlias = (
    AccountOpened
    | IdentityLinked
    | IdentityUnlinked
    | TokenIssued
    | TokenRevoked
    | RoleGranted
    | RoleRevoked
    | MergeOffered
    | AccountMerged
    | MergeReceived
    | MergeUndone
    | MergeReturned
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
QuotaFact: TypeAlias = QuotaTaken | QuotaReturned | QuotaLimitSet | QuotaShared | SubmissionsOpened
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
