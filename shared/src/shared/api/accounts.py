"""Accounts, logins, participants, tokens, notification preferences and consents."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Digest, Timestamp
from shared.api.queues import DecisionResponse
from shared.api.secrets import Secret
from shared.licences import AccountLicence

DeliveryChannel = Literal["off", "thread", "dm"]
OnOff = Literal["on", "off"]
ThreadChoice = Literal["default", "per_submission", "per_problem"]
NoticeKind = Literal["overtaken", "run_finished", "deadline_near"]


class Identity(ApiModel, frozen=True, kw_only=True):
    """An identity of a participant at another provider."""

    id: str
    provider: str
    subject: str
    linked_at: Timestamp | None


class CurrentAccount(ApiModel, frozen=True, kw_only=True):
    """The current account; where names are believed, it may not exist yet."""

    participant_id: str | None
    name: str
    roles: list[str]
    scopes: list[str]
    problems: Annotated[
        list[str], Meta(description="The problems that the token is limited to; empty means all.")
    ]
    leaderboards: Annotated[list[str], Meta(description="The closed leaderboards of the account.")]
    token: Annotated[int | None, Meta(description="The number of the current token.")]
    identities: list[Identity]
    ban: Annotated[str | None, Meta(description="The end of the ban, and its reason.")]


class Token(ApiModel, frozen=True, kw_only=True):
    """A token without its text."""

    id: int
    name: str
    prefix: Annotated[str, Meta(description="The beginning of its text, to recognize it.")]
    kind: str
    scopes: list[str]
    problems: list[str]
    created_at: Timestamp
    last_used_at: Timestamp | None
    expires_at: Timestamp | None


class Tokens(ApiModel, frozen=True, kw_only=True):
    """Tokens that are not revoked, oldest first."""

    items: list[Token]


class IssuedToken(ApiModel, frozen=True, kw_only=True):
    """A new token with its text, which is shown once."""

    id: int
    token: Secret
    prefix: str
    name: str
    scopes: list[str]
    problems: list[str]
    expires_at: Timestamp | None


class RevokedToken(DecisionResponse, frozen=True, kw_only=True):
    """A token that was revoked."""

    id: int
    state: Literal["revoked"]


class OpenedAccount(DecisionResponse, frozen=True, kw_only=True):
    """A participant who has an account."""

    participant_id: str
    name: str


class MergeCode(ApiModel, frozen=True, kw_only=True):
    """A code that merges this account into the one in which it is entered; it is shown once."""

    code: Secret
    expires_at: Timestamp


class MergePreview(ApiModel, frozen=True, kw_only=True):
    """Two accounts that would be merged: the first becomes part of `into`, whose name stays."""

    participant_id: str
    participant: str
    into_id: str
    into: str
    undo_until_at: Timestamp


class Merge(MergePreview, frozen=True, kw_only=True):
    """An account that is part of another one; `reason` is that of the operator who merged them."""

    reason: str


class Merges(ApiModel, frozen=True, kw_only=True):
    """The accounts that are part of an account."""

    items: list[Merge]


class PasswordResetLink(ApiModel, frozen=True, kw_only=True):
    """A link with which a participant sets a new password, once; it is shown once."""

    participant_id: str
    url: Secret
    expires_at: Timestamp


class ParticipantName(ApiModel, frozen=True, kw_only=True):
    """The name of a participant."""

    participant_id: str
    name: str


class ParticipantNames(ApiModel, frozen=True, kw_only=True):
    """Names of participants, and where the next page begins."""

    items: list[ParticipantName]
    next_after: str | None


class BanAppeal(ApiModel, frozen=True, kw_only=True):
    """An appeal against a ban, and its answer."""

    text: str
    filed_at: Timestamp
    is_accepted: Annotated[bool | None, Meta(description="Null until it is answered.")]
    reason: str | None


class Participant(ApiModel, frozen=True, kw_only=True):
    """A participant as operators see them."""

    participant_id: str
    name: str
    roles: list[str]
    leaderboards: list[str]
    ban: str | None
    ban_appeal: BanAppeal | None
    identities: list[Identity]
    tokens: list[Token]


class Preferences(ApiModel, frozen=True, kw_only=True):
    """How a participant is notified on Discord, and the licence of their sources in releases."""

    overtaken: DeliveryChannel
    run_finished: DeliveryChannel
    deadline_near: DeliveryChannel
    ranked_line: OnOff
    threads: ThreadChoice
    licence: AccountLicence


class DiscordParticipant(ApiModel, frozen=True, kw_only=True):
    """A participant with their Discord id, null without one."""

    participant_id: str
    discord: str | None
    preferences: Preferences


class DiscordParticipants(ApiModel, frozen=True, kw_only=True):
    """Participants who want a notification."""

    items: list[DiscordParticipant]


class SubmissionOwner(DiscordParticipant, frozen=True, kw_only=True):
    """The owner of a submission, and what it was submitted for."""

    number: int
    problem: str
    gpu: str
    mode: str
    baseline: str


class Consent(ApiModel, frozen=True, kw_only=True):
    """The text to accept, and whether it is accepted."""

    problem: str
    problem_version: int
    is_asked: Annotated[bool, Meta(description="Whether a consent is required.")]
    is_given: Annotated[bool, Meta(description="Whether the current text is accepted.")]
    file: Annotated[str, Meta(description="The file of the problem; empty if none.")]
    digest: Digest | None
    text: str


class IdentityLinkPage(ApiModel, frozen=True, kw_only=True):
    """The page that links the identity, for a browser that is logged in."""

    provider: str
    url: str


class CliId(ApiModel, frozen=True, kw_only=True):
    """A CLI id, of no use until somebody links it at `link_url`."""

    state: Secret
    expires_in: int
    link_url: str


class CliIdPreview(ApiModel, frozen=True, kw_only=True):
    """Who asked for a CLI id."""

    requested_at: Timestamp
    network: str
    provider: str
    expires_at: Timestamp


class ParticipantAccess(ApiModel, frozen=True, kw_only=True):
    """For whom something may act, with which scopes and until when."""

    participant_id: str
    participant: str
    scopes: list[str]
    expires_at: Timestamp | None


class LinkedCliId(ParticipantAccess, frozen=True, kw_only=True):
    """A CLI id that acts for a participant."""

    status: Literal["ok"] = "ok"
    token_id: int


class DeviceCode(ApiModel, frozen=True, kw_only=True):
    """The codes of a device and where to enter them; Source: RFC 8628, 3.2."""

    device_code: Secret
    user_code: Secret
    verification_uri: str
    verification_uri_complete: Secret
    expires_in: int
    interval: int


class DeviceToken(ApiModel, frozen=True, kw_only=True):
    """The token of a device; Source: RFC 6749, 5.1."""

    access_token: Secret
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: int
    scope: str
    participant_id: str
    participant: str


class DevicePreview(ApiModel, frozen=True, kw_only=True):
    """The device with this code, and what it asks for."""

    requested_at: Timestamp
    network: str
    client: str
    scopes: list[str]
    expires_at: Timestamp


class AnsweredDevice(ParticipantAccess, frozen=True, kw_only=True):
    """A device that was approved or denied."""

    status: Literal["ok", "denied"]
