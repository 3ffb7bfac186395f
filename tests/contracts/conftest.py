"""Every port twice: in memory, and on a nats-server of the test's own."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest
from nats.aio.client import Client

from shared.blobs import Blobs
from shared.bus import Bus
from shared.event_log import EventLog
from shared.memory import MemoryBlobs, MemoryBus, MemoryLog
from shared.nats.blobs import NatsBlobs
from shared.nats.bus import NatsBus
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure
from shared.servers.nats import NatsServer

Damage = Callable[[str, bytes], Awaitable[None]]


class World(NamedTuple):
    """The three ports on one ground; `damage` puts other bytes under a digest."""

    log: EventLog
    blobs: Blobs
    bus: Bus
    damage: Damage


@pytest.fixture
async def client(own_nats: NatsServer) -> AsyncIterator[Client]:
    """A connection to the test's own server, which has our streams."""
    nc = await connect(own_nats.url, "test")
    await ensure(nc)
    yield nc
    await nc.close()


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.server)])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    if request.param == "memory":
        log, blobs = MemoryLog(), MemoryBlobs()

        async def damage_dict(digest: str, data: bytes) -> None:
            blobs._kept[digest] = data

        yield World(log, blobs, MemoryBus(log), damage_dict)
        return
    server: NatsServer = request.getfixturevalue("own_nats")
    nc = await connect(server.url, "test")
    await ensure(nc)

    async def damage(digest: str, data: bytes) -> None:
        await nc.request(f"blobs.{digest}", data, 2)

    yield World(NatsLog(nc), NatsBlobs(nc), NatsBus(nc), damage)
    await nc.close()


@pytest.fixture
def log(world: World) -> EventLog:
    return world.log


@pytest.fixture
def blobs(world: World) -> Blobs:
    return world.blobs


@pytest.fixture
def bus(world: World) -> Bus:
    return world.bus
