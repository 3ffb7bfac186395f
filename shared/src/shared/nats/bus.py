"""The bus on NATS: heartbeats in a bucket, words that pass, and the inboxes of agents."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import nats.errors
from nats.aio.client import Client

from shared import subjects
from shared.bus import Beat, Inbox
from shared.errors import Failed
from shared.nats.beats import lease_subject, watch
from shared.nats.inbox import NatsInbox, Reading, agent_reading
from shared.nats.requests import (
    NO_CONSUMER,
    PATIENCE_S_MAX,
    Denied,
    Passing,
    ask,
    patiently,
    publish,
)
from shared.nats.streams import MARKER_S, ensure_leases

TELL_BYTES_MAX = 64 * 1024
TTL = "Nats-TTL"


class NatsBus:
    """Heartbeats in the bucket LEASES, core NATS, and durable consumers of EVENTS."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def beat(self, agent: str, value: bytes, ttl_s: int) -> None:
        """Say that an agent lives; see the port."""
        assert ttl_s >= 1, "the server counts in seconds, from one on"
        await self._put(agent, value, {TTL: f"{ttl_s}s"}, min(ttl_s, PATIENCE_S_MAX))

    async def leave(self, agent: str) -> None:
        """Say that an agent goes, now; see the port."""
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub", TTL: f"{MARKER_S}s"}
        await self._put(agent, b"", headers, PATIENCE_S_MAX)

    def beats(self) -> AsyncIterator[Beat]:
        """First every agent alive, then each change; see the port."""
        return watch(self._nc)

    async def tell(self, topic: str, data: bytes) -> None:
        """Say something to whoever listens now; see the port."""
        if len(data) > TELL_BYTES_MAX:
            raise ValueError(f"{len(data)} bytes on {topic} are over {TELL_BYTES_MAX}")
        # What a long outage holds back may be lost: that is what a passing word is.
        with contextlib.suppress(nats.errors.OutboundBufferLimitError), _translated():
            await self._nc.publish(topic, data)

    async def hear(self, topic: str) -> AsyncIterator[tuple[str, bytes]]:
        """What is told on a topic from the first step on, until the connection is closed."""
        with _translated():
            subscription = await self._nc.subscribe(topic)
        try:
            async for message in subscription.messages:
                yield message.subject, message.data
        finally:
            if not self._nc.is_closed:
                await subscription.unsubscribe()

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """The inbox of an agent's runs; see the port."""
        return NatsInbox(self._nc, agent_reading(agent, after))

    async def news(self, consumer: str, *aggs: str) -> Inbox:
        """What aggregates say from now on, for an outbox; see the port."""
        return NatsInbox(self._nc, Reading(consumer, aggs, only_news=True))

    async def forget(self, consumer: str) -> None:
        """Have no place kept for this name; see the port. Errors: Failed."""

        async def once() -> None:
            try:
                await ask(self._nc, f"CONSUMER.DELETE.{subjects.STREAM}.{consumer}")
            except Denied as denied:
                if denied.code != NO_CONSUMER:
                    raise

        await patiently(self._nc, once)

    async def _put(
        self, agent: str, value: bytes, headers: dict[str, str], within_s: float
    ) -> None:
        async def once() -> None:
            try:
                await publish(self._nc, lease_subject(agent), value, headers)
            except nats.errors.NoRespondersError as error:
                # A single server that restarted has forgotten the bucket, for it is in memory.
                await self._make_leases()
                raise Passing("the bucket of heartbeats was made anew") from error

        await patiently(self._nc, once, within_s)

    async def _make_leases(self) -> None:
        await ensure_leases(self._nc)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except nats.errors.ConnectionClosedError as error:
        raise Failed("the connection to NATS is closed") from error
