"""The log with its segments, for what exports it and truncates the stream behind them."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from nats.aio.client import Client

from shared.health import StreamState
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import api_request, retry_request
from shared.nats.event_log import NatsLog
from shared.nats.pull import list_durable_consumers
from shared.nats.repair import LogRepair
from shared.nats.segments import NatsSegments
from shared.nats.streams import stream_info, stream_state
from shared.nats.truncation import Truncation, read_truncation
from shared.segments import CUT_KINDS, is_cut
from shared.subjects import STREAM, agent_inbox, aggregate, subject


class WaitingConsumer(NamedTuple):
    """A durable consumer that has not delivered everything, and up to where it has."""

    name: str
    seq: int


class NatsSegmentedLog:
    """The log, its segments and their blobs. Errors of all methods: Failed."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self.log = NatsLog(nc)
        self.repair = LogRepair(nc)
        self.segments = NatsSegments(nc)
        self.blobs = NatsBlobStore(nc)

    async def truncation(self) -> Truncation:
        """Return how far the stream was truncated."""
        return await retry_request(self._nc, partial(read_truncation, self._nc))

    async def state(self) -> StreamState:
        """Return the state of the stream."""
        return await retry_request(self._nc, partial(stream_state, self._nc, STREAM))

    async def can_drop(self) -> bool:
        """Return whether the stream allows purges; one that was made without them never does."""
        info = await retry_request(self._nc, partial(stream_info, self._nc, STREAM))
        return not info.config.get("deny_purge")

    async def drop(self, until: int) -> None:
        """Drop all events of submissions, jobs and runs up to a sequence; safe to repeat."""
        for kind in CUT_KINDS:
            body = {"filter": subject(f"{kind}.>"), "seq": until + 1}
            purge = partial(api_request, self._nc, f"STREAM.PURGE.{STREAM}", body)
            await retry_request(self._nc, purge)

    async def waiting_consumers(self) -> Sequence[WaitingConsumer]:
        """Return the durable consumers that would miss events which may be dropped.

        Orders of runs that are over need not reach their agents.
        """
        consumers = await retry_request(self._nc, partial(list_durable_consumers, self._nc, STREAM))
        waiting = []
        for consumer in consumers:
            filters = consumer.config.get("filter_subjects")
            if not isinstance(filters, list):
                filters = [consumer.config.get("filter_subject") or subject(">")]
            is_affected = any(
                is_cut(aggregate(str(name))) or name == subject(">") for name in filters
            )
            is_waiting = consumer.pending > 0 or consumer.unacknowledged > 0
            if is_affected and is_waiting and not consumer.name.startswith(agent_inbox("")):
                waiting.append(WaitingConsumer(consumer.name, consumer.ack_floor.stream_seq))
        return waiting

    async def is_whole(self) -> bool:
        """Return whether the stream has every event from 1 on."""
        state = await self.state()
        return state.messages == state.last_seq
