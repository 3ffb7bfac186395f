"""The base class of the API's types, how they are decoded, and fields that many of them have."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from shared.errors import Failed

JsonObject = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)
# These texts appear on screens, and some stay in the log for ever: no control characters, no line
# breaks and no marks that change the direction of reading.
PRINTABLE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
# Without the condition, `$` would allow a line break at the end.
PRINTABLE_LINE = rf"^{PRINTABLE}+$(?!\n)"
_PLACE = re.compile(r" - at `\$\.?(.*)`\Z", re.DOTALL)
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.+)`")


class ApiModel(msgspec.Struct, frozen=True, kw_only=True):
    """A type of the HTTP API. A client ignores fields that it does not know."""


def parse_response(response: JsonObject, expected_type: type[T]) -> T:
    """Convert a response to its expected type. Errors: Failed if it has another shape."""
    try:
        return msgspec.convert(response, expected_type)
    except msgspec.ValidationError as error:
        reason = f"the platform's response is not a {expected_type.__name__}"
        raise Failed(f"{reason}: {error}") from error


def explain_invalid(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the field and the problem that an error of the decoder names.

    >>> explain_invalid(msgspec.ValidationError("Expected `str`, got `int` - at `$.items[0].id`"))
    ('items.0.id', 'expected `str`, got `int`')
    >>> explain_invalid(msgspec.ValidationError("Object missing required field `source`"))
    ('source', 'it is missing')
    """
    message = str(error)
    place = _PLACE.search(message)
    field = re.sub(r"\[(\w+|\.\.\.)\]", r".\1", place[1]).strip(".") if place else ""
    text = message[: place.start()] if place else message
    if named := _FIELD.match(text):
        problem = "it is missing" if named[1].startswith("missing") else "unknown field"
        return ".".join(filter(None, (field, named[2]))), problem
    if r"\x00" in text:
        return field, "control characters and line breaks are not allowed"
    return field, text[:1].lower() + text[1:]


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
