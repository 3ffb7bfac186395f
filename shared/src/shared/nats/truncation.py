"""How far the stream EVENTS was truncated behind segments.

A truncation is announced by an event, and begins `PAUSE_S` later. Whoever reads something from the
stream, and knows of a truncation from less than `KNOWN_S` before the end of that read, therefore
knows whether an event could have been dropped before it.
"""

import time
from typing import NamedTuple

from nats.aio.client import Client

from shared.events import LogTruncated
from shared.nats.connection import get_message, retry_request
from shared.subjects import STREAM, subject
from shared.wire import decode, decode_fact

TRUNCATION = "audit.truncation"
KNOWN_S = 5.0
PAUSE_S = 15.0


class Truncation(NamedTuple):
    """The stream lacks some of its events 1 to `seq`, which segments have; 0 if it lacks none.

    `kept` is how many of them it still has; None while it is being truncated. `version` is the
    sequence of the event that says so.
    """

    seq: int = 0
    kept: int | None = None
    version: int = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether a truncation was announced and not confirmed."""
        return self.seq > 0 and self.kept is None

    @property
    def dropped_max(self) -> int:
        """How many events the stream may lack."""
        return self.seq - (self.kept or 0)


async def read_truncation(nc: Client) -> Truncation:
    """Return how far the stream was truncated, as its leader says. Errors: those of the request."""
    message = await get_message(nc, STREAM, {"last_by_subj": subject(TRUNCATION)})
    if message is None:
        return Truncation()
    fact = decode_fact(decode(message.data))
    assert isinstance(fact, LogTruncated), "nothing else is on this subject"
    return Truncation(fact.seq, fact.kept, message.seq)


class KnownTruncation:
    """How far the stream was truncated, read at most every 5 s."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._truncation = Truncation()
        self._read_at = float("-inf")

    async def after_read(self) -> Truncation:
        """Return what holds for a read of the stream that has just ended. Errors: Failed."""
        # This clock counts the time in which a machine was suspended.
        if time.clock_gettime(time.CLOCK_BOOTTIME) - self._read_at > KNOWN_S:
            read_at = time.clock_gettime(time.CLOCK_BOOTTIME)
            self._truncation = await retry_request(self._nc, lambda: read_truncation(self._nc))
            self._read_at = read_at
        return self._truncation
