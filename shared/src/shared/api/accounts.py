"""Accounts, participants, tokens, notification preferences, webhooks and consents."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Digest, Timestamp
from shared.api.queues import DecisionResponse
from shared.api.secrets import Secret


class Webhook(ApiModel, frozen=True, kw_only=True):
    """A webhook without its secret; `notice` says why it is off."""

    id: str
    url: str
    events: list[str]
    problems: list[str]
    state: Literal["on", "off"]
    notice: str | None
    off_at: Timestamp | None
    created_at: Timestamp


class CreatedWebhook(Webhook, frozen=True, kw_only=True):
    """A new webhook with its secret, which is shown once."""

    secret: Secret


class Webhooks(ApiModel, frozen=True, kw_only=True):
    """The webhooks of a participant, oldest first."""

    items: list[Webhook]


class RemovedWebhook(DecisionResponse, frozen=True, kw_only=True):
    """A webhook that was removed."""

    id: str
    state: Literal["removed"]


class WebhookTest(ApiModel, frozen=True, kw_only=True):
    """A test event that was sent."""

    id: str
    event_id: str


class Delivery(ApiModel, frozen=True, kw_only=True):
    """The delivery of one event."""

    number: int
    event_id: str
    type: str
    state: str
    tries: int
    status: Annotated[int | None, Meta(description="The HTTP status of the response.")]
    error: str | None
    took_ms: Annotated[int | None, Meta(description="Milliseconds.")]
    created_at: Timestamp
    tried_at: Timestamp | None
    next_at: Timestamp | None


class Deliveries(ApiModel, frozen=True, kw_only=True):
    """Deliveries, newest first."""

    items: list[Delivery]
    next_cursor: str | None


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
    """How a participant is notified on Discord."""

    overtaken: DeliveryChannel
    run_finished: DeliveryChannel
    deadline_near: DeliveryChannel
    ranked_line: OnOff
    threads: ThreadChoice


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
