"""What is known about damage of the log that nats-server does not count.

A server reads an old file only when somebody asks for one of its events. An event that fails its
checksum then is left out without a word, while the number of messages stays right. So each service
reads the newest part of the log at its start, and ranker slowly compares all of it with the
archive; its findings are one message, which every service reads.
"""

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec
from nats.aio.client import Client

from shared.health import ScrubState, StreamState
from shared.nats.connection import (
    PAGE,
    RequestDenied,
    StoredMessage,
    TemporaryError,
    get_message,
    publish,
    read_page,
    retry_request,
)
from shared.subjects import STREAM, WATERMARKS

# What is read at a start: the server was perhaps killed while it wrote the last files of 8 MB.
NEWEST_EVENTS = 10_000
NEWEST_BYTES = 16 * 1024 * 1024
# How many events in a row that a page lacks are requested from the stream's leader, one by one.
REQUESTED_MAX = 100
# How many pages may stay unanswered before events are requested one by one.
SILENT_PAGES_MAX = 3
SUBJECT = "watermarks.scrub"


async def read_scrub_state(nc: Client) -> ScrubState:
    """Return what the newest scrub has stored, trying once. Errors: those of the request."""
    message = await get_message(nc, WATERMARKS, {"last_by_subj": SUBJECT})
    return ScrubState() if message is None else msgspec.json.decode(message.data, type=ScrubState)


async def write_scrub_state(nc: Client, state: ScrubState) -> None:
    """Store the state of a scrub for every service. Errors: Failed."""
    data = msgspec.json.encode(state)
    await retry_request(nc, lambda: publish(nc, SUBJECT, data, {}))


async def find_unreadable(nc: Client, stream: StreamState, dropped_until: int = 0) -> list[int]:
    """Return the sequences in the newest part of the log that the server cannot read.

    It may have dropped some up to a sequence. Errors: Failed.
    """
    size = max(1, stream.bytes // max(1, stream.messages))
    after = max(dropped_until, stream.last_seq - min(NEWEST_EVENTS, NEWEST_BYTES // size))
    missing = set(range(after + 1, stream.last_seq + 1))
    async for message in scan_log(nc, stream.last_seq, after):
        missing.discard(message.seq)
    return sorted(missing)


async def find_still_unreadable(nc: Client, seqs: Sequence[int]) -> Sequence[int]:
    """Return the events that still cannot be read; all if none of the first 100 can.

    Errors: Failed.
    """
    requested = seqs[:REQUESTED_MAX]
    missing = [seq for seq in requested if await get_readable(nc, seq) is None]
    return seqs if len(missing) == len(requested) else missing


async def scan_log(nc: Client, last_seq: int, after: int = 0) -> AsyncIterator[StoredMessage]:
    """Yield the events after one sequence and up to another, without those that cannot be read.

    Errors: Failed if the server could not be reached in 30 s.
    """
    seq, silent_pages = after, 0
    while seq < last_seq:
        messages: list[StoredMessage] = []
        end = min(seq + PAGE, last_seq)
        if silent_pages < SILENT_PAGES_MAX:
            try:
                messages = await _read_page(nc, seq)
                silent_pages = 0
            except TimeoutError:
                # A server may not answer at all about a block that it cannot read.
                silent_pages += 1
        if messages:
            end = messages[-1].seq
            messages = await _fill_gaps(nc, seq, messages, last_seq)
        else:
            messages = await _read_one_by_one(nc, seq, end)
        for message in messages:
            if message.seq <= last_seq:
                yield message
        seq = end


async def scan_present(nc: Client, last_seq: int, after: int) -> AsyncIterator[StoredMessage]:
    """Yield what a page shows of the events after one sequence and up to another.

    Of a truncated part of the log that is much less than all. Errors: Failed; TimeoutError.
    """
    seq = after
    while seq < last_seq and (messages := await _read_page(nc, seq)):
        for message in messages:
            if message.seq <= last_seq:
                yield message
        seq = messages[-1].seq


async def get_readable(nc: Client, seq: int) -> StoredMessage | None:
    """Return an event as the leader has it; None if it cannot be read. Errors: Failed."""

    async def attempt() -> StoredMessage | None:
        try:
            return await get_message(nc, STREAM, {"seq": seq})
        except RequestDenied:
            return None

    return await retry_request(nc, attempt)


async def _fill_gaps(
    nc: Client, after: int, messages: Iterable[StoredMessage], last_seq: int
) -> list[StoredMessage]:
    """Add what a page lacks but the leader has: on a cluster any replica answers a page."""
    filled, seq = list[StoredMessage](), after
    for message in messages:
        gap_end = min(message.seq - 1, seq + REQUESTED_MAX, last_seq)
        filled += await _read_one_by_one(nc, seq, gap_end)
        filled.append(message)
        seq = message.seq
    return filled


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


async def _read_one_by_one(nc: Client, after: int, end: int) -> list[StoredMessage]:
    """Return the readable events after one sequence and up to another, as the leader has them."""
    messages = [await get_readable(nc, seq) for seq in range(after + 1, end + 1)]
    return [message for message in messages if message is not None]
