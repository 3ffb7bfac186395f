"""Whether a copy of the log is whole and untouched: order, chain, seals."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from ranker.domain.kept import Kept
from ranker.domain.seals import AGGREGATE, Verify
from shared import chain
from shared.event_log import Recorded
from shared.events import AuditSealed
from shared.wire import UNREADABLE, UnknownEvent

FINDINGS_MAX = 100
H_BYTES = 32


class Finding(NamedTuple):
    """What is wrong, and the first sequence where it shows."""

    seq: int
    what: str


class Published(NamedTuple):
    """A seal that somebody kept outside: the chain up to a sequence, hex."""

    seq: int
    chain: str


class Scrutiny:
    """Looks at every event of a copy, in order; the chain is made anew from the first byte.

    A seal must be signed with one of the `keys`; without any, signatures of seals are not checked.
    """

    def __init__(self, keys: Sequence[str], verify: Verify) -> None:
        self.seq = 0
        self.seals = 0
        self.findings: list[Finding] = []
        self.keys = keys
        self._verify = verify
        self._chain = chain.START
        # 32 bytes an event: a seal may name any sequence before its own.
        self._all = bytearray()

    @property
    def chain(self) -> str:
        """The chain up to the last event, hex."""
        return self._chain.hex()

    def find(self, seq: int, what: str) -> None:
        """Note what is wrong, up to 100 times."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(seq, what))

    def look(self, one: Kept) -> Recorded | None:
        """Take the next event; None if it cannot be read."""
        self._place(one)
        self._link(one)
        event = one.recorded
        is_read = event.envelope.type != UNREADABLE
        if one.id != event.envelope.id:
            what = "its id is not the one in its body" if is_read else "the event cannot be read"
            self.find(one.seq, what)
        try:
            if event.envelope.agg == AGGREGATE:
                self._seal(event)
        except (msgspec.DecodeError, UnknownEvent) as error:
            self.find(one.seq, f"the event cannot be read: {error}")
            return None
        return event

    def compare(self, published: Iterable[Published]) -> None:
        """Whether the log still has the chain that was published when it was sealed."""
        for seal in published:
            if seal.seq > self.seq:
                self.find(self.seq + 1, f"the log ends, but was sealed up to event {seal.seq}")
            elif self._up_to(seal.seq) != seal.chain:
                self.find(seal.seq, "the chain is not the one that was sealed and published")

    def _place(self, one: Kept) -> None:
        expected = self.seq + 1
        if one.seq != expected:
            self.find(expected, f"the event is missing: after {self.seq} comes {one.seq}")
            self._all += bytes(H_BYTES * max(one.seq - expected, 0))
        self.seq = one.seq

    def _link(self, one: Kept) -> None:
        """Each event is judged by itself: from a broken link on, the copy's own word is taken."""
        made = chain.after(self._chain, one.link)
        if one.h is not None and made != one.h:
            self.find(one.seq, "the hash chain breaks here: the event is not what was archived")
        self._chain = made if one.h is None else one.h
        self._all += self._chain

    def _seal(self, event: Recorded) -> None:
        fact, envelope = event.fact, event.envelope
        if not isinstance(fact, AuditSealed):
            self.find(event.seq, "what lies among the seals is none")
            return
        self.seals += 1
        if fact.seq >= event.seq or self._up_to(fact.seq) != fact.chain or fact.count != fact.seq:
            self.find(fact.seq, f"the chain is not the one that event {event.seq} sealed")
        data, sig = bytes(envelope.data), envelope.sig or ""
        known = (self._verify(key, AGGREGATE, fact.seq, data, sig) for key in self.keys)
        if self.keys and not any(known):
            self.find(event.seq, "the seal is not signed with a known key")

    def _up_to(self, seq: int) -> str:
        return bytes(self._all[H_BYTES * (seq - 1) : H_BYTES * seq]).hex()
