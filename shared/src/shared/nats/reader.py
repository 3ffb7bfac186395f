"""The log for the Discord edge and for launchers: services read it and append for them.

`shared.nats.reader_requests` answers. Such a process cannot even ask for what is not its own.
"""

import asyncio
import time
from functools import partial
from typing import TypeVar

import msgspec
from nats.aio.client import Client

from shared import subjects
from shared.bus_keys.permissions import EDGE_CONSUMER
from shared.event_log import Conflict, Gap, LogCounts, NewEvent, RecordedEvent
from shared.health import LOG_PART, LOG_STORE_PART, HealthReporter
from shared.nats.agent import RequestConflict, ask_services
from shared.nats.connection import ATTEMPT_S_MAX, REQUEST_ERRORS, retry_request
from shared.nats.inbox import NatsInbox, UnreadableMessage, read_event
from shared.nats.reader_requests import (
    APPEND,
    EVENT,
    FORGET,
    HISTORY,
    INBOX,
    STATE,
    AppendRequest,
    AppendResponse,
    EventPage,
    EventRequest,
    HistoryRequest,
    InboxRequest,
    InboxResponse,
    LogState,
    edge_inbox_config,
)
from shared.nats.streams import CHECK_S, Settings
from shared.wire import encode_envelope, read_envelope

POLL_S = 0.25
# Without an answer for longer, the state of the log is unknown.
UNKNOWN_S_MAX = 15.0

T = TypeVar("T")


async def _ask(nc: Client, reader: str, name: str, body: object, response_type: type[T]) -> T:
    subject = subjects.reader_request(reader, name)
    data, _ = await ask_services(nc, subject, msgspec.json.encode(body))
    return msgspec.json.decode(data, type=response_type)


class ReaderMonitor:
    """Watches the log through the services; `report` is called with the unhealthy part and why."""

    def __init__(
        self, nc: Client, reader: str, report: HealthReporter, check_s: float = CHECK_S
    ) -> None:
        self._nc = nc
        self._reader = reader
        self._report = report
        self._check_s = check_s
        self._answered_at = time.monotonic()
        self._state: LogState | None = None
        self._checked = asyncio.Event()

    async def until_whole(self) -> None:
        """Wait until a service said that the log is complete; `watch` must be running."""
        while self._state is None or self._state.is_damaged:
            self._checked.clear()
            await self._checked.wait()

    async def watch(self) -> None:
        """Ask without end. Errors: Gap once a damaged log is complete again, as `LogMonitor`."""
        self._report(LOG_PART, "no service has said yet how the log is")
        while True:
            try:
                state = await _ask(self._nc, self._reader, STATE, None, LogState)
            except REQUEST_ERRORS:
                self._report_silence()
            else:
                self._answered_at = time.monotonic()
                was_damaged = self._state is not None and self._state.is_damaged
                self._state = state
                self._report(LOG_PART, state.problem if state.is_damaged else None)
                self._report(LOG_STORE_PART, None if state.is_damaged else state.problem or None)
                self._checked.set()
                if was_damaged and not state.is_damaged:
                    raise Gap("the log was damaged and is complete again: restart")
            await asyncio.sleep(self._check_s if self._state else POLL_S)

    def _report_silence(self) -> None:
        silent_s = time.monotonic() - self._answered_at
        if silent_s > UNKNOWN_S_MAX:
            reason = f"no service has said for {silent_s:.0f} s how the log is: is scheduler up?"
            self._report(LOG_STORE_PART, reason)


class ReaderLog:
    """The log for a launcher: its own history and those of agents, which it polls.

    While no service answers, it repeats a request; the log keeps one of an event.
    """

    silent_s = 0.0

    def __init__(self, nc: Client, reader: str) -> None:
        self._nc = nc
        self._reader = reader
        self.counts = LogCounts()

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and re-established."""
        return self._nc.stats["reconnects"]

    async def append(self, event: NewEvent) -> int:
        """Store one event and return its sequence.

        Errors: Conflict if the services refuse it; Failed if none answered in 30 s.
        """
        body, started_at = (
            AppendRequest(msgspec.Raw(encode_envelope(event.envelope))),
            time.monotonic(),
        )
        try:
            response = await retry_request(
                self._nc, lambda: _ask(self._nc, self._reader, APPEND, body, AppendResponse)
            )
        except RequestConflict as error:
            self.counts.conflicts += 1
            raise Conflict(event.envelope.aggregate, event.expected or 0) from error
        self.counts.append.add(time.monotonic() - started_at)
        return response.seq

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Return the events of an aggregate after a sequence, in order. Errors: Failed."""
        events, has_more = list[RecordedEvent](), True
        while has_more:
            request = HistoryRequest(aggregate, events[-1].seq if events else after)
            ask = partial(_ask, self._nc, self._reader, HISTORY, request, EventPage)
            page = await retry_request(self._nc, ask)
            for seq, body in page.events:
                envelope = read_envelope(aggregate, seq, bytes(body))
                events.append(RecordedEvent(seq, envelope, bytes(body)))
            has_more = page.has_more
        return events

    def branch(self, after: int, aggregate: str) -> "PolledBranch":
        """Follow one aggregate after a sequence."""
        return PolledBranch(self, aggregate, after)


class PolledBranch:
    """The events of one aggregate after a sequence, each once."""

    def __init__(self, log: ReaderLog, aggregate: str, after: int) -> None:
        self._log = log
        self._aggregate = aggregate
        self._after = after

    async def take(self) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one. Errors: Failed after 30 s."""
        while True:
            events = await self._log.history(self._aggregate, self._after)
            if events:
                self._after = events[-1].seq
                return events
            await asyncio.sleep(POLL_S)


class ReaderInbox(NatsInbox):
    """What the Discord edge announces, read with a consumer that a service creates for it."""

    def __init__(self, nc: Client, reader: str) -> None:
        super().__init__(nc, edge_inbox_config())
        self._reader = reader
        self._pull.create = self._create_consumer

    async def _consumer_settings(self) -> Settings:
        return {} if self._position is None else self._delivery_start(self._position)

    async def _create_consumer(self, settings: Settings) -> str:
        first = settings.get("opt_start_seq")
        after = first - 1 if isinstance(first, int) else None
        response = await _ask(self._nc, self._reader, INBOX, InboxRequest(after), InboxResponse)
        self._position = max(self._position or 0, response.after)
        return EDGE_CONSUMER

    async def _find_event(self, seq: int) -> RecordedEvent:
        page = await retry_request(
            self._nc,
            lambda: _ask(self._nc, self._reader, EVENT, EventRequest(seq), EventPage),
            ATTEMPT_S_MAX,
        )
        if not page.events:
            raise UnreadableMessage(f"there is no event {seq}")
        return read_event(seq, bytes(page.events[0][1]))


async def forget_inbox(nc: Client, reader: str) -> None:
    """Delete the place up to which events were announced. Errors: Failed."""
    await retry_request(nc, lambda: _ask(nc, reader, FORGET, None, type(None)))
