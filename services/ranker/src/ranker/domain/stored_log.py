"""A stored copy of the log: its events, its chain, its seals, and whether it is complete."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.api.audits import Finding
from shared.event_log import RecordedEvent
from shared.events import AuditSealed, SealKeyChanged
from shared.subjects import aggregate, subject
from shared.wire import UNREADABLE, UnknownEvent, read_envelope

CHAIN_START = b"\0" * 32


class DamagedCopy(Exception):  # noqa: N818
    """A copy is cut off or foreign; `seq` is the last good event."""

    def __init__(self, seq: int, reason: str) -> None:
        super().__init__(reason)
        self.seq = seq
        self.reason = reason


class StoredEvent(NamedTuple):
    """One event of a copy: its stored bytes, and the chain hash that the copy claims, if any."""

    seq: int
    subject: str
    id: str
    body: bytes
    h: bytes | None = None

    def chain_after(self, previous: bytes) -> bytes:
        """Return the hash of the chain that ends with this event.

        Source: docs/adr/replay-and-audit.md: sha256(previous, seq in 8 bytes, subject and id each
        preceded by its length in 2 bytes, body), all numbers big-endian.

        >>> StoredEvent(1, "events.problem.p", "e1", b"{}").chain_after(CHAIN_START).hex()[:16]
        '9093edbc88358bc7'
        """
        digest = hashlib.sha256(previous + self.seq.to_bytes(8, "big"))
        for name in (self.subject.encode(), self.id.encode()):
            digest.update(len(name).to_bytes(2, "big") + name)
        digest.update(self.body)
        return digest.digest()

    def is_same(self, other: "StoredEvent") -> bool:
        """Return whether another copy has the same event, whatever it claims for the chain."""
        return self._replace(h=None) == other._replace(h=None)

    @property
    def recorded(self) -> RecordedEvent:
        """The event itself."""
        return RecordedEvent(
            self.seq, read_envelope(aggregate(self.subject), self.seq, self.body), self.body
        )


def to_stored_event(event: RecordedEvent) -> StoredEvent:
    """Convert an event of the log to the form in which copies store it."""
    return StoredEvent(event.seq, subject(event.envelope.aggregate), event.envelope.id, event.body)


SEAL_AGGREGATE = "audit.seal"
# Changes of the key of seals.
KEY_AGGREGATE = "audit.key"


# Whether the holder of a key signed these bytes, by the key in base64, the event's aggregate, token
# and raw data, and the signature in base64; see shared.signing.
Verify = Callable[[str, str, int, bytes, str], bool]


class SealInterval(NamedTuple):
    """A seal is due after `events` new events, or after `s` seconds if there was any."""

    events: int
    s: float


def is_seal_due(seq: int, last: RecordedEvent | None, at: datetime, rhythm: SealInterval) -> bool:
    """Whether the chain up to `seq` is due for a seal; a seal itself is not a new event.

    >>> is_seal_due(0, None, datetime(2026, 1, 1), SealInterval(10, 60)), is_seal_due(1, None,
    ...     datetime(2026, 1, 1),
    ...     SealInterval(10, 60))
    (False, True)
    """
    if last is None:
        return seq > 0
    fact = last.fact
    assert isinstance(fact, AuditSealed), "the seal subject has only AuditSealed events"
    new_events = seq - max(last.seq, fact.seq)
    is_late = (at - last.envelope.at).total_seconds() >= rhythm.s
    return new_events > 0 and (is_late or seq - fact.seq >= rhythm.events)


FINDINGS_MAX = 100
H_BYTES = 32


class PublishedSeal(NamedTuple):
    """A seal that was published elsewhere: the chain up to a sequence, in hex."""

    seq: int
    chain: str


class ChainVerifier:
    """Checks every event of a copy in order and computes the chain from the first byte.

    A seal must be signed with one of the `keys`, or with an older key that a signed change of the
    key names; `finish` checks that. Without keys, signatures of seals are not checked.
    It may start after an event with the chain up to it; None if the copy lacks that event.
    """

    def __init__(
        self,
        keys: Sequence[str],
        verify: Verify,
        after: int = 0,
        chain: bytes | None = CHAIN_START,
    ) -> None:
        self.seq = self._after = after
        self.seals = 0
        self.findings: list[Finding] = []
        self.key_changes: list[Finding] = []
        self.keys = keys
        self._unknown_seals: list[RecordedEvent] = []
        self._changes: list[RecordedEvent] = []
        self._verify = verify
        self._chain = chain
        # 32 bytes per event: a seal may name any sequence before its own.
        self._hashes = bytearray()

    @property
    def chain(self) -> str:
        """The chain up to the last event, in hex; "" if it is unknown."""
        return self._chain.hex() if self._chain is not None else ""

    def extend(self, event: StoredEvent) -> bytes | None:
        """The chain if this were the next event; None if the chain is unknown."""
        return None if self._chain is None else event.chain_after(self._chain)

    def find(self, seq: int, what: str) -> None:
        """Add a finding, up to 100."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(seq, what))

    def look(self, event: StoredEvent) -> RecordedEvent | None:
        """Check the next event; None if it cannot be decoded."""
        self._check_sequence(event)
        self._check_chain(event)
        recorded = event.recorded
        is_read = recorded.envelope.type != UNREADABLE
        if event.id != recorded.envelope.id:
            reason = "its id is not the one in its body" if is_read else "the event cannot be read"
            self.find(event.seq, reason)
        try:
            if recorded.envelope.aggregate == SEAL_AGGREGATE:
                self._check_seal(recorded)
            if recorded.envelope.aggregate == KEY_AGGREGATE and isinstance(
                recorded.fact, SealKeyChanged
            ):
                self._changes.append(recorded)
        except (msgspec.DecodeError, UnknownEvent) as error:
            self.find(event.seq, f"the event cannot be read: {error}")
            return None
        return recorded

    def compare(self, published: Iterable[PublishedSeal]) -> None:
        """Check that the log still has the chains that were published."""
        for seal in published:
            if seal.seq > self.seq:
                self.find(self.seq + 1, f"the log ends, but was sealed up to event {seal.seq}")
            elif self._chain_at(seal.seq) != seal.chain:
                self.find(seal.seq, "the chain is not the one that was sealed and published")

    def _check_sequence(self, event: StoredEvent) -> None:
        expected = self.seq + 1
        if event.seq != expected:
            self.find(expected, f"the event is missing: after {self.seq} comes {event.seq}")
            self._hashes += bytes(H_BYTES * max(event.seq - expected, 0))
        self.seq = event.seq

    def _check_chain(self, event: StoredEvent) -> None:
        """Each event is checked by itself: after a broken link, the copy's own hash is used."""
        computed = self.extend(event)
        if None not in (computed, event.h) and computed != event.h:
            self.find(event.seq, "the hash chain breaks here: the event is not what was archived")
        self._chain = computed if event.h is None else event.h
        self._hashes += self._chain or bytes(H_BYTES)

    def _check_seal(self, event: RecordedEvent) -> None:
        fact = event.fact
        if not isinstance(fact, AuditSealed):
            self.find(event.seq, "what lies among the seals is none")
            return
        self.seals += 1
        if (
            fact.seq >= event.seq
            or self._chain_at(fact.seq) not in (fact.chain, None)
            or fact.count != fact.seq
        ):
            self.find(fact.seq, f"the chain is not the one that event {event.seq} sealed")
        if not any(self._is_signed(event, key) for key in self.keys):
            self._unknown_seals.append(event)

    def finish(self) -> None:
        """Check seals by older keys, after the last event: a change of the key follows them."""
        # The last sequence up to which each older key may have sealed.
        older_keys: dict[str, int] = {}
        for event in reversed(self._changes):
            fact = event.fact
            assert isinstance(fact, SealKeyChanged), "only these are kept"
            is_known = fact.new_key in (*self.keys, *older_keys)
            if self.keys and not (is_known and self._is_signed(event, fact.new_key)):
                self.find(event.seq, "the change of the seal key is not signed with a known key")
                continue
            older_keys[fact.old_key] = max(fact.seq, older_keys.get(fact.old_key, 0))
            reason = f"seals up to event {fact.seq} are signed with {fact.old_key}"
            reason += f", later ones with {fact.new_key}"
            self.key_changes.insert(0, Finding(event.seq, reason))
        for seal in self._unknown_seals if self.keys else ():
            allowed = [key for key, seq in older_keys.items() if seal.seq <= seq]
            if not any(self._is_signed(seal, key) for key in allowed):
                self.find(seal.seq, "the seal is not signed with a known key")

    def _is_signed(self, event: RecordedEvent, key: str) -> bool:
        fact, envelope = event.fact, event.envelope
        assert isinstance(fact, AuditSealed | SealKeyChanged), "only these are signed here"
        return self._verify(
            key, envelope.aggregate, fact.seq, bytes(envelope.data), envelope.sig or ""
        )

    def _chain_at(self, seq: int) -> str | None:
        """The chain up to an event, in hex; None for an event before the first one looked at."""
        place = H_BYTES * (seq - self._after)
        return bytes(self._hashes[place - H_BYTES : place]).hex() if place > 0 else None
