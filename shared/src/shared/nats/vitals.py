"""How the bus and its readers are, as the server tells it; for metrics alone."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client

from shared.errors import Failed
from shared.nats.deadletters import NatsDeadLetters
from shared.nats.requests import Denied, Passing, ask
from shared.nats.streams import state
from shared.subjects import DEADLETTERS, STREAM

# A page of the server has 256 consumers.
PAGES_MAX = 40


class Reader(NamedTuple):
    """A durable consumer: what it was not sent yet, has in hand, got again, and is done with."""

    name: str
    pending: int
    unacknowledged: int
    redelivered: int
    acknowledged: int


class Vitals(NamedTuple):
    """The log's size, what was ever given up, what of it nobody redrove, and every named reader."""

    events: int
    log_bytes: int
    dead_letters: int
    open_letters: int
    readers: list[Reader]


class _Place(msgspec.Struct):
    consumer_seq: int


class _Config(msgspec.Struct):
    durable_name: str = ""


class _Consumer(msgspec.Struct):
    config: _Config
    num_pending: int
    num_ack_pending: int
    num_redelivered: int
    ack_floor: _Place


class _Page(msgspec.Struct):
    total: int
    limit: int
    consumers: list[_Consumer] | None = None


class _Size(msgspec.Struct):
    bytes: int
    last_seq: int


class _Info(msgspec.Struct):
    state: _Size


class _Time(msgspec.Struct):
    ts: datetime


async def server_time(nc: Client) -> datetime:
    """The time at the server that leads the log. Errors: Failed, if it says nothing."""
    try:
        return msgspec.json.decode(await ask(nc, f"STREAM.INFO.{STREAM}"), type=_Time).ts
    except (TimeoutError, Denied, Passing, nats.errors.Error, msgspec.DecodeError) as error:
        raise Failed(f"NATS does not say what time it is: {str(error) or 'no answer'}") from error


async def vitals(nc: Client) -> Vitals:
    """What the server says now. Errors: Failed, if it says nothing."""
    try:
        return await _vitals(nc)
    except (TimeoutError, Denied, Passing, nats.errors.Error) as error:
        raise Failed(f"NATS does not say how it is: {str(error) or 'no answer'}") from error


async def _vitals(nc: Client) -> Vitals:
    log = msgspec.json.decode(await ask(nc, f"STREAM.INFO.{STREAM}"), type=_Info).state
    given_up = await state(nc, DEADLETTERS)
    is_clean = not given_up.last_seq
    letters = [] if is_clean else await NatsDeadLetters(nc).list()
    return Vitals(log.last_seq, log.bytes, given_up.last_seq, len(letters), await _readers(nc))


async def _readers(nc: Client) -> list[Reader]:
    found: list[Reader] = []
    offset = 0
    for _ in range(PAGES_MAX):
        answer = await ask(nc, f"CONSUMER.LIST.{STREAM}", {"offset": offset})
        page = msgspec.json.decode(answer, type=_Page)
        found += _named(page.consumers or [])
        offset += page.limit
        if offset >= page.total:
            break
    return found


def _named(consumers: list[_Consumer]) -> Iterator[Reader]:
    for one in consumers:
        if one.config.durable_name:
            yield Reader(
                one.config.durable_name,
                one.num_pending,
                one.num_ack_pending,
                one.num_redelivered,
                one.ack_floor.consumer_seq,
            )
