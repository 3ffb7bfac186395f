"""Every port twice: in memory, and on a real nats-server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple, Protocol

import pytest
from nats.aio.client import Client

from shared.blobs import BlobStore, PrunableBlobStore
from shared.bus import Bus, DeadLetters, DurableConsumers
from shared.bus_keys.login import BusLogin
from shared.clock import now
from shared.event_log import EventLog
from shared.nats.blobs import NatsBlobStore
from shared.nats.bus import NatsBus, NatsDeadLetters
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from tests.contracts.samples import JOB, api, new_event
from tests.support.memory import MemoryBlobStore, MemoryBus, MemoryDeadLetters, MemoryLog

Damage = Callable[[str, bytes], Awaitable[None]]


class FullBlobStore(BlobStore, PrunableBlobStore, Protocol):
    """A blob store as writers and as the garbage collector use it."""


class FullBus(Bus, DurableConsumers, Protocol):
    """A bus with the subscriptions of outboxes."""


class World(NamedTuple):
    """The ports of one implementation; `damage` puts other bytes under a digest.

    `later` returns the store of a writer whose clock is so many seconds ahead.
    """

    log: EventLog
    blobs: FullBlobStore
    bus: FullBus
    deadletters: DeadLetters
    damage: Damage
    later: Callable[[float], FullBlobStore]


@pytest.fixture
def url(request: pytest.FixtureRequest) -> BusLogin | str:
    """The test's own server, if it has one; else an account on the shared server."""
    if "own_nats" in request.fixturenames:
        server: NatsServer = request.getfixturevalue("own_nats")
        return server.login()
    shared_url: str = request.getfixturevalue("nats_url")
    return shared_url


@pytest.fixture
async def client(url: BusLogin | str) -> AsyncIterator[Client]:
    """A connection to the test's server, which has our streams."""
    nc = await connect(url, "test")
    await ensure_streams(nc)
    yield nc
    await nc.close()


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.server)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "memory":
        yield _in_memory()
        return
    nc = await connect(request.getfixturevalue("url"), "test")
    await ensure_streams(nc)

    async def damage(digest: str, data: bytes) -> None:
        await nc.request(f"blobs.{digest}", data, 2)

    def later(by_s: float) -> NatsBlobStore:
        return NatsBlobStore(nc, lambda: now() + timedelta(seconds=by_s))

    yield World(NatsLog(nc), NatsBlobStore(nc), NatsBus(nc), NatsDeadLetters(nc), damage, later)
    await nc.close()


def _in_memory() -> World:
    ahead = timedelta(0)
    log, blobs = MemoryLog(), MemoryBlobStore(lambda: now() + ahead)
    bus = MemoryBus(log)

    async def damage(digest: str, data: bytes) -> None:
        blobs.damage(digest, data)

    def later(by_s: float) -> MemoryBlobStore:
        nonlocal ahead
        ahead = timedelta(seconds=by_s)
        return blobs

    return World(log, blobs, bus, MemoryDeadLetters(log, bus), damage, later)


@pytest.fixture
def log(world: World) -> EventLog:
    return world.log


@pytest.fixture
def blobs(world: World) -> BlobStore:
    return world.blobs


@pytest.fixture
def bus(world: World) -> Bus:
    return world.bus


@pytest.fixture
async def brittle(client: Client) -> Client:
    """A log that can lose events: its stream allows deletion."""
    await api(client, "STREAM.DELETE.EVENTS", {})
    await api(client, "STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["events.>"]})
    for _ in range(4):
        await NatsLog(client).append(new_event(JOB, None))
    return client
