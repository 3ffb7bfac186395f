"""Segments: closed parts of the log that were copied out of the stream, byte for byte.

A segment has the events `first` to `last`, all of them, as gzipped JSON lines with the hash chain
before and after. It is a blob that the signed event SegmentSealed names. The stream may then drop
the histories that are over: those of submissions, jobs and runs. All other aggregates stay whole in
the stream, and so does every event after the last segment that it dropped anything of.
"""

import base64
import gzip
import hashlib
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from sys import byteorder
from typing import NamedTuple

import msgspec

from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, JobAssigned, JobLeased, JobQueued, SubmissionReceived
from shared.subjects import history_of
from shared.wire import UNREADABLE, UnknownEvent, is_genuine

FORMAT = "warpboard-segment/1"
LEVEL = 6
# A segment ends with the first of these: it is read and checked as a whole.
SEGMENT_EVENTS_MAX = 20_000
SEGMENT_BYTES_MAX = 48 * 1024 * 1024
# The aggregates whose histories end, and which the stream may then drop.
CUT_KINDS = ("submission", "job", "run", "report")
KEY_BYTES = 8


class EventLine(NamedTuple):
    """An event of a copy of the log: its sequence, subject, id and stored bytes."""

    seq: int
    subject: str
    id: str
    body: bytes


class _Line(msgspec.Struct, omit_defaults=True):
    """One event; a body that is not one plain line of JSON is stored in base64."""

    seq: int
    subject: str
    id: str
    body: msgspec.Raw = msgspec.Raw()
    base64: str = ""


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: which events follow, and the hash chain before and after them, in hex."""

    format: str = FORMAT
    first: int
    last: int
    before: str
    chain: str


class Segment(NamedTuple):
    """A decoded segment."""

    header: SegmentHeader
    events: Sequence[EventLine]


class DamagedSegment(Exception):  # noqa: N818
    """The bytes are not a whole segment."""


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_decode_header = msgspec.json.Decoder(SegmentHeader).decode


def encode_event_line(event: EventLine) -> bytes:
    """Encode an event as one line of JSON, without the end of the line."""
    seq, subject, id_, body = event
    if _is_plain(body):
        return msgspec.json.encode(_Line(seq, subject, id_, msgspec.Raw(body)))
    return msgspec.json.encode(_Line(seq, subject, id_, base64=base64.b64encode(body).decode()))


def decode_event_line(text: bytes) -> EventLine:
    """Decode a line. Errors: msgspec.DecodeError, ValueError."""
    line = _decode_line(text)
    body = base64.b64decode(line.base64) if line.base64 else bytes(line.body)
    return EventLine(line.seq, line.subject, line.id, body)


def _is_plain(body: bytes) -> bool:
    """Return whether a body can be written as it is and is read back as the same bytes."""
    try:
        return b"\n" not in body and bytes(_decode_raw(body)) == body
    except msgspec.DecodeError:
        return False


def encode_segment(segment: Segment) -> bytes:
    """Encode a segment; the same segment always gives the same bytes."""
    lines = map(encode_event_line, segment.events)
    text = b"\n".join(chain([msgspec.json.encode(segment.header)], lines))
    return gzip.compress(text, LEVEL, mtime=0)


def decode_segment(data: bytes) -> Segment:
    """Decode a segment, and check that it has all of its events. Errors: DamagedSegment."""
    try:
        head, *lines = gzip.decompress(data).split(b"\n")
        header = _decode_header(head)
        events = [decode_event_line(line) for line in lines]
    except (msgspec.DecodeError, ValueError, OSError, EOFError, zlib.error) as error:
        raise DamagedSegment(f"it cannot be read: {error}") from error
    if header.format != FORMAT:
        raise DamagedSegment(f"it has the format {header.format!r}, not {FORMAT!r}")
    if [event.seq for event in events] != list(range(header.first, header.last + 1)):
        reason = f"it does not have exactly the events {header.first} to {header.last}"
        raise DamagedSegment(reason)
    return Segment(header, events)


def is_cut(aggregate: str) -> bool:
    """Return whether the stream may drop the history of an aggregate once it is over.

    >>> is_cut("job.j1"), is_cut("account.a1")
    (True, False)
    """
    return aggregate.partition(".")[0] in CUT_KINDS


def _history_key(history: str) -> int:
    return int.from_bytes(hashlib.sha256(history.encode()).digest()[:KEY_BYTES])


class HistoryIndex:
    """Which histories have events in a segment, by the first 64 bits of their SHA-256.

    It never misses a history that the stream may drop, and rarely names one that is not there.
    """

    def __init__(self, keys: "array[int]") -> None:
        self._keys = keys

    @classmethod
    def of_aggregates(cls, aggregates: Iterable[str]) -> "HistoryIndex":
        """Return the index of the aggregates of a segment's events.

        >>> index = HistoryIndex.of_aggregates(["report.a1.r7", "account.a1"])
        >>> index.may_have("run.a1.r7"), index.may_have("run.a1.r8")
        (True, False)
        """
        histories = {history_of(aggregate) for aggregate in aggregates if is_cut(aggregate)}
        return cls(array("Q", sorted(map(_history_key, histories))))

    @classmethod
    def decode(cls, data: bytes) -> "HistoryIndex":
        """Decode an index. Errors: DamagedSegment."""
        if len(data) % KEY_BYTES:
            raise DamagedSegment("its index is cut off")
        keys = array("Q", data)
        if byteorder == "little":
            keys.byteswap()
        return cls(keys)

    def encode(self) -> bytes:
        """Encode the index: 8 bytes per history, in order."""
        keys = array("Q", self._keys)
        if byteorder == "little":
            keys.byteswap()
        return keys.tobytes()

    def may_have(self, history: str) -> bool:
        """Return whether the segment may have events of a history."""
        key = _history_key(history)
        place = bisect_left(self._keys, key)
        return place < len(self._keys) and self._keys[place] == key


# What a history begins with; the job of a submission or of a chunk begins with its lease.
FIRST_EVENTS = (SubmissionReceived, JobQueued, JobAssigned)


def _is_of_chunk(event: RecordedEvent) -> bool:
    try:
        fact = event.fact
    except UnknownEvent:
        return True
    return isinstance(fact, JobLeased) and fact.chunk is not None


class OpenHistories:
    """The histories of submissions, jobs and runs that are not over, folded from events in order.

    A history is open from its first event, and over for ever with its end: a late result may still
    follow. A submission's own job is over with the submission.
    """

    def __init__(self) -> None:
        # In the order of their first events.
        self._first_seqs: dict[str, int] = {}

    def fold(self, event: RecordedEvent) -> None:
        """Take the next event; one that means nothing opens nothing."""
        envelope = event.envelope
        if not is_cut(envelope.aggregate) or envelope.type == UNREADABLE:
            return
        if not is_genuine(envelope):
            return
        history, kind = history_of(envelope.aggregate), CATALOGUE.get(envelope.type)
        if kind is not None and kind.is_terminal:
            self._first_seqs.pop(history, None)
        elif kind in FIRST_EVENTS or (kind is JobLeased and _is_of_chunk(event)):
            self._first_seqs.setdefault(history, event.seq)

    @property
    def oldest(self) -> tuple[str, int] | None:
        """The open history that began first, and the sequence of its first event."""
        return next(iter(self._first_seqs.items()), None)
