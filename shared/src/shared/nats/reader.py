"""Reads the log in a process of its own, and hands it on through a pipe, many events at a time.

`python -m shared.nats.reader` is told what to read on the first line of its input, and ends with
the input, which whoever started it holds open for as long as he lives.
"""

import asyncio
import logging
import os
import sys
from contextlib import suppress

import msgspec
from nats.aio.client import Client

from shared.errors import Failed
from shared.event_log import Gap
from shared.nats.bulk import BulkReader
from shared.nats.connection import connect
from shared.nats.feed import NatsFeed, Raw
from shared.nats.pull import create_consumer
from shared.nats.requests import patiently
from shared.subjects import STREAM

# So many events, 64 MiB at most, go through the pipe at once.
EVENTS_MAX = 250
LENGTH_BYTES = 4
PORT = 4222
INPUT, OUTPUT = 0, 1


class Asked(msgspec.Struct):
    """What to read: the log at a URL, after a sequence, under the name of who reads."""

    url: str
    name: str
    after: int


class Frame(msgspec.Struct, array_like=True):
    """The next events and how many follow them, or why there are no more."""

    events: list[Raw] = []
    behind: int = 0
    gap: str | None = None
    failed: str | None = None


def main() -> None:
    """Read until nobody wants it any more."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    asked = msgspec.json.decode(sys.stdin.buffer.readline(), type=Asked)
    with suppress(BrokenPipeError, asyncio.CancelledError):
        asyncio.run(_run(asked))


async def _run(asked: Asked) -> None:
    reading = asyncio.create_task(_read(asked))
    # The rest of the input is its end: who started us is gone, however that came.
    asyncio.get_running_loop().add_reader(INPUT, reading.cancel)
    try:
        await reading
    except Gap as gap:
        _hand_on(Frame(gap=str(gap)))
    except Failed as failed:
        _hand_on(Frame(failed=str(failed)))


async def _read(asked: Asked) -> None:
    nc = await connect(asked.url, asked.name)
    feed = NatsFeed(nc, await _read_in_bulk(nc, asked))
    while True:
        events = await feed.raw(EVENTS_MAX)
        # A full pipe makes us wait, but the server is to be answered meanwhile.
        await asyncio.to_thread(_hand_on, Frame(events, feed.behind))


async def _read_in_bulk(nc: Client, asked: Asked) -> int:
    """Hand on what the log has by now; how far that came. Errors: Gap; Failed."""
    feed = NatsFeed(nc, asked.after)
    settings = await patiently(nc, feed.settings)
    server = nc.connected_url
    if not feed.behind or server is None:
        return asked.after
    consumer = await patiently(nc, lambda: create_consumer(nc, STREAM, settings))
    address = server.hostname or "", server.port or PORT
    bulk = BulkReader(asked.url, address, consumer, nc.new_inbox(), asked.after)
    try:
        await asyncio.to_thread(bulk.read, _hand_on_events)
    finally:
        bulk.stop()
    return bulk.last


def _hand_on_events(events: list[Raw], behind: int) -> None:
    for at in range(0, len(events), EVENTS_MAX):
        part = events[at : at + EVENTS_MAX]
        _hand_on(Frame(part, behind + len(events) - at - len(part)))


def _hand_on(frame: Frame) -> None:
    body = msgspec.msgpack.encode(frame)
    rest = memoryview(len(body).to_bytes(LENGTH_BYTES) + body)
    while rest:
        rest = rest[os.write(OUTPUT, rest) :]


if __name__ == "__main__":
    main()
