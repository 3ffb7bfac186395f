"""The state of the bus as the server reports it: its consumers, and the dead letters.

Dead letters are the server's own advisories, stored in the stream DEADLETTERS.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client

from shared import subjects
from shared.bus import TOO_MANY_DELIVERIES, DeadLetter, open_dead_letters
from shared.errors import Failed
from shared.nats.connection import RequestDenied, TemporaryError, api_request
from shared.nats.event_log import NatsLog
from shared.nats.messages import read_pages
from shared.nats.streams import MAX_DELIVERIES_ADVISORY, stream_state
from shared.subjects import DEADLETTERS, STREAM


class _Advisory(msgspec.Struct):
    timestamp: datetime
    stream: str
    consumer: str
    stream_seq: int
    deliveries: int = 0
    reason: str = ""


_decode_advisory = msgspec.json.Decoder(_Advisory).decode


class NatsDeadLetters:
    """The dead letters of the log's consumers; implements shared.bus.DeadLetters."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def list(self) -> list[DeadLetter]:
        """Return the dead letters not redriven since; see the port. Errors: Failed."""
        messages = await read_pages(self._nc, subjects.DEADLETTERS, f"{MAX_DELIVERIES_ADVISORY}.>")
        letters = [_parse_letter(message.data) for message in messages]
        log, redrives = NatsLog(self._nc), []
        for consumer in sorted({letter.consumer for letter in letters}):
            redrives += await log.history(subjects.redriven(consumer))
        return open_dead_letters(letters, redrives)


def _parse_letter(body: bytes) -> DeadLetter:
    advisory = _decode_advisory(body)
    return DeadLetter(
        consumer=advisory.consumer,
        stream=advisory.stream,
        seq=advisory.stream_seq,
        reason=advisory.reason or TOO_MANY_DELIVERIES,
        at=advisory.timestamp,
        deliveries=advisory.deliveries,
        place=advisory.stream_seq,
    )


# A page of the server has 256 consumers.
PAGES_MAX = 40


class ConsumerStatus(NamedTuple):
    """A durable consumer: its pending, unacknowledged, redelivered and acknowledged messages."""

    name: str
    pending: int
    unacknowledged: int
    redelivered: int
    acknowledged: int


class BusStatus(NamedTuple):
    """The size of the log, all dead letters ever, those not redriven, and all durable consumers."""

    events: int
    log_bytes: int
    dead_letters: int
    open_letters: int
    readers: list[ConsumerStatus]


class _AckFloor(msgspec.Struct):
    consumer_seq: int


class _ConsumerConfig(msgspec.Struct):
    durable_name: str = ""


class _ConsumerInfo(msgspec.Struct):
    config: _ConsumerConfig
    num_pending: int
    num_ack_pending: int
    num_redelivered: int
    ack_floor: _AckFloor


class _ConsumerPage(msgspec.Struct):
    total: int
    limit: int
    consumers: list[_ConsumerInfo] | None = None


class _LogState(msgspec.Struct):
    bytes: int
    last_seq: int


class _LogInfo(msgspec.Struct):
    state: _LogState


class _ServerTime(msgspec.Struct):
    ts: datetime


async def server_time(nc: Client) -> datetime:
    """Return the time at the server that leads the log. Errors: Failed."""
    try:
        return msgspec.json.decode(
            await api_request(nc, f"STREAM.INFO.{STREAM}"), type=_ServerTime
        ).ts
    except (
        TimeoutError,
        RequestDenied,
        TemporaryError,
        nats.errors.Error,
        msgspec.DecodeError,
    ) as error:
        reason = str(error) or "no answer"
        raise Failed(f"cannot read the time of the NATS server: {reason}") from error


async def read_bus_status(nc: Client) -> BusStatus:
    """Return the current state. Errors: Failed."""
    try:
        return await _read_status(nc)
    except (TimeoutError, RequestDenied, TemporaryError, nats.errors.Error) as error:
        reason = str(error) or "no answer"
        raise Failed(f"cannot read the state of NATS: {reason}") from error


async def _read_status(nc: Client) -> BusStatus:
    log = msgspec.json.decode(await api_request(nc, f"STREAM.INFO.{STREAM}"), type=_LogInfo).state
    given_up = await stream_state(nc, DEADLETTERS)
    is_clean = not given_up.last_seq
    letters = [] if is_clean else await NatsDeadLetters(nc).list()
    return BusStatus(
        log.last_seq, log.bytes, given_up.last_seq, len(letters), await _read_consumers(nc)
    )


async def _read_consumers(nc: Client) -> list[ConsumerStatus]:
    consumers: list[ConsumerStatus] = []
    offset = 0
    for _ in range(PAGES_MAX):
        answer = await api_request(nc, f"CONSUMER.LIST.{STREAM}", {"offset": offset})
        page = msgspec.json.decode(answer, type=_ConsumerPage)
        consumers += [
            ConsumerStatus(
                consumer.config.durable_name,
                consumer.num_pending,
                consumer.num_ack_pending,
                consumer.num_redelivered,
                consumer.ack_floor.consumer_seq,
            )
            for consumer in page.consumers or []
            if consumer.config.durable_name
        ]
        offset += page.limit
        if offset >= page.total:
            break
    return consumers
