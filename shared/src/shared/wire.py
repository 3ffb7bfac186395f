"""Events as bytes: the envelope, and the hash chain over the log."""

from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec

from shared.events import CATALOGUE, AnyFact, Fact

EVENT_BYTES_MAX = 256 * 1024
HEADERS_BYTES_MAX = 1024
# The type of a message that is not an event; no reader exists for it.
UNREADABLE = "Unreadable"
YEAR_MIN, YEAR_MAX = 1970, 9000


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The metadata of every event; `data` stays encoded until it is needed."""

    id: str
    type: str
    v: int
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    aggregate: str = msgspec.field(name="agg")
    actor: str
    corr: str
    cause: str
    data: msgspec.Raw
    trace: str | None = None
    sig: str | None = None


class EventMetadata(NamedTuple):
    """Who recorded a fact, when, under which id and because of what."""

    id: str
    at: datetime
    actor: str
    corr: str
    cause: str


class UnknownEvent(Exception):  # noqa: N818
    """An event of an unknown type or version: readers must be deployed before writers."""

    def __init__(self, type_: str, v: int) -> None:
        super().__init__(f"no reader for event {type_} version {v}: update this service first")
        self.type = type_
        self.v = v


# The decoder's errors for invalid JSON, including deep nesting and bad encoding.
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Envelope).decode
_decoders: dict[str, msgspec.json.Decoder[AnyFact]] = {
    name: msgspec.json.Decoder(fact) for name, fact in CATALOGUE.items()
}
_aggregate_prefixes = {name: f"{fact.aggregate}." for name, fact in CATALOGUE.items()}
# The publisher of agents' events, and the prefix of an agent as actor.
_AGENT = "gpu-agent"
_AGENT_ACTOR = "agent:"


def make_envelope(fact: Fact, aggregate: str, stamp: EventMetadata) -> Envelope:
    """Wrap a fact about the aggregate `aggregate`, such as `submission.<id>`, in an envelope."""
    kind = type(fact)
    return Envelope(
        id=stamp.id,
        type=kind.__name__,
        v=kind.version,
        at=stamp.at,
        aggregate=aggregate,
        actor=stamp.actor,
        corr=stamp.corr,
        cause=stamp.cause,
        data=msgspec.Raw(encode(fact)),
    )


def encode_envelope(envelope: Envelope) -> bytes:
    """Encode an event; with the message's headers it stays under 256 KiB. Errors: ValueError."""
    body, limit = encode(envelope), EVENT_BYTES_MAX - HEADERS_BYTES_MAX
    if len(body) > limit:
        raise ValueError(
            f"{envelope.type} has {len(body)} bytes, over {limit}: store the data in a blob"
        )
    return body


def read_envelope(aggregate: str, seq: int, body: bytes) -> Envelope:
    """Decode what was stored on an aggregate, which overrides the aggregate the event names.

    Bytes that are not an event (agents may write any bytes on their own subjects) become an
    Unreadable event, which stops only readers that need its contents.
    """
    try:
        envelope = decode(body)
    except _DECODE_ERRORS:
        return _unreadable(aggregate, seq)
    # Postgres cannot store a NUL in a text, and dates have a limited range.
    if "\0" in envelope.id or not YEAR_MIN <= envelope.at.year <= YEAR_MAX:
        return _unreadable(aggregate, seq)
    return (
        envelope
        if envelope.aggregate == aggregate
        else msgspec.structs.replace(envelope, aggregate=aggregate)
    )


def is_noise(envelope: Envelope) -> bool:
    """Return whether an agent wrote a non-event on its own subject, which means nothing."""
    return envelope.type == UNREADABLE and is_written_by_agent(envelope)


def is_written_by_agent(envelope: Envelope) -> bool:
    """Return whether it is on a subject that an agent writes; errors there must stop nobody.

    An unknown type or version is not covered: that means this code is too old to judge.
    """
    return envelope.aggregate.startswith(_aggregate_prefixes["RunCompleted"])


def _unreadable(aggregate: str, seq: int) -> Envelope:
    return Envelope(
        id=f"unreadable-{seq}",
        type=UNREADABLE,
        v=0,
        at=datetime.fromtimestamp(0, UTC),
        aggregate=aggregate,
        actor="",
        corr="",
        cause="",
        data=msgspec.Raw(b"null"),
    )


def forgery_reason(envelope: Envelope) -> str:
    """Explain why an event cannot be from an allowed writer of its type; "" if it can.

    The bus lets an agent write anything on the subjects of its own reports, and only there: so a
    type counts only on its own aggregate, and an agent's type only in the name of that agent. A
    type that this code does not know is not judged. A forged event means nothing.
    """
    kind = CATALOGUE.get(envelope.type)
    if kind is None:
        return ""
    if not envelope.aggregate.startswith(_aggregate_prefixes[envelope.type]):
        return f"{envelope.type} does not belong on {envelope.aggregate}"
    if kind.publisher == _AGENT:
        expected = _AGENT_ACTOR + envelope.aggregate.split(".")[1]
        if envelope.actor != expected:
            return (
                f"{envelope.type} on {envelope.aggregate} is by {envelope.actor}, not by {expected}"
            )
    elif envelope.actor.startswith(_AGENT_ACTOR):
        return f"{envelope.type} is by {envelope.actor}: no agent writes that type"
    return ""


def is_genuine(envelope: Envelope) -> bool:
    """Return whether an event can be from an allowed writer; readers drop those that cannot."""
    return not forgery_reason(envelope)


def decode_fact(envelope: Envelope) -> AnyFact:
    """Decode an event's fact. Errors: UnknownEvent, msgspec.DecodeError."""
    if envelope.type == UNREADABLE:
        raise msgspec.DecodeError("it is not an event")
    kind = CATALOGUE.get(envelope.type)
    if kind is None or envelope.v != kind.version:
        raise UnknownEvent(envelope.type, envelope.v)
    try:
        return _decoders[envelope.type].decode(envelope.data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error
