"""Seals: when the hash chain is to be signed, and what a signature is over."""

from datetime import datetime
from typing import NamedTuple, Protocol

from shared.event_log import Recorded
from shared.events import AuditSealed

AGGREGATE = "audit.seal"


class Verify(Protocol):
    """Whether the holder of a key signed these bytes; see shared.signing."""

    def __call__(self, sign_key_b64: str, agg: str, token: int, data: bytes, sig_b64: str) -> bool:
        """The key, the aggregate, the token and the raw data of an event, and its signature."""
        ...


class Rhythm(NamedTuple):
    """A seal is due after so many events, or after so long if there was any."""

    events: int
    s: float


def is_due(seq: int, last: Recorded | None, at: datetime, rhythm: Rhythm) -> bool:
    """Whether the chain up to `seq` is to be sealed now; a seal alone is nothing new.

    >>> is_due(0, None, datetime(2026, 1, 1), Rhythm(10, 60)), is_due(1, None, datetime(2026, 1, 1),
    ...     Rhythm(10, 60))
    (False, True)
    """
    if last is None:
        return seq > 0
    fact = last.fact
    assert isinstance(fact, AuditSealed), "nothing else lies on that subject"
    fresh = seq - max(last.seq, fact.seq)
    is_late = (at - last.envelope.at).total_seconds() >= rhythm.s
    return fresh > 0 and (is_late or seq - fact.seq >= rhythm.events)
