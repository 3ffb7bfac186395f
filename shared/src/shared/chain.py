"""The hash chain over the log: each link names the event and everything before it."""

import hashlib
from typing import NamedTuple

START = b"\0" * 32


class Link(NamedTuple):
    """What is chained of one event; `body` is what the log keeps, byte for byte."""

    seq: int
    subject: str
    id: str
    body: bytes


def after(previous: bytes, link: Link) -> bytes:
    """The chain after one more event.

    Source: ADR 0034: sha256(previous, seq in 8 bytes, subject and id each behind its length in 2
    bytes, body), all numbers with their highest byte first.

    >>> after(START, Link(1, "events.problem.p", "e1", b"{}")).hex()[:16]
    '9093edbc88358bc7'
    """
    subject, id_ = link.subject.encode(), link.id.encode()
    parts = (
        previous,
        link.seq.to_bytes(8, "big"),
        len(subject).to_bytes(2, "big"),
        subject,
        len(id_).to_bytes(2, "big"),
        id_,
        link.body,
    )
    return hashlib.sha256(b"".join(parts)).digest()
