"""Webhooks and their deliveries."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, Timestamp
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
