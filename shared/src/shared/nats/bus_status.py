"""The state of the bus as the server reports it: its consumers, and the dead letters.

Dead letters are the server's own advisories, stored in the stream DEADLETTERS.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

import msgspec
from nats.aio.client import Client

from shared import subjects
from shared.bus import TOO_MANY_DELIVERIES, DeadLetter, open_dead_letters
from shared.errors import Failed
from shared.nats.connection import REQUEST_ERRORS
from shared.nats.event_log import NatsLog
from shared.nats.messages import read_pages
from shared.nats.pull import ConsumerInfo, list_durable_consumers
from shared.nats.streams import MAX_DELIVERIES_ADVISORY, stream_info, stream_state
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


class BusStatus(NamedTuple):
    """The size of the log, all dead letters ever, those not redriven, and all durable consumers."""

    events: int
    log_bytes: int
    dead_letters: int
    open_letters: int
    readers: list[ConsumerInfo]


@contextmanager
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
