"""What a scrub reads of a damaged log, and what a repair changes; nobody else may write then."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.errors import Failed
from shared.event_log import RecordedEvent
from shared.health import ScrubState
from shared.nats.batches import MessageDraft, publish_batch
from shared.nats.connection import (
    NO_STREAM,
    RequestDenied,
    api_request,
    publish,
    retry_request,
)
from shared.nats.event_log import MAY_BE_STORED, read_stored_event
from shared.nats.feed import decode_events
from shared.nats.pull import create_consumer, delivery_start, list_durable_consumers
from shared.nats.scrub import (
    get_readable,
    read_scrub_state,
    scan_log,
    scan_present,
    write_scrub_state,
)
from shared.nats.segments import NatsSegments, RawEvent
from shared.nats.streams import Settings, ensure_streams, read_known_seq, stream_info, stream_state
from shared.nats.truncation import read_truncation
from shared.segments import is_cut
from shared.subjects import STREAM, WATERMARKS


async def append_raw(nc: Client, events: Sequence[tuple[str, str, bytes]], after: int) -> None:
    """Store (subject, id, body) at the sequences after one, all or none; safe to repeat.

    Nobody else may write meanwhile. Errors: Failed, also if somebody did.
    """
    drafts = [MessageDraft(subject, id_, body, None) for subject, id_, body in events]
    end = after + len(drafts)

    async def attempt() -> None:
        last_seq = (await stream_state(nc, STREAM)).last_seq
        if last_seq == end:
            return
        if last_seq != after:
            raise Failed(f"the log is at {last_seq}, not at {after}: somebody else is writing")
        try:
            if len(drafts) == 1:
                await publish(nc, *drafts[0].message)
            else:
                await publish_batch(nc, drafts)
        except RequestDenied as denied:
            # An answer was lost, and its batch was stored after we looked.
            if denied.code not in MAY_BE_STORED or (await stream_state(nc, STREAM)).last_seq != end:
                raise

    await retry_request(nc, attempt)


# Settings of a consumer that the server reports but does not accept back.
NOT_RESTORED = ("deliver_policy", "opt_start_seq", "opt_start_time", "metadata", "num_replicas")


class ConsumerPosition(msgspec.Struct):
    """A durable consumer of the log: its settings, and the last event it has acknowledged."""

    settings: Settings
    done_seq: int


class LogRepair:
    """The log, read around its damage, and replaced by an empty one. Errors: Failed."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self._segments = NatsSegments(nc)

    async def last_seq(self) -> int:
        """Return the last sequence of the log."""
        return (await retry_request(self._nc, partial(stream_state, self._nc, STREAM))).last_seq

    async def known_seq(self) -> int:
        """Return the last sequence that any service has seen."""
        return await retry_request(self._nc, partial(read_known_seq, self._nc))

    async def read_scrub_state(self) -> ScrubState:
        """Return what the newest scrub has stored."""
        return await retry_request(self._nc, partial(read_scrub_state, self._nc))

    async def write_scrub_state(self, state: ScrubState) -> None:
        """Store the state of a scrub for the monitors of all services."""
        await write_scrub_state(self._nc, state)

    async def events(self, last_seq: int, after: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield every readable event after one sequence and up to another.

        The histories that the stream has dropped are read from segments.
        """
        stream = await retry_request(self._nc, partial(stream_state, self._nc, STREAM))
        truncation = await retry_request(self._nc, partial(read_truncation, self._nc))
        is_whole = stream.messages == stream.last_seq
        dropped_until = 0 if is_whole else min(truncation.seq, last_seq)
        while after < dropped_until:
            events = await self._segments.after(after, dropped_until)
            async for event in self._complete(events, after):
                yield event
            after = events[-1][0]
        async for message in scan_log(self._nc, last_seq, after):
            yield read_stored_event(message)

    async def _complete(
        self, events: Sequence[RawEvent], after: int
    ) -> AsyncIterator[RecordedEvent]:
        """Yield the dropped ones of a segment's events, and the others as the stream has them."""
        present = scan_present(self._nc, events[-1][0], after)
        messages = {message.seq: message async for message in present}
        for event in events:
            seq, name, _ = event
            if is_cut(name):
                (recorded,) = decode_events([event])
                yield recorded
            elif message := messages.get(seq) or await get_readable(self._nc, seq):
                yield read_stored_event(message)

    async def read_places(self) -> Sequence[ConsumerPosition]:
        """Return the position of every durable consumer of the log."""
        consumers = await retry_request(self._nc, partial(list_durable_consumers, self._nc, STREAM))
        return [
            ConsumerPosition(consumer.config, consumer.ack_floor.stream_seq)
            for consumer in consumers
        ]

    async def restore_places(self, places: Sequence[ConsumerPosition]) -> None:
        """Recreate missing durable consumers at their positions; safe to repeat."""
        existing = {place.settings["durable_name"] for place in await self.read_places()}
        for place in places:
            if place.settings["durable_name"] in existing:
                continue
            settings = {
                key: value for key, value in place.settings.items() if key not in NOT_RESTORED
            }
            settings |= delivery_start(place.done_seq + 1)
            await retry_request(self._nc, partial(create_consumer, self._nc, STREAM, settings))

    async def replace(self) -> None:
        """Delete the log, with everything in it, and create an empty one."""
        replicas = 1

        async def delete() -> None:
            nonlocal replicas
            try:
                replicas = (await stream_info(self._nc, STREAM)).replicas
                await api_request(self._nc, f"STREAM.DELETE.{STREAM}")
            except RequestDenied as denied:
                if denied.code != NO_STREAM:
                    raise

        await retry_request(self._nc, delete)
        await ensure_streams(self._nc, replicas)

    async def append(self, events: Sequence[tuple[str, str, bytes]], after: int) -> None:
        """Store (subject, id, body) at the sequences after one, all or none."""
        await append_raw(self._nc, events, after)

    async def forget_known_seq(self) -> None:
        """Allow the log to be shorter than it was, if a repair could not restore its end."""
        await retry_request(self._nc, lambda: api_request(self._nc, f"STREAM.PURGE.{WATERMARKS}"))
