"""The base class of the API's types, how they are decoded, and fields that many of them have."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from shared.errors import Failed

JsonObject = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)


class ApiModel(msgspec.Struct, frozen=True, kw_only=True):
    """A type of the HTTP API. A client ignores fields that it does not know."""


def parse_response(response: JsonObject, expected_type: type[T]) -> T:
    """Convert a response to its expected type. Errors: Failed if it has another shape."""
    try:
        return msgspec.convert(response, expected_type)
    except msgspec.ValidationError as error:
        reason = f"the platform's response is not a {expected_type.__name__}"
        raise Failed(f"{reason}: {error}") from error


Microseconds = Annotated[float, Meta(description="Microseconds.")]
Seconds = Annotated[float, Meta(description="Seconds.")]
Timestamp = Annotated[datetime, Meta(description="An instant, in UTC.", tz=True)]
SequenceNumber = Annotated[int, Meta(description="The sequence of an event in the log.", ge=0)]
SubmissionNumber = Annotated[int, Meta(description="The number of a submission.", ge=1)]
BestRank = Annotated[
    int | None, Meta(description="The best rank that a noisy time may have; `rank` is the worst.")
]
OwnRunMicroseconds = Annotated[
    float | None, Meta(description="What the submission's own run measured, microseconds.")
]
PooledSubmissions = Annotated[
    list[SubmissionNumber],
    Meta(
        description="The participant's submissions of this source whose runs make the score; empty"
        " where it is the submission's own run alone."
    ),
]
# The pattern is documented, not checked: a read must not fail because of what an old event names.
Digest = Annotated[
    str, Meta(description="SHA-256, hex.", extra_json_schema={"pattern": "^[0-9a-f]{64}$"})
]
QueueClass = Literal["canary", "contest", "check", "practice", "evaluation", "rejudge"]
Visibility = Literal["public", "closed"]
SourceVisible = Literal["owner", "after_close", "always"]
PublishWhen = Literal["never", "after_close", "always"]
