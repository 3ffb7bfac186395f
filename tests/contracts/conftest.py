"""Every port twice: in memory, and on a real nats-server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple, Protocol

import pytest
from nats.aio.client import Client

from shared.blobs import Attic, Blobs
from shared.bus import Bus, Durables
from shared.clock import now
from shared.deadletters import DeadLetters
from shared.event_log import EventLog
from shared.memory import MemoryBlobs, MemoryBus, MemoryDeadLetters, MemoryLog
from shared.nats.blobs import NatsBlobs
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.deadletters import NatsDeadLetters
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.servers.nats import NatsServer

Damage = Callable[[str, bytes], Awaitable[None]]


class Store(Blobs, Attic, Protocol):
    """Blobs as a writer and as the collector see them."""


class Wires(Bus, Durables, Protocol):
    """The bus, with the readings of outboxes."""


class World(NamedTuple):
    """The ports on one ground; `damage` puts other bytes under a digest.

    `later` is the store as a writer sees it whose clock is so many seconds ahead.
    """

    log: EventLog
    blobs: Store
    bus: Wires
    deadletters: DeadLetters
    damage: Damage
    later: Callable[[float], Store]


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """The test's own server, if it has one; else an account on the shared server."""
    if "own_nats" in request.fixturenames:
        server: NatsServer = request.getfixturevalue("own_nats")
        return server.url
    shared_url: str = request.getfixturevalue("nats_url")
    return shared_url


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    """A connection to the test's server, which has our streams."""
    nc = await connect(url, "test")
    await ensure(nc)
    yield nc
    await nc.close()


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.server)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "memory":
        yield _in_memory()
        return
    nc = await connect(request.getfixturevalue("url"), "test")
    await ensure(nc)

    async def damage(digest: str, data: bytes) -> None:
        await nc.request(f"blobs.{digest}", data, 2)

    def later(by_s: float) -> NatsBlobs:
        return NatsBlobs(nc, lambda: now() + timedelta(seconds=by_s))

    yield World(NatsLog(nc), NatsBlobs(nc), NatsBus(nc), NatsDeadLetters(nc), damage, later)
    await nc.close()


def _in_memory() -> World:
    ahead = timedelta(0)
    log, blobs = MemoryLog(), MemoryBlobs(lambda: now() + ahead)
    bus = MemoryBus(log)

    async def damage(digest: str, data: bytes) -> None:
        blobs.damage(digest, data)

    def later(by_s: float) -> MemoryBlobs:
        nonlocal ahead
        ahead = timedelta(seconds=by_s)
        return blobs

    return World(log, blobs, bus, MemoryDeadLetters(log, bus), damage, later)


@pytest.fixture
def log(world: World) -> EventLog:
    return world.log


@pytest.fixture
def blobs(world: World) -> Blobs:
    return world.blobs


@pytest.fixture
def bus(world: World) -> Bus:
    return world.bus
