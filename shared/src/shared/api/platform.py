"""The state of the platform, and the response to a decision."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.fields import ApiModel, SequenceNumber, Timestamp

Event = Annotated[
    str | None, Meta(description="The event that was written; null if nothing had to change.")
]


class HealthStatus(ApiModel, frozen=True, kw_only=True):
    """The service is healthy."""

    status: Literal["ok"]


class DecisionResponse(ApiModel, frozen=True, kw_only=True):
    """A decision that is in the log."""

    event: Event
    seq: SequenceNumber | None


class DeadLetter(ApiModel, frozen=True, kw_only=True):
    """An event that a consumer gave up."""

    consumer: str
    stream: str
    seq: SequenceNumber
    reason: str
    at: Timestamp
    deliveries: Annotated[int, Meta(description="How often it was delivered.")]
    place: Annotated[
        SequenceNumber, Meta(description="What was delivered: the event, or its redrive.")
    ]


class DeadLetters(ApiModel, frozen=True, kw_only=True):
    """Dead letters, oldest first."""

    items: list[DeadLetter]
