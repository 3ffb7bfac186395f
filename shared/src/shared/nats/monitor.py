"""Whether the log has all its events, and whether NATS stores new ones.

A server that finds a damaged block drops what it cannot read and goes on without a word. After a
failed write it stores nothing more until it is restarted, however much room there is by then. So
each service looks for itself: at its start, after each reconnection, and every few seconds.
"""

import asyncio
import logging
import time
from collections.abc import Callable

import msgspec
import nats.errors
from nats.aio.client import Client

from shared.errors import Failed
from shared.event_log import Gap
from shared.health import (
    LOG,
    LOG_STORE,
    StreamState,
    count_missing,
    describe_damage,
    describe_failed_write,
)
from shared.nats.pages import pages
from shared.nats.requests import Denied, Passing, publish
from shared.nats.streams import state
from shared.subjects import STREAM, WATERMARKS

CHECK_S = 5.0
POLL_S = 0.25
# Without a successful check for longer, nobody knows how the log is.
UNCHECKED_S_MAX = 15.0
# A single answer that does not come in 2 s may be a slow disk.
UNSTORED_S_MAX = 3.0
# A new leader of a cluster may not have yet what the old one acknowledged.
SHORT_S_MAX = 3.0
SHORT_PAUSE_S = 0.25
# A page of the file system, so that a watermark needs room on a disk that is full.
WATERMARK_BYTES = 4096

log = logging.getLogger(__name__)


class Watermark(msgspec.Struct):
    """What a service writes into the stream WATERMARKS: the last sequence that it has seen."""

    last_seq: int = 0
    padding: str = ""


def _ignore(_part: str, _reason: str | None) -> None:
    """Report to nobody."""


class LogMonitor:
    """Watches the log for one service; `report` is told which part is ill, and why.

    `damage` says that events are missing, `store_failure` that NATS stores nothing; "" is well.
    """

    def __init__(
        self,
        nc: Client,
        service: str,
        report: Callable[[str, str | None], None] = _ignore,
        check_s: float = CHECK_S,
    ) -> None:
        self._nc = nc
        self._service = service
        self._report = report
        self._check_s = check_s
        self.known_seq = 0
        self._checked_at = time.monotonic()
        self._checked_connection: int | None = None
        self._unstored_since: float | None = None
        self._seen_seq = 0
        self._unmarked_since: float | None = None
        self._append_failure = ""
        self._mark_failure = ""
        self._looked = asyncio.Event()
        self.missing_events = 0
        self.damage = ""

    @property
    def store_failure(self) -> str:
        """Why NATS stores no events now, as far as is known; "" if it does."""
        unchecked_s = time.monotonic() - self._checked_at
        if unchecked_s > UNCHECKED_S_MAX:
            return f"NATS has not said for {unchecked_s:.0f} s how the log is"
        reason = self._append_failure or self._mark_failure
        return reason and f"NATS stores nothing: {reason}; see docs/operating/disk-full.md"

    @property
    def problem(self) -> str:
        """Why the log must not be used now; "" if all is well."""
        return self.damage or self.store_failure

    @property
    def is_checked(self) -> bool:
        """Whether the log was checked since the connection was made, or made again."""
        return self._checked_connection == self._nc.stats["reconnects"]

    def require_whole(self) -> None:
        """Let nobody read or append what depends on all events being there.

        Errors: Failed if events are missing; Passing until that is known.
        """
        if self.damage:
            raise Failed(self.damage)
        if not self.is_checked:
            raise Passing("the log has not been checked since the connection to NATS was made")

    async def until_whole(self) -> None:
        """Wait until the log was checked and has all its events; for as long as `watch` runs."""
        while self.damage or not self.is_checked:
            self._looked.clear()
            await self._looked.wait()

    async def watch(self) -> None:
        """Check for ever. Errors: Gap once a damaged log is whole again.

        What was folded of a damaged log may lack events: the process has to start again.
        """
        while True:
            await self._look()
            self._report(LOG, self.damage or None)
            self._report(LOG_STORE, self.store_failure or None)
            self._looked.set()
            await self._pause()

    def note_stored(self) -> None:
        """An append was stored."""
        self._unstored_since, self._append_failure = None, ""

    def note_failure(self, reason: str, *, is_final: bool) -> None:
        """An append was not stored; one that fails again and again, or `is_final`, tells of all."""
        self._unstored_since = self._unstored_since or time.monotonic()
        if is_final or time.monotonic() - self._unstored_since > UNSTORED_S_MAX:
            self._append_failure = reason

    async def _pause(self) -> None:
        """Wait for the next check: a moment, where the connection was just made again."""
        for _ in range(max(1, int(self._check_s / POLL_S))):
            await asyncio.sleep(POLL_S)
            if self._nc.is_connected and not self.is_checked:
                return

    async def _look(self) -> None:
        connection = self._nc.stats["reconnects"]
        if not self._nc.is_connected:
            return
        if connection != self._checked_connection:
            # A server that was restarted may store again.
            self.note_stored()
        try:
            await self.check()
        except (TimeoutError, Denied, Passing, Failed, nats.errors.Error) as error:
            log.warning("the log could not be checked: %s", str(error) or "no answer")
            return
        self._checked_at, self._checked_connection = time.monotonic(), connection
        await self._write_watermark()

    async def check(self) -> None:
        """Look once whether all events are there. Errors: as watch; Denied, Passing, Failed."""
        if self._checked_connection is None:
            self.known_seq = max(self.known_seq, await read_known_seq(self._nc))
        found = await state(self._nc, STREAM)
        until = time.monotonic() + SHORT_S_MAX
        while found.last_seq < self.known_seq and time.monotonic() < until:
            await asyncio.sleep(SHORT_PAUSE_S)
            found = await state(self._nc, STREAM)
        self._judge(found, is_new=not self.is_checked or bool(self.damage))

    def _judge(self, found: StreamState, *, is_new: bool) -> None:
        """Tell a log that lost events from one whose newest was never written.

        Only a server that is still the same can say the latter: another one may have lost it.
        """
        failed_write = "" if is_new else describe_failed_write(found, self.known_seq)
        if failed_write:
            self._append_failure = failed_write
            return
        was, self.damage = self.damage, describe_damage(found, self.known_seq)
        self.missing_events = count_missing(found, self.known_seq)
        if not self.damage:
            self.known_seq = max(self.known_seq, found.last_seq)
        if self.damage and not was:
            log.critical("%s", self.damage)
        if was and not self.damage:
            raise Gap("the log was damaged and is whole again: starting over to fold all of it")
        if found.last_seq > self._seen_seq:
            # Somebody's append was stored since the last check.
            self.note_stored()
        self._seen_seq = found.last_seq

    async def _write_watermark(self) -> None:
        """Write to the disk, in a stream that keeps one message a service."""
        watermark = Watermark(self.known_seq, "." * WATERMARK_BYTES)
        try:
            await publish(
                self._nc, f"watermarks.{self._service}", msgspec.json.encode(watermark), {}
            )
        except (TimeoutError, Denied, Passing, nats.errors.Error) as error:
            self._unmarked_since = self._unmarked_since or time.monotonic()
            is_final = not isinstance(error, TimeoutError)
            if is_final or time.monotonic() - self._unmarked_since > UNSTORED_S_MAX:
                self._mark_failure = str(error) or "a write is not answered"
            return
        self._unmarked_since, self._mark_failure = None, ""


async def read_known_seq(nc: Client) -> int:
    """The last sequence of the log that any service has seen, as their watermarks say."""
    watermarks = await pages(nc, WATERMARKS, "watermarks.*")
    return max((_read_watermark(one.data).last_seq for one in watermarks), default=0)


def _read_watermark(data: bytes) -> Watermark:
    try:
        return msgspec.json.decode(data, type=Watermark)
    except msgspec.MsgspecError:
        return Watermark()
