"""Contract of snapshots, in memory and on JetStream."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Protocol

import pytest
from nats.aio.client import Client

from shared.nats.blobs import NatsSnapshots
from shared.nats.connection import connect
from shared.nats.streams import ensure_streams
from tests.support.memory import MemorySnapshots

KIB = 1024


class Snapshots(Protocol):
    """The newest snapshot by name."""

    async def load(self, name: str) -> bytes | None: ...

    async def save(self, name: str, data: bytes) -> None: ...


@pytest.fixture(params=["memory", pytest.param("nats", marks=pytest.mark.server)])
async def snapshots(request: pytest.FixtureRequest) -> AsyncIterator[Snapshots]:
    if request.param == "memory":
        yield MemorySnapshots()
        return
    nc = await connect(request.getfixturevalue("nats_url"), "test")
    await ensure_streams(nc)
    yield NatsSnapshots(nc)
    await nc.close()


async def test_of_what_was_never_kept_there_is_nothing(snapshots: Snapshots) -> None:
    assert await snapshots.load("scheduler") is None


@pytest.mark.parametrize("size", [0, 10, 256 * KIB, 3 * KIB * KIB])
async def test_what_was_kept_last_comes_back_whole(snapshots: Snapshots, size: int) -> None:
    await snapshots.save("scheduler", b"older" * 200 * KIB)
    data = random.Random(size).randbytes(size)
    await snapshots.save("scheduler", data)
    assert await snapshots.load("scheduler") == data


async def test_names_keep_apart(snapshots: Snapshots) -> None:
    await snapshots.save("one", b"1")
    await snapshots.save("two", b"2")
    assert await snapshots.load("one") == b"1"


async def test_two_may_keep_the_same_at_once(snapshots: Snapshots) -> None:
    await asyncio.gather(*(snapshots.save("scheduler", b"same" * 100 * KIB) for _ in range(3)))
    assert await snapshots.load("scheduler") == b"same" * 100 * KIB


async def test_whoever_reads_while_another_writes_gets_one_or_the_other_or_nothing(
    snapshots: Snapshots,
) -> None:
    contents = [bytes([number]) * 600 * KIB for number in range(4)]
    await snapshots.save("scheduler", contents[0])

    async def write() -> None:
        for data in contents:
            await snapshots.save("scheduler", data)

    writing = asyncio.create_task(write())
    read = [await snapshots.load("scheduler") for _ in range(4)]
    await writing
    assert all(data is None or data in contents for data in read)


@pytest.mark.server
async def test_a_damaged_snapshot_is_none(client: Client) -> None:
    snapshots = NatsSnapshots(client)
    await snapshots.save("scheduler", b"whole" * 100 * KIB)
    await client.request("snapshots.scheduler.1", b"what somebody else wrote", 2)
    assert await snapshots.load("scheduler") is None
