"""An event as a copy of the log keeps it, wherever that copy lies."""

from typing import NamedTuple

from shared.chain import Link
from shared.event_log import Recorded
from shared.subjects import aggregate, subject
from shared.wire import read


class Damaged(Exception):  # noqa: N818
    """A copy ends too early, or is none of ours, after so many events."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(what)
        self.seq = seq
        self.what = what


class Kept(NamedTuple):
    """One event of a copy, with the chain that the copy claims for it, if it does."""

    seq: int
    subject: str
    id: str
    body: bytes
    h: bytes | None = None

    @property
    def link(self) -> Link:
        """What is chained of it."""
        return Link(self.seq, self.subject, self.id, self.body)

    @property
    def recorded(self) -> Recorded:
        """The event itself."""
        return Recorded(self.seq, read(aggregate(self.subject), self.seq, self.body), self.body)


def kept(event: Recorded) -> Kept:
    """An event of the log, as a copy would have it."""
    return Kept(event.seq, subject(event.envelope.agg), event.envelope.id, event.body)
