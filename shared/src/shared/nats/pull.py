"""A pull consumer read with requests of our own: one inbox, one callback, and a watchdog."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared.errors import Failed
from shared.nats.requests import PATIENCE_S_MAX, Denied, Passing, ask
from shared.nats.streams import SECOND_NS, Settings

POLL_S = 0.25
EXPIRES_HEARTBEATS = 6
HEARTBEAT = "100"
REQUEST_OVER = ("404", "408")


class Pace(NamedTuple):
    """How much is asked for at once, how much may wait here, how often the server must speak."""

    batch: int = 1000
    waiting_max: int = 4000
    heartbeat_s: float = 5.0


class _Consumer(msgspec.Struct):
    name: str


Create = Callable[[Settings], Awaitable[str]]


async def create_consumer(nc: Client, stream: str, settings: Settings) -> str:
    """Have a consumer with these settings, and return its name. Errors: Denied, Passing."""
    durable = settings.get("durable_name")
    kind = f"DURABLE.CREATE.{stream}.{durable}" if durable else f"CREATE.{stream}"
    answer = await ask(nc, f"CONSUMER.{kind}", {"stream_name": stream, "config": settings})
    return msgspec.json.decode(answer, type=_Consumer).name


class Pull:
    """Messages of one consumer, handed to a callback as they come, through every outage.

    The server promises to speak every `heartbeat_s`. Silence for two of them, an error status or
    a reconnection makes a new inbox, so that late messages of the old one are not ours, and asks
    `settings` for the consumer to go on with, which `create` then makes.
    """

    def __init__(
        self,
        nc: Client,
        stream: str,
        settings: Callable[[], Awaitable[Settings]],
        on_message: Callable[[Msg], None],
        pace: Pace,
    ) -> None:
        self._nc = nc
        self._stream = stream
        self._settings = settings
        self._on_message = on_message
        self._pace = pace
        self._news = asyncio.Event()
        self._subscription: Subscription | None = None
        self._asked = 0
        self._heard_at = time.monotonic()
        self._failing_since: float | None = None
        self._is_broken = True
        self._reconnects = 0
        self._next = ""
        self._inbox = ""
        self.begins = 0
        self.create: Create = partial(create_consumer, nc, stream)

    @property
    def is_whole(self) -> bool:
        """Whether the consumer at hand still serves us, as far as we know."""
        has_reconnected = self._nc.stats["reconnects"] != self._reconnects
        return self._nc.is_connected and not self._is_broken and not has_reconnected

    @property
    def silent_s(self) -> float:
        """For how long the server has said nothing, though it owes us a word."""
        return time.monotonic() - self._heard_at if self._asked or self._is_broken else 0.0

    async def turn(self, waiting: int, within_s: float = POLL_S) -> None:
        """Be whole, ask for more than the `waiting` messages, give them a moment to come.

        Errors: Failed when the connection is closed, or the server let us begin no more for 30 s.
        """
        self._news.clear()
        try:
            await self._tend()
            await self._ask(waiting)
            self._failing_since = None
        except (TimeoutError, Denied, Passing, nats.errors.Error) as error:
            self._is_broken = True
            self._complain(error)
        try:
            async with asyncio.timeout(within_s):
                await self._news.wait()
        except TimeoutError:
            return

    async def ask(self, waiting: int) -> None:
        """Ask ahead for as many messages as may wait here beside the `waiting`; never fails."""
        if self._is_broken or not self._nc.is_connected:
            return
        try:
            await self._ask(waiting)
        except nats.errors.Error:
            self._is_broken = True

    async def close(self) -> None:
        """Stop reading; the server forgets a consumer without a name after a while."""
        self._is_broken = True
        subscription, self._subscription = self._subscription, None
        if subscription is not None and not self._nc.is_closed:
            await subscription.unsubscribe()

    async def _ask(self, waiting: int) -> None:
        request = msgspec.json.encode(
            {
                "batch": self._pace.batch,
                "expires": int(EXPIRES_HEARTBEATS * self._pace.heartbeat_s * SECOND_NS),
                "idle_heartbeat": int(self._pace.heartbeat_s * SECOND_NS),
            }
        )
        while self._asked + waiting + self._pace.batch <= self._pace.waiting_max:
            if not self._asked:
                self._heard_at = time.monotonic()
            self._asked += self._pace.batch
            await self._nc.publish(self._next, request, reply=self._inbox)

    async def _tend(self) -> None:
        if not self._nc.is_connected:
            raise Passing("not connected")
        if not self.is_whole or self._is_silent():
            await self._begin()

    def _is_silent(self) -> bool:
        # The server speaks only while it owes an answer.
        silent_s = time.monotonic() - self._heard_at
        return self._asked > 0 and silent_s > 2 * self._pace.heartbeat_s

    async def _begin(self) -> None:
        await self.close()
        self._reconnects = self._nc.stats["reconnects"]
        name = await self.create(await self._settings())
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{name}"
        self._inbox = self._nc.new_inbox()
        self._asked, self._heard_at, self._is_broken = 0, time.monotonic(), False
        self.begins += 1
        self._subscription = await self._nc.subscribe(
            self._inbox, cb=self._on, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def _on(self, message: Msg) -> None:
        self._heard_at = time.monotonic()
        headers = message.headers
        if headers and "Status" in headers and not message.data:
            self._on_status(headers)
        else:
            self._asked -= 1
            self._on_message(message)
        self._news.set()

    def _on_status(self, headers: dict[str, str]) -> None:
        if headers["Status"] == HEARTBEAT:
            return
        self._asked = max(0, self._asked - int(headers.get("Nats-Pending-Messages") or 0))
        self._is_broken = self._is_broken or headers["Status"] not in REQUEST_OVER

    def _complain(self, error: Exception) -> None:
        """Wait on through an outage, but not where a server that is there keeps saying no."""
        if self._nc.is_closed:
            raise Failed("the connection to NATS is closed") from error
        now = time.monotonic()
        if not self._nc.is_connected or self._failing_since is None:
            self._failing_since = now
        elif now - self._failing_since > PATIENCE_S_MAX:
            reason = str(error) or "no answer"
            raise Failed(f"{self._stream} cannot be read: {reason}") from error


def stream_sequence(reply: str) -> int:
    """The stream sequence in an acknowledgement subject, in its old form (9 tokens) or its new.

    >>> stream_sequence("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4")
    17
    >>> stream_sequence("$JS.ACK.domain.hash.EVENTS.c.1.17.3.1795235741960636763.4.x")
    17
    """
    tokens = reply.split(".")
    return int(tokens[5 if len(tokens) == 9 else 7])


def consumer_sequence(reply: str) -> int:
    """The consumer's own count of its messages, in an acknowledgement subject.

    >>> consumer_sequence("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4")
    3
    """
    tokens = reply.split(".")
    return int(tokens[6 if len(tokens) == 9 else 8])


def attempt(reply: str) -> int:
    """How often a consumer has sent a message by now, in an acknowledgement subject.

    >>> attempt("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4")
    1
    """
    tokens = reply.split(".")
    return int(tokens[4 if len(tokens) == 9 else 6])


def sent_at(reply: str) -> float:
    """When the server stored a message, in seconds since 1970, in an acknowledgement subject.

    >>> round(sent_at("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4"), 3)
    1795235741.961
    """
    tokens = reply.split(".")
    return int(tokens[7 if len(tokens) == 9 else 9]) / SECOND_NS


def held_back(reply: str) -> int:
    """How many messages the consumer had still to send, in an acknowledgement subject.

    >>> held_back("$JS.ACK.EVENTS.c.1.17.3.1795235741960636763.4")
    4
    """
    tokens = reply.split(".")
    return int(tokens[8 if len(tokens) == 9 else 10])
