"""Events as bytes: the envelope, and how old versions become the newest."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from shared.events import CATALOGUE, Fact

EVENT_BYTES_MAX = 256 * 1024
HEADERS_BYTES_MAX = 1024
# The type of what is no event; nobody has a reader for it.
UNREADABLE = "Unreadable"
YEAR_MIN, YEAR_MAX = 1970, 9000


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What every event says of itself; `data` stays raw until someone asks."""

    id: str
    type: str
    v: int
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    agg: str
    actor: str
    corr: str
    cause: str
    data: msgspec.Raw
    trace: str | None = None
    sig: str | None = None


class Stamp(NamedTuple):
    """Who says a fact, when, under which id and because of what."""

    id: str
    at: datetime
    actor: str
    corr: str
    cause: str


class UnknownEvent(Exception):  # noqa: N818
    """An event whose type or version this code does not know: readers go out before writers."""

    def __init__(self, type_: str, v: int) -> None:
        super().__init__(f"no reader for event {type_} version {v}: update this service first")
        self.type = type_
        self.v = v


# What a decoder says to bytes that are no JSON of ours, the nested and the ill encoded too.
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: dict[tuple[str, int], Upcaster] = {
    ("SubmissionReceived", 1): lambda data: data | {"is_queued": False},
}

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Envelope).decode
_decoders = {name: msgspec.json.Decoder(fact) for name, fact in CATALOGUE.items()}
_homes = {
    name: tuple(f"{agg}." for agg in (fact.aggregate, fact.former_aggregate) if agg)
    for name, fact in CATALOGUE.items()
}
# Who signs what agents write, and how an agent's name follows.
_AGENT = "gpu-agent"
_AGENT_ACTOR = "agent:"


def seal(fact: Fact, agg: str, stamp: Stamp) -> Envelope:
    """The envelope of a fact about the aggregate `agg`, such as `submission.<id>`."""
    kind = type(fact)
    return Envelope(
        id=stamp.id,
        type=kind.__name__,
        v=kind.version,
        at=stamp.at,
        agg=agg,
        actor=stamp.actor,
        corr=stamp.corr,
        cause=stamp.cause,
        data=msgspec.Raw(encode(fact)),
    )


def pack(envelope: Envelope) -> bytes:
    """An event's bytes; with the message's headers they stay under 256 KiB. Errors: ValueError."""
    body, limit = encode(envelope), EVENT_BYTES_MAX - HEADERS_BYTES_MAX
    if len(body) > limit:
        raise ValueError(f"{envelope.type} has {len(body)} bytes, over {limit}: name a blob in it")
    return body


def read(agg: str, seq: int, body: bytes) -> Envelope:
    """The envelope of what lies on an aggregate: that counts, whatever the event says of itself.

    What is no event, for anybody may write bytes on his own subject, is Unreadable, and stops
    only whoever needs to know what it says.
    """
    try:
        envelope = decode(body)
    except _BROKEN:
        return _unreadable(agg, seq)
    # Postgres has no text with a NUL, and dates have an end behind which nobody can count.
    if "\0" in envelope.id or not YEAR_MIN <= envelope.at.year <= YEAR_MAX:
        return _unreadable(agg, seq)
    return envelope if envelope.agg == agg else msgspec.structs.replace(envelope, agg=agg)


def is_noise(envelope: Envelope) -> bool:
    """Whether an agent wrote what is no event on a subject of its own: nothing rests on that."""
    return envelope.type == UNREADABLE and is_of_agent(envelope)


def is_of_agent(envelope: Envelope) -> bool:
    """Whether it lies on a subject that an agent writes: nobody stops for what is wrong there.

    In older logs agents wrote beside their orders. A type or version that we do not know is another
    matter: there we are too old to judge.
    """
    return envelope.agg.startswith(_homes["RunCompleted"])


def _unreadable(agg: str, seq: int) -> Envelope:
    return Envelope(
        id=f"unreadable-{seq}",
        type=UNREADABLE,
        v=0,
        at=datetime.fromtimestamp(0, UTC),
        agg=agg,
        actor="",
        corr="",
        cause="",
        data=msgspec.Raw(b"null"),
    )


def forgery(envelope: Envelope) -> str:
    """Why an event cannot be from who may write its type, "" if it can; a forged one means nothing.

    The bus lets an agent write on the subjects of its own reports alone, and there what it likes:
    so a type counts only on its own aggregate, and an agent's only in the name of that agent. A
    type that this code does not know is not judged.
    """
    kind = CATALOGUE.get(envelope.type)
    if kind is None:
        return ""
    if not envelope.agg.startswith(_homes[envelope.type]):
        return f"{envelope.type} does not belong on {envelope.agg}"
    if kind.publisher == _AGENT:
        expected = _AGENT_ACTOR + envelope.agg.split(".")[1]
        if envelope.actor != expected:
            return f"{envelope.type} on {envelope.agg} is by {envelope.actor}, not by {expected}"
    elif envelope.actor.startswith(_AGENT_ACTOR):
        return f"{envelope.type} is by {envelope.actor}: no agent writes that type"
    return ""


def is_genuine(envelope: Envelope) -> bool:
    """Whether an event can be from who may write its type; every reader drops one that cannot."""
    return not forgery(envelope)


def fact_of(envelope: Envelope) -> Fact:
    """What an event says, in its newest version. Errors: UnknownEvent, msgspec.DecodeError."""
    try:
        return _fact_of(envelope)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from error


def _fact_of(envelope: Envelope) -> Fact:
    if envelope.type == UNREADABLE:
        raise msgspec.DecodeError("it is no event")
    kind = CATALOGUE.get(envelope.type)
    if kind is None or envelope.v > kind.version:
        raise UnknownEvent(envelope.type, envelope.v)
    if envelope.v == kind.version:
        return _decoders[envelope.type].decode(envelope.data)
    data: dict[str, Any] = msgspec.json.decode(envelope.data)
    for v in range(envelope.v, kind.version):
        if (envelope.type, v) not in UPCASTERS:
            raise UnknownEvent(envelope.type, envelope.v)
        data = UPCASTERS[envelope.type, v](data)
    return msgspec.convert(data, kind)
