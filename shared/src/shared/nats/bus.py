"""The bus on NATS: heartbeats in a bucket, messages that are not stored, and agents' inboxes.

And its state as the server reports it. Dead letters are the server's own advisories, stored in the
stream DEADLETTERS.
"""

import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.allowances import Allowance
from shared.bus import (
    TOO_MANY_DELIVERIES,
    AgentHeartbeat,
    DeadLetter,
    Inbox,
    open_dead_letters,
)
from shared.errors import Failed
from shared.nats.connection import (
    NO_CONSUMER,
    REQUEST_ERRORS,
    RETRY_S_MAX,
    RequestDenied,
    TemporaryError,
    api_request,
    publish,
    read_pages,
    retry_request,
)
from shared.nats.event_log import NatsLog
from shared.nats.inbox import InboxConfig, NatsInbox, agent_inbox_config
from shared.nats.pull import (
    LAST_PER_SUBJECT,
    PASSING,
    ConsumerInfo,
    PullConsumer,
    PullLimits,
    list_durable_consumers,
)
from shared.nats.streams import (
    LEASES_STREAM,
    MARKER_S,
    MAX_DELIVERIES_ADVISORY,
    Settings,
    ensure_leases,
    stream_info,
    stream_state,
)
from shared.subjects import DEADLETTERS, STREAM

PULL_LIMITS = PullLimits(batch=256, waiting_max=1024, heartbeat_s=5.0)
# How late a heartbeat may come.
LATE_S = 2.0
# Heartbeats per agent that a reader decodes: an honest agent sends a few per second at most.
BEATS_BURST, BEATS_PER_S = 100.0, 20.0
TTL_S_MAX = 600.0
TTL_S_DEFAULT = 15.0
_PREFIX = f"$KV.{subjects.LEASES}.agent."


class _HeartbeatWatcher:
    """What one watcher knows: the changes not yet yielded, and until when each agent lives.

    The server removes what expired without a word, so that nobody can remove the heartbeats of
    others (`shared.nats.streams`). So a silent agent is gone after its own time to live, counted
    while we are connected: from its last heartbeat, or from the last start of the consumer.
    Heartbeats that come too fast are dropped.
    """

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._changes: deque[AgentHeartbeat] = deque()
        self._ttl_s: dict[str, float] = {}
        self._expires_at: dict[str, float] = {}
        self._allowances: dict[str, Allowance] = {}
        self._pull = PullConsumer(
            nc, LEASES_STREAM, self._consumer_settings, self._handle_message, PULL_LIMITS
        )

    async def news(self) -> list[AgentHeartbeat]:
        """Return the changes within a moment, perhaps none."""
        if not self._changes:
            await self._pull.turn(0)
        if self._pull.is_whole:
            now = time.monotonic()
            expired = [agent for agent, at in self._expires_at.items() if at < now]
            for agent in expired:
                self._remove_agent(agent)
        news = list(self._changes)
        self._changes.clear()
        return news

    async def close(self) -> None:
        await self._pull.close()

    async def _consumer_settings(self) -> Settings:
        await ensure_leases(self._nc)
        now = time.monotonic()
        self._expires_at = {agent: now + ttl_s + LATE_S for agent, ttl_s in self._ttl_s.items()}
        return PASSING | LAST_PER_SUBJECT | {"filter_subject": f"{_PREFIX}>"}

    def _handle_message(self, message: Msg) -> None:
        agent = message.subject.removeprefix(_PREFIX)
        headers = message.headers or {}
        allowance = self._allowances.setdefault(agent, Allowance(BEATS_BURST, BEATS_PER_S))
        if not allowance.take():
            return
        if "KV-Operation" in headers:
            self._remove_agent(agent)
            return
        self._ttl_s[agent] = ttl_s = _parse_ttl(headers.get("Nats-TTL", ""))
        self._expires_at[agent] = time.monotonic() + ttl_s + LATE_S
        self._changes.append(AgentHeartbeat(agent, message.data))

    def _remove_agent(self, agent: str) -> None:
        self._ttl_s.pop(agent, None)
        if self._expires_at.pop(agent, None) is not None:
            self._changes.append(AgentHeartbeat(agent, None))


def _parse_ttl(ttl: str) -> float:
    """Parse the time to live in a heartbeat's header.

    >>> _parse_ttl("15s")
    15.0
    """
    number = ttl.removesuffix("s")
    return min(float(number), TTL_S_MAX) if number.isdecimal() else TTL_S_DEFAULT


TELL_BYTES_MAX = 64 * 1024
TTL = "Nats-TTL"


class NatsBus:
    """Heartbeats in the bucket LEASES, core NATS, and durable consumers of EVENTS."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        """Announce that an agent lives; see the port."""
        assert ttl_s >= 1, "the server counts in whole seconds"
        await self._put_heartbeat(agent, value, {TTL: f"{ttl_s}s"}, min(ttl_s, RETRY_S_MAX))

    async def leave(self, agent: str) -> None:
        """Announce that an agent leaves now; see the port."""
        headers = {"KV-Operation": "PURGE", TTL: f"{MARKER_S}s"}
        await self._put_heartbeat(agent, b"", headers, RETRY_S_MAX)

    async def beats(self) -> AsyncIterator[AgentHeartbeat]:
        """Yield every agent alive, then each change; see the port.

        Errors: Failed if the connection is closed, or the bucket cannot be read for 30 s.
        """
        watcher = _HeartbeatWatcher(self._nc)
        try:
            while True:
                for beat in await watcher.news():
                    yield beat
        finally:
            await watcher.close()

    async def tell(self, topic: str, data: bytes) -> None:
        """Publish to the current listeners; see the port."""
        if len(data) > TELL_BYTES_MAX:
            raise ValueError(f"{len(data)} bytes on {topic} are over {TELL_BYTES_MAX}")
        # Messages held back by a long outage may be lost: these are not stored anyway.
        with contextlib.suppress(nats.errors.OutboundBufferLimitError), _translate_closed():
            await self._nc.publish(topic, data)

    async def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield messages on a topic from the first iteration on, until the connection is closed."""
        with _translate_closed():
            subscription = await self._nc.subscribe(topic)
        try:
            async for message in subscription.messages:
                yield message.subject, message.data
        finally:
            if not self._nc.is_closed:
                await subscription.unsubscribe()

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """Open the inbox of an agent's runs; see the port."""
        return NatsInbox(self._nc, agent_inbox_config(agent, after))

    async def news(self, consumer: str, *aggregates: str) -> Inbox:
        """Subscribe to future events of aggregates, for an outbox; see the port."""
        return NatsInbox(self._nc, InboxConfig(consumer, aggregates, only_news=True))

    async def forget(self, consumer: str) -> None:
        """Delete the position of this name; see the port. Errors: Failed."""

        async def attempt() -> None:
            try:
                await api_request(self._nc, f"CONSUMER.DELETE.{subjects.STREAM}.{consumer}")
            except RequestDenied as denied:
                if denied.code != NO_CONSUMER:
                    raise

        await retry_request(self._nc, attempt)

    async def _put_heartbeat(
        self, agent: str, value: bytes, headers: dict[str, str], within_s: float
    ) -> None:
        subject = f"$KV.{subjects.LEASES}.{subjects.agent(agent)}"

        async def attempt() -> None:
            try:
                await publish(self._nc, subject, value, headers)
            except nats.errors.NoRespondersError as error:
                # A single server that restarted has lost the bucket, which is in memory.
                await self._create_leases_bucket()
                raise TemporaryError("the bucket of heartbeats was recreated") from error

        await retry_request(self._nc, attempt, within_s)

    async def _create_leases_bucket(self) -> None:
        await ensure_leases(self._nc)


@contextlib.contextmanager
def _translate_closed() -> Iterator[None]:
    try:
        yield
    except nats.errors.ConnectionClosedError as error:
        raise Failed("the connection to NATS is closed") from error


class _Advisory(msgspec.Struct):
    timestamp: datetime
    stream: str
    consumer: str
    stream_seq: int
    deliveries: int = 0
    reason: str = ""


class NatsDeadLetters:
    """The dead letters of the log's consumers; implements shared.bus.DeadLetters."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def list(self) -> list[DeadLetter]:
        """Return the dead letters not redriven since; see the port. Errors: Failed."""
        letters = []
        for message in await read_pages(self._nc, DEADLETTERS, f"{MAX_DELIVERIES_ADVISORY}.>"):
            advisory = msgspec.json.decode(message.data, type=_Advisory)
            letter = DeadLetter(
                consumer=advisory.consumer,
                stream=advisory.stream,
                seq=advisory.stream_seq,
                reason=advisory.reason or TOO_MANY_DELIVERIES,
                at=advisory.timestamp,
                deliveries=advisory.deliveries,
                place=advisory.stream_seq,
            )
            letters.append(letter)
        log, redrives = NatsLog(self._nc), []
        for consumer in sorted({letter.consumer for letter in letters}):
            redrives += await log.history(subjects.redriven(consumer))
        return open_dead_letters(letters, redrives)


class BusStatus(NamedTuple):
    """The size of the log, all dead letters ever, those not redriven, and all durable consumers."""

    events: int
    log_bytes: int
    dead_letters: int
    open_letters: int
    readers: list[ConsumerInfo]


@contextlib.contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (*REQUEST_ERRORS, msgspec.DecodeError) as error:
        raise Failed(f"cannot read {what}: {str(error) or 'no answer'}") from error


async def server_time(nc: Client) -> datetime:
    """Return the time at the server that leads the log. Errors: Failed."""
    with _translate_errors("the time of the NATS server"):
        return (await stream_info(nc, STREAM)).ts


async def read_bus_status(nc: Client) -> BusStatus:
    """Return the current state. Errors: Failed."""
    with _translate_errors("the state of NATS"):
        log, given_up = await stream_state(nc, STREAM), await stream_state(nc, DEADLETTERS)
        letters = await NatsDeadLetters(nc).list() if given_up.last_seq else []
        consumers = await list_durable_consumers(nc, STREAM)
        return BusStatus(log.last_seq, log.bytes, given_up.last_seq, len(letters), consumers)
