"""What the routes of webhooks answer."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from ingest.http.shapes import Made
from shared.answers import AtText


class Webhook(TypedDict):
    """A webhook without its secret; `notice` says why it is off."""

    id: str
    url: str
    events: list[str]
    problems: list[str]
    state: Literal["on", "off"]
    notice: str | None
    off_at: AtText | None
    created_at: AtText


class WebhookMade(Webhook):
    """A webhook that was just made, with its secret, which is shown once."""

    secret: str


class Webhooks(TypedDict):
    """One's webhooks, oldest first."""

    items: list[Webhook]


class Removed(Made):
    """A webhook that is told nothing any more."""

    id: str
    state: Literal["removed"]


class Tested(TypedDict):
    """A test that a webhook is told of."""

    id: str
    event_id: str


class Delivery(TypedDict):
    """What became of one event."""

    number: int
    event_id: str
    type: str
    state: str
    tries: int
    status: Annotated[int | None, Field(description="The HTTP status of its answer.")]
    error: str | None
    took_ms: Annotated[int | None, Field(description="Milliseconds.")]
    created_at: AtText
    tried_at: AtText | None
    next_at: AtText | None


class Deliveries(TypedDict):
    """Deliveries, newest first."""

    items: list[Delivery]
    next_cursor: str | None
