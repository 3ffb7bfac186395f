"""What a scrub reads of a damaged log, and what a repair changes; nobody else may write then."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.errors import Failed
from shared.event_log import RecordedEvent
from shared.nats.connection import (
    PAGE,
    RequestDenied,
    StoredMessage,
    TemporaryError,
    api_request,
    get_message,
    publish,
    read_page,
    retry_request,
)
from shared.nats.event_log import LOOK, MessageDraft, publish_batch, read_stored_event
from shared.nats.pull import create_consumer, delivery_start, list_durable_consumers
from shared.nats.streams import Settings, ensure_streams, read_known_seq, stream_info, stream_state
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
            if denied.code not in LOOK or (await stream_state(nc, STREAM)).last_seq != end:
                raise

    await retry_request(nc, attempt)


NO_STREAM = 10059
# How many pages may stay unanswered before events are requested one by one.
SILENT_PAGES_MAX = 3
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

    async def last_seq(self) -> int:
        """Return the last sequence of the log."""
        return (await retry_request(self._nc, partial(stream_state, self._nc, STREAM))).last_seq

    async def known_seq(self) -> int:
        """Return the last sequence that any service has seen."""
        return await retry_request(self._nc, partial(read_known_seq, self._nc))

    async def events(self, last_seq: int) -> AsyncIterator[RecordedEvent]:
        """Yield every readable event up to a sequence."""
        async for message in _scan_log(self._nc, last_seq):
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


async def _scan_log(nc: Client, last_seq: int) -> AsyncIterator[StoredMessage]:
    """Yield the events up to a sequence, without those that cannot be read.

    Errors: Failed if the server could not be reached in 30 s.
    """
    seq, silent_pages = 0, 0
    while seq < last_seq:
        messages: list[StoredMessage] = []
        if silent_pages < SILENT_PAGES_MAX:
            try:
                messages = await _read_page(nc, seq)
                silent_pages = 0
            except TimeoutError:
                # A server may not answer at all about a block that it cannot read.
                silent_pages += 1
        if not messages:
            messages, seq = await _read_one_by_one(nc, seq, last_seq)
        for message in messages:
            if message.seq <= last_seq:
                yield message
        seq = max(seq, messages[-1].seq if messages else 0)


async def _read_page(nc: Client, after: int) -> list[StoredMessage]:
    """Return the next events; none if the first of them cannot be read. Errors: TimeoutError."""
    messages: list[StoredMessage] = []
    query = {"seq": after + 1, "batch": PAGE, "next_by_subj": "events.>"}

    async def attempt() -> None:
        messages.clear()
        await read_page(nc, STREAM, msgspec.json.encode(query), messages)

    try:
        await attempt()
    except (TemporaryError, RequestDenied):
        await retry_request(nc, attempt)
    return messages


async def _read_one_by_one(
    nc: Client, after: int, last_seq: int
) -> tuple[list[StoredMessage], int]:
    """Return a page's worth of events, requested one by one, and the last sequence tried."""

    async def find_readable(seq: int) -> StoredMessage | None:
        try:
            return await get_message(nc, STREAM, {"seq": seq})
        except RequestDenied:
            return None

    end = min(after + PAGE, last_seq)
    messages = [
        await retry_request(nc, partial(find_readable, seq)) for seq in range(after + 1, end + 1)
    ]
    return [message for message in messages if message is not None], end
