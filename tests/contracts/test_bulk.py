"""The bare connection reads what the client reads, and stops at anything unexpected."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from shared.bus_keys.login import BusLogin
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.feed import NatsFeed
from shared.nats.pull import create_consumer
from shared.nats.segments import RawEvent
from shared.nats.streams import ensure_streams
from shared.nats.subprocess_feed import BulkReader
from shared.servers.nats import NatsServer
from shared.subjects import STREAM
from tests.contracts.samples import RUN, new_event
from tests.support.waits import eventually

pytestmark = pytest.mark.server
COUNT = 6000
BATCH = 1000


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    """A server with a log."""
    running = NatsServer(tmp_path / "bulk")
    running.start()
    nc = await connect(running.login(), "test")
    await ensure_streams(nc)
    for first in range(0, COUNT, BATCH):
        await NatsLog(nc).append_all(
            [new_event(RUN, first), *(new_event(RUN, None) for _ in range(BATCH - 1))]
        )
    yield running
    await nc.close()
    running.stop()


@pytest.fixture
async def nc(server: NatsServer) -> AsyncIterator[Client]:
    connection = await connect(server.login(), "test")
    yield connection
    await connection.close()


async def reader_of(nc: Client, login: BusLogin, after: int) -> BulkReader:
    consumer = await create_consumer(nc, STREAM, await NatsFeed(nc, after).settings())
    address = nc.connected_url
    assert address is not None
    assert address.hostname is not None
    assert address.port is not None
    return BulkReader(login, (address.hostname, address.port), consumer, nc.new_inbox(), after)


async def test_it_reads_all_that_the_client_reads_byte_for_byte(
    nc: Client, server: NatsServer
) -> None:
    reader, read_events = await reader_of(nc, server.login(), 7), list[RawEvent]()
    held_back: list[int] = []

    def keep(events: list[RawEvent], behind: int) -> None:
        read_events.extend(events)
        held_back.append(behind)

    await asyncio.to_thread(reader.read, keep)
    assert (reader.last, held_back[-1]) == (COUNT, 0)
    assert held_back == sorted(held_back, reverse=True)
    feed, expected = NatsFeed(nc, 7), list[RawEvent]()
    while len(expected) < COUNT - 7:
        expected += await feed.raw(BATCH)
    await feed.close()
    assert read_events == expected


async def test_a_server_that_is_killed_leaves_a_place_to_go_on_from(
    nc: Client, server: NatsServer
) -> None:
    reader, read_events = await reader_of(nc, server.login(), 0), list[RawEvent]()
    go_on = threading.Event()

    def keep(events: list[RawEvent], _behind: int) -> None:
        read_events.extend(events)
        go_on.wait(30)

    reading = asyncio.create_task(asyncio.to_thread(reader.read, keep))
    await eventually(lambda: read_events)
    server.stop()
    go_on.set()
    await asyncio.wait_for(reading, 30)
    assert [seq for seq, _, _ in read_events] == list(range(1, reader.last + 1))
    server.start()


async def test_it_stops_at_a_gap(nc: Client, server: NatsServer) -> None:
    reader = await reader_of(nc, server.login(), 10)
    reader.last = reader._parsed = 9
    await asyncio.to_thread(reader.read, lambda _events, _behind: None)
    assert reader.last == 9


async def test_it_stops_when_it_is_told_to(nc: Client, server: NatsServer) -> None:
    reader = await reader_of(nc, server.login(), 0)

    def stop(_events: list[RawEvent], _behind: int) -> None:
        reader.stop()

    await asyncio.wait_for(asyncio.to_thread(reader.read, stop), 30)
    assert 0 < reader.last <= COUNT
    consumer = "no-such-consumer"
    lost = BulkReader(server.login(), reader._address, consumer, nc.new_inbox(), 0)
    await asyncio.wait_for(asyncio.to_thread(lost.read, stop), 30)
    assert lost.last == 0
