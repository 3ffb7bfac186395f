"""Read stored messages: all of a filter page by page, or the newest of every subject."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import Failed
from shared.nats.connection import (
    ATTEMPT_S_MAX,
    MESSAGE_ID_HEADER,
    RETRY_S_MAX,
    SUBJECT_HEADER,
    StoredMessage,
    TemporaryError,
    get_message,
    request_message,
    retry_request,
)
from shared.nats.pull import PullConsumer, PullLimits, pending_count, stored_at_s, stream_sequence
from shared.nats.streams import SECOND_NS, Settings

PAGE = 256
END_OF_PAGE, NOTHING = "204", "404"


async def read_pages(nc: Client, stream: str, subject: str, after: int = 0) -> list[StoredMessage]:
    """Return the messages of a subject or a filter with wildcards, after a sequence, in order.

    On a cluster the newest may be missing for a moment, since any replica answers.

    Errors: Failed if the server could not be reached in 30 s, for any one page.
    """
    first = await retry_request(nc, lambda: _read_next(nc, stream, subject, after))
    if first is None:
        return []
    messages = [first]

    async def read_next_page() -> bool:
        query = {"seq": messages[-1].seq + 1, "batch": PAGE, "next_by_subj": subject}
        return await read_page(nc, stream, msgspec.json.encode(query), messages)

    while await retry_request(nc, read_next_page):
        continue
    return messages


async def _read_next(nc: Client, stream: str, subject: str, after: int) -> StoredMessage | None:
    """Read one message; mostly there is none, and then this is half the work of a page."""
    query = msgspec.json.encode({"seq": after + 1, "next_by_subj": subject})
    message = await request_message(nc, f"$JS.API.DIRECT.GET.{stream}", query)
    headers = message.headers or {}
    if "Status" not in headers:
        return _parse_message(headers, message.data)
    if headers["Status"] != NOTHING:
        raise TemporaryError(
            f"direct get answered {headers['Status']} {headers.get('Description', '')}"
        )
    return None


def _parse_message(headers: dict[str, str], data: bytes) -> StoredMessage:
    id_, seq = headers.get(MESSAGE_ID_HEADER, ""), int(headers["Nats-Sequence"])
    return StoredMessage(seq, id_, data, subject=headers[SUBJECT_HEADER])


async def read_page(nc: Client, stream: str, query: bytes, messages: list[StoredMessage]) -> bool:
    """Append the messages of one page to `messages` as they come; return whether there are more."""
    has_more: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def handle_message(message: Msg) -> None:
        headers = message.headers or {}
        if "Status" not in headers:
            messages.append(_parse_message(headers, message.data))
        elif not has_more.done():
            _finish_page(has_more, headers)

    inbox = nc.new_inbox()
    subscription = await nc.subscribe(inbox, cb=handle_message)
    try:
        await nc.publish(f"$JS.API.DIRECT.GET.{stream}", query, reply=inbox)
        async with asyncio.timeout(ATTEMPT_S_MAX):
            return await has_more
    finally:
        if not nc.is_closed:
            await subscription.unsubscribe()


def _finish_page(has_more: asyncio.Future[bool], headers: dict[str, str]) -> None:
    status = headers["Status"]
    if status in (END_OF_PAGE, NOTHING):
        has_more.set_result(int(headers.get("Nats-Num-Pending") or 0) > 0)
    else:
        has_more.set_exception(
            TemporaryError(f"direct get answered {status} {headers.get('Description', '')}")
        )


async def newest_message(nc: Client, stream: str, subject: str) -> StoredMessage | None:
    """Return the last message on a subject, as the stream's leader has it. Errors: Failed."""
    return await retry_request(nc, lambda: get_message(nc, stream, {"last_by_subj": subject}))


async def iter_messages(
    nc: Client, stream: str, subject: str, most: int
) -> AsyncIterator[StoredMessage]:
    """Yield the first messages on a subject or a filter, as the stream's leader has them.

    Errors: Failed.
    """
    seq = 0
    for _ in range(most):
        query: dict[str, object] = {"seq": seq + 1, "next_by_subj": subject}
        message = await retry_request(nc, partial(get_message, nc, stream, query))
        if message is None:
            return
        seq = message.seq
        yield message


PACE = PullLimits(batch=500, waiting_max=1000, heartbeat_s=5.0)
FORGOTTEN_S = 60


class NewestMessage(NamedTuple):
    """A message, with the server's timestamp; with `headers_only` it has no data."""

    subject: str
    seq: int
    at: datetime
    size: int
    data: bytes


async def read_newest_messages(
    nc: Client, stream: str, subject: str, *, headers_only: bool
) -> list[NewestMessage]:
    """Return the last message on each subject, in the stream's order.

    Errors: Failed if the server could not be read for 30 s.
    """
    # With no messages at all, none would say that it is the last.
    if await newest_message(nc, stream, subject) is None:
        return []
    reader = _NewestReader(nc, stream, subject, headers_only=headers_only)
    try:
        return await reader.all()
    finally:
        await reader.close()


class _NewestReader:
    def __init__(self, nc: Client, stream: str, subject: str, *, headers_only: bool) -> None:
        self._config: Settings = {
            "ack_policy": "none",
            "deliver_policy": "last_per_subject",
            "filter_subject": subject,
            "headers_only": headers_only,
            "mem_storage": True,
            "inactive_threshold": FORGOTTEN_S * SECOND_NS,
        }
        self._messages: dict[str, NewestMessage] = {}
        self._is_complete = False
        self._progress_at = 0.0
        self._pull = PullConsumer(nc, stream, self._consumer_settings, self._handle_message, PACE)

    async def all(self) -> list[NewestMessage]:
        self._progress_at = asyncio.get_running_loop().time()
        while not self._is_complete:
            await self._pull.turn(0)
            if asyncio.get_running_loop().time() - self._progress_at > RETRY_S_MAX:
                raise Failed(f"the newest messages were not read in {RETRY_S_MAX:g} s")
        return sorted(self._messages.values(), key=lambda message: message.seq)

    async def close(self) -> None:
        await self._pull.close()

    async def _consumer_settings(self) -> Settings:
        # A new consumer starts from the beginning; earlier messages are read again.
        self._messages.clear()
        return self._config

    def _handle_message(self, message: Msg) -> None:
        self._progress_at = asyncio.get_running_loop().time()
        reply, headers = message.reply, message.headers or {}
        size = int(headers.get("Nats-Msg-Size") or len(message.data))
        at = datetime.fromtimestamp(stored_at_s(reply), UTC)
        seq = stream_sequence(reply)
        self._messages[message.subject] = NewestMessage(
            message.subject, seq, at, size, message.data
        )
        self._is_complete = pending_count(reply) == 0
