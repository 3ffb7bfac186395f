"""A pull consumer read with our own requests: one inbox, one callback, and a watchdog."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared.errors import Failed
from shared.nats.connection import (
    MESSAGE_ID_HEADER,
    NO_CONSUMER,
    REQUEST_ERRORS,
    RETRY_S_MAX,
    RequestDenied,
    StoredMessage,
    TemporaryError,
    api_request,
    newest_message,
)
from shared.nats.streams import SECOND_NS, Settings

POLL_S = 0.25
LAST_PER_SUBJECT: Settings = {"deliver_policy": "last_per_subject"}
# The server deletes a consumer without a name after this long without a reader.
FORGOTTEN_S = 60
# The settings of a consumer that only reads, and is soon forgotten.
PASSING: Settings = {
    "ack_policy": "none",
    "mem_storage": True,
    "inactive_threshold": FORGOTTEN_S * SECOND_NS,
}
EXPIRES_HEARTBEATS = 6
HEARTBEAT = "100"
REQUEST_ENDED = ("404", "408")


class PullLimits(NamedTuple):
    """How many messages to request at once, how many may wait here, and the heartbeat interval."""

    batch: int = 1000
    waiting_max: int = 4000
    heartbeat_s: float = 5.0

    @property
    def next_request(self) -> bytes:
        """The body of a request for the next messages."""
        return msgspec.json.encode(
            {
                "batch": self.batch,
                "expires": int(EXPIRES_HEARTBEATS * self.heartbeat_s * SECOND_NS),
                "idle_heartbeat": int(self.heartbeat_s * SECOND_NS),
            }
        )


class AckFloor(msgspec.Struct):
    """Up to which message of the consumer, and of the stream, all are acknowledged."""

    consumer_seq: int
    stream_seq: int


class ConsumerInfo(msgspec.Struct):
    """A consumer as the server reports it: settings, and the number of messages by state."""

    name: str
    config: Settings
    ack_floor: AckFloor
    pending: int = msgspec.field(default=0, name="num_pending")
    unacknowledged: int = msgspec.field(default=0, name="num_ack_pending")
    redelivered: int = msgspec.field(default=0, name="num_redelivered")

    @property
    def acknowledged(self) -> int:
        """How many messages it has acknowledged, up to the first that it has not."""
        return self.ack_floor.consumer_seq


class _ConsumerPage(msgspec.Struct):
    total: int
    limit: int
    consumers: list[ConsumerInfo] | None = None


# A page of the server has 256 consumers.
CONSUMER_PAGES_MAX = 40
_decode_consumer = msgspec.json.Decoder(ConsumerInfo).decode


def delivery_start(seq: int) -> Settings:
    """Return the settings that start a new consumer at this sequence."""
    return {"deliver_policy": "by_start_sequence", "opt_start_seq": seq}


async def create_consumer(nc: Client, stream: str, settings: Settings) -> str:
    """Create a consumer with these settings, and return its name. Errors: those of the request."""
    durable = settings.get("durable_name")
    kind = f"DURABLE.CREATE.{stream}.{durable}" if durable else f"CREATE.{stream}"
    answer = await api_request(nc, f"CONSUMER.{kind}", {"stream_name": stream, "config": settings})
    return _decode_consumer(answer).name


async def find_consumer(nc: Client, stream: str, name: str) -> ConsumerInfo | None:
    """Return a durable consumer; None if there is none. Errors: those of the request."""
    try:
        return _decode_consumer(await api_request(nc, f"CONSUMER.INFO.{stream}.{name}"))
    except RequestDenied as denied:
        if denied.code != NO_CONSUMER:
            raise
        return None


async def list_durable_consumers(nc: Client, stream: str) -> list[ConsumerInfo]:
    """Return a stream's durable consumers. Errors: those of the request."""
    consumers: list[ConsumerInfo] = []
    offset = 0
    for _ in range(CONSUMER_PAGES_MAX):
        answer = await api_request(nc, f"CONSUMER.LIST.{stream}", {"offset": offset})
        page = msgspec.json.decode(answer, type=_ConsumerPage)
        consumers += page.consumers or []
        offset += page.limit
        if offset >= page.total:
            break
    return [consumer for consumer in consumers if consumer.config.get("durable_name")]


class PullConsumer:
    """Delivers the messages of one consumer to a callback as they arrive, through every outage.

    The server promises to send something every `heartbeat_s`. Silence for two of them, an error
    status or a reconnection leads to a new inbox, so that late messages of the old one are ignored,
    and `settings` is called for the consumer to continue with, which `create` then creates.
    """

    def __init__(
        self,
        nc: Client,
        stream: str,
        settings: Callable[[], Awaitable[Settings]],
        on_message: Callable[[Msg], None],
        pace: PullLimits,
    ) -> None:
        self._nc = nc
        self._stream = stream
        self._settings = settings
        self._on_message = on_message
        self._pace = pace
        self._arrived = asyncio.Event()
        self._subscription: Subscription | None = None
        self._requested = 0
        self._last_message_at = time.monotonic()
        self._failing_since: float | None = None
        self._is_broken = True
        self._reconnects = 0
        self._next_subject = ""
        self._inbox = ""
        self.begins = 0
        self.create: Callable[[Settings], Awaitable[str]] = partial(create_consumer, nc, stream)

    @property
    def is_whole(self) -> bool:
        """Whether the current consumer still serves us, as far as we know."""
        has_reconnected = self._nc.stats["reconnects"] != self._reconnects
        return self._nc.is_connected and not self._is_broken and not has_reconnected

    @property
    def silent_s(self) -> float:
        """For how long the server has sent nothing although it should have."""
        return (
            time.monotonic() - self._last_message_at if self._requested or self._is_broken else 0.0
        )

    async def turn(self, waiting: int, within_s: float = POLL_S) -> None:
        """Keep the consumer working, request more than the `waiting` messages, and wait a moment.

        Errors: Failed if the connection is closed, or no consumer could be started for 30 s.
        """
        self._arrived.clear()
        try:
            await self._ensure_consumer()
            await self._request_more(waiting)
            self._failing_since = None
        except REQUEST_ERRORS as error:
            self._is_broken = True
            self._fail_if_persistent(error)
        try:
            async with asyncio.timeout(within_s):
                await self._arrived.wait()
        except TimeoutError:
            return

    async def ask(self, waiting: int) -> None:
        """Request as many messages as may wait here beside the `waiting` ones; never fails."""
        if self._is_broken or not self._nc.is_connected:
            return
        try:
            await self._request_more(waiting)
        except nats.errors.Error:
            self._is_broken = True

    def begin_again(self) -> None:
        """Continue with a new consumer, for which `settings` is called."""
        self._is_broken = True

    async def close(self) -> None:
        """Stop reading; the server deletes a consumer without a name after a while."""
        self._is_broken = True
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._nc.is_closed:
            await subscription.unsubscribe()

    async def _request_more(self, waiting: int) -> None:
        while self._requested + waiting + self._pace.batch <= self._pace.waiting_max:
            if not self._requested:
                self._last_message_at = time.monotonic()
            self._requested += self._pace.batch
            request = self._pace.next_request
            await self._nc.publish(self._next_subject, request, reply=self._inbox)

    async def _ensure_consumer(self) -> None:
        if not self._nc.is_connected:
            raise TemporaryError("not connected")
        # The server sends heartbeats only while a request is open.
        silent_s = time.monotonic() - self._last_message_at
        is_silent = self._requested > 0 and silent_s > 2 * self._pace.heartbeat_s
        if not self.is_whole or is_silent:
            await self._start_consumer()

    async def _start_consumer(self) -> None:
        await self.close()
        self._reconnects = self._nc.stats["reconnects"]
        name = await self.create(await self._settings())
        self._next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}"
        self._inbox = self._nc.new_inbox()
        self._requested, self._last_message_at, self._is_broken = 0, time.monotonic(), False
        self.begins += 1
        self._subscription = await self._nc.subscribe(
            self._inbox, cb=self._handle_message, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def _handle_message(self, message: Msg) -> None:
        self._last_message_at = time.monotonic()
        headers = message.headers
        status = "" if message.data or not headers else headers.get("Status", "")
        if not status:
            self._requested -= 1
            self._on_message(message)
        elif headers and status != HEARTBEAT:
            unsent = int(headers.get("Nats-Pending-Messages") or 0)
            self._requested = max(0, self._requested - unsent)
            self._is_broken = self._is_broken or status not in REQUEST_ENDED
        self._arrived.set()

    def _fail_if_persistent(self, error: Exception) -> None:
        """Wait through an outage, but fail if a reachable server keeps refusing."""
        if self._nc.is_closed:
            raise Failed("the connection to NATS is closed") from error
        now = time.monotonic()
        if not self._nc.is_connected or self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > RETRY_S_MAX:
            reason = str(error) or "no answer"
            raise Failed(f"{self._stream} cannot be read: {reason}") from error


def _parse_reply(reply: str, place: int) -> int:
    """Parse a number in an acknowledgement subject, in the old form (9 tokens) or the new one."""
    tokens = reply.split(".")
    return int(tokens[place if len(tokens) == 9 else place + 2])


def stream_sequence(reply: str) -> int:
    """Parse the stream sequence in an acknowledgement subject.

    >>> stream_sequence("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4")
    17
    >>> stream_sequence("$JS.ACK.domain.hash.EVENTS.c.1.17.3.1795235741960636763.4.x")
    17
    """
    return _parse_reply(reply, 5)


def consumer_sequence(reply: str) -> int:
    """Parse the consumer's own message count in an acknowledgement subject."""
    return _parse_reply(reply, 6)


def delivery_attempt(reply: str) -> int:
    """Parse how often a message was delivered so far, in an acknowledgement subject."""
    return _parse_reply(reply, 4)


def stored_at_s(reply: str) -> float:
    """Parse when the server stored a message, in seconds since 1970.

    >>> round(stored_at_s("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4"), 3)
    1795235741.961
    """
    return _parse_reply(reply, 7) / SECOND_NS


def pending_count(reply: str) -> int:
    """Parse how many messages the consumer still has to send.

    >>> pending_count("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4")
    4
    """
    return _parse_reply(reply, 8)


NEWEST_PACE = PullLimits(batch=500, waiting_max=1000, heartbeat_s=5.0)


async def read_newest_messages(
    nc: Client, stream: str, subject: str, *, headers_only: bool
) -> list[StoredMessage]:
    """Return the last message on each subject, in the stream's order, with their timestamps.

    Errors: Failed if the server could not be read for 30 s.
    """
    # With no messages at all, none would say that it is the last.
    if await newest_message(nc, stream, subject) is None:
        return []
    messages: dict[str, StoredMessage] = {}
    progress_at, is_complete = time.monotonic(), False

    async def settings() -> Settings:
        # A new consumer starts from the beginning; earlier messages are read again.
        messages.clear()
        query = {"filter_subject": subject, "headers_only": headers_only}
        return PASSING | LAST_PER_SUBJECT | query

    def handle_message(message: Msg) -> None:
        nonlocal progress_at, is_complete
        reply, headers = message.reply, message.headers or {}
        seq, at = stream_sequence(reply), datetime.fromtimestamp(stored_at_s(reply), UTC)
        size = int(headers.get("Nats-Msg-Size") or len(message.data))
        messages[message.subject] = StoredMessage(
            seq, headers.get(MESSAGE_ID_HEADER, ""), message.data, at, message.subject, size
        )
        progress_at, is_complete = time.monotonic(), pending_count(reply) == 0

    consumer = PullConsumer(nc, stream, settings, handle_message, NEWEST_PACE)
    try:
        while not is_complete:
            await consumer.turn(0)
            if time.monotonic() - progress_at > RETRY_S_MAX:
                raise Failed(f"the newest messages were not read in {RETRY_S_MAX:g} s")
    finally:
        await consumer.close()
    return sorted(messages.values(), key=lambda message: message.seq)
