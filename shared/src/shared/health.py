"""The health of a process's parts in /healthz: the log, and what is retried while it is away."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from shared.errors import Failed

# The /healthz parts for the log, in every service that reads it or appends to it.
LOG_PART = "log"
LOG_STORE_PART = "log store"
# The part of a service whose event loop is stuck.
LOOP_PART = "loop"

PAGE = "docs/operating/log-damaged.md"

PAUSE_S_MIN = 0.5
PAUSE_S_MAX = 5.0
# A part that fails again within this time has not recovered, even if it worked for a moment.
RECOVERED_AFTER_S = 10.0

# During an outage the same warning may come with every request.
REPEAT_S = 60.0

_log = logging.getLogger(__name__)

RANGES_SHOWN = 5
# First and last sequence.
Range = tuple[int, int]

# Marks a part as failing with a reason, or as healthy with None.
HealthReporter = Callable[[str, str | None], None]

# The time of a warning's last log line, by key, and how many were suppressed since.
_warned: dict[str, tuple[float, int]] = {}


class StreamState(msgspec.Struct):
    """The state of a stream: its first and last sequence, the number of messages, and the size."""

    first_seq: int
    last_seq: int
    messages: int
    num_deleted: int = 0
    bytes: int = 0
    num_subjects: int = 0


def count_missing(state: StreamState, known_seq: int = 0, dropped: int = 0) -> int:
    """Count the events missing from the log; `known_seq` is the last sequence it ever had.

    The log has every sequence from 1 on, except for those that it `dropped` to segments.

    >>> count_missing(StreamState(first_seq=1, last_seq=10, messages=8, num_deleted=2))
    2
    >>> count_missing(StreamState(first_seq=1, last_seq=10, messages=10), known_seq=12)
    2
    >>> count_missing(StreamState(first_seq=4, last_seq=10, messages=6, num_deleted=1), dropped=4)
    0
    """
    return max(0, max(state.last_seq, known_seq) - dropped - state.messages)


def describe_failed_write(state: StreamState, whole_seq: int, dropped: int = 0) -> str:
    """Name the event that the server failed to write, of a log that was complete up to a sequence.

    A server counts an event that it failed to write as the first of a new file. Nobody was told
    that it is stored, and it disappears when the server is killed and restarted; but an orderly
    stop makes it a permanent hole. "" if something else is missing.

    >>> describe_failed_write(StreamState(1, 84, messages=83, num_deleted=1), 80)
    'event 84 was not written'
    >>> describe_failed_write(StreamState(1, 84, messages=83, num_deleted=1), 84)
    ''
    """
    present = state.messages + dropped
    if state.last_seq == present + 1 and present >= whole_seq:
        return f"event {state.last_seq} was not written"
    return ""


def describe_damage(state: StreamState, known_seq: int = 0, dropped: int = 0) -> str:
    """Explain in one sentence why the log must not be served; "" if it is complete.

    >>> describe_damage(StreamState(first_seq=1, last_seq=10, messages=10))
    ''
    >>> describe_damage(StreamState(first_seq=1, last_seq=10, messages=8, num_deleted=2))
    'the log is damaged: 2 of its 10 events are missing; see docs/operating/log-damaged.md'
    """
    missing = count_missing(state, known_seq, dropped)
    if not missing:
        return ""
    expected = max(state.last_seq, known_seq)
    return f"the log is damaged: {missing} of its {expected} events are missing; see {PAGE}"


class ScrubState(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of the log with its archive: the pass under way, the last one, the damage.

    `seq` is how far the pass has come that began at `began_at`. `damaged` are ranges of events that
    the log lacks or has in another form, `archive_damaged` those where the archive's chain breaks;
    they stay until they are compared again and found to be right.
    """

    began_at: datetime | None = None
    seq: int = 0
    ended_at: datetime | None = None
    ended_seq: int = 0
    damaged_events: int = 0
    damaged: list[Range] = []
    archive_damaged: list[Range] = []


def describe_scrub(state: ScrubState) -> str:
    """Explain in one sentence what a scrub found wrong with the log; "" for nothing.

    >>> describe_scrub(ScrubState(damaged_events=1, damaged=[(6, 6)]))
    'the log is damaged: 1 event missing or not as archived: 6; see docs/operating/log-damaged.md'
    """
    if not state.damaged_events:
        return ""
    difference = f"{_count_text(state.damaged_events)} missing or not as archived"
    return f"the log is damaged: {difference}: {name_ranges(state.damaged)}; see {PAGE}"


def describe_unreadable(seqs: Sequence[int]) -> str:
    """Explain in one sentence that events cannot be read; "" for none.

    >>> describe_unreadable([6])
    'the log is damaged: 1 event cannot be read: 6; see docs/operating/log-damaged.md'
    """
    if not seqs:
        return ""
    events = f"{_count_text(len(seqs))} cannot be read: {name_ranges(to_ranges(seqs))}"
    return f"the log is damaged: {events}; see {PAGE}"


def _count_text(events: int) -> str:
    return "1 event" if events == 1 else f"{events} events"


def to_ranges(seqs: Iterable[int]) -> list[Range]:
    """Return sequences in order as ranges.

    >>> to_ranges([3, 4, 5, 9])
    [(3, 5), (9, 9)]
    """
    ranges: list[Range] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def name_ranges(ranges: Sequence[Range]) -> str:
    """Return the first ranges in words.

    >>> name_ranges([(3, 5), (9, 9)])
    '3 to 5, 9'
    """
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    more = " and more" if len(texts) > RANGES_SHOWN else ""
    return f"{', '.join(texts[:RANGES_SHOWN])}{more}"


def warn_rarely(logger: logging.Logger, key: str, message: str, *values: object) -> None:
    """Log a warning at most once a minute per key; the next one says how many were left out.

    Keys must be constants, so that there are few.
    """
    last_at, left_out = _warned.get(key, (float("-inf"), 0))
    if time.monotonic() - last_at < REPEAT_S:
        _warned[key] = (last_at, left_out + 1)
        return
    _warned[key] = (time.monotonic(), 0)
    logger.warning(message, *values, extra={"left_out": left_out})


class Outage:
    """Retries of one part of a process, with growing pauses and few log lines.

    `report_unhealthy` reports the part to /healthz, with the reason, or None when it works again;
    the default is for parts that /healthz does not name.
    """

    def __init__(
        self,
        part: str,
        report_unhealthy: HealthReporter = lambda _part, _reason: None,
        pause_s_min: float = PAUSE_S_MIN,
        pause_s_max: float = PAUSE_S_MAX,
    ) -> None:
        self.part = part
        self._report_unhealthy = report_unhealthy
        self._pause_s_min, self._pause_s_max = pause_s_min, pause_s_max
        self._pause_s = pause_s_min
        self._worked_at: float | None = None

    def end(self) -> None:
        """Record that the part works."""
        self._report_unhealthy(self.part, None)
        self._worked_at = time.monotonic()

    async def wait(self, failed: Failed) -> None:
        """Record that the part failed, and pause before the next try."""
        self._report_unhealthy(self.part, str(failed))
        warn_rarely(_log, self.part, "%s: waiting: %s", self.part, failed)
        worked_at, self._worked_at = self._worked_at, None
        if worked_at is not None and time.monotonic() - worked_at > RECOVERED_AFTER_S:
            self._pause_s = self._pause_s_min
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, self._pause_s_max)
