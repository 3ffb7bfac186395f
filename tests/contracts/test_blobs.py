"""Contract of the blob store, in memory and on JetStream."""

import asyncio
import hashlib
import random

import pytest
from nats.aio.client import Client

from shared.blobs import BLOB_BYTES_MAX, BLOB_REFRESH_AFTER_S, BlobNotFound, BlobStore, StoredBlob
from shared.clock import now
from shared.nats.blobs import NatsBlobStore
from tests.contracts.conftest import World

KIB = 1024


@pytest.mark.parametrize("size", [0, 10, 64 * KIB, 64 * KIB + 1, 3 * KIB * KIB])
async def test_bytes_of_any_size_come_back_by_their_digest(blobs: BlobStore, size: int) -> None:
    data = random.Random(size).randbytes(size)
    blob = await blobs.put(data, "text/plain")
    assert blob.digest == hashlib.sha256(data).hexdigest()
    assert (blob.bytes, blob.media) == (size, "text/plain")
    assert await blobs.get(blob.digest) == data


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_the_same_bytes_may_be_kept_again(blobs: BlobStore, size: int) -> None:
    data = b"x" * size
    first, *others = [await blobs.put(data) for _ in range(3)]
    assert others == [first, first]
    assert await blobs.get(first.digest) == data


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_two_may_keep_the_same_bytes_at_once(blobs: BlobStore, size: int) -> None:
    first, second = await asyncio.gather(blobs.put(b"y" * size), blobs.put(b"y" * size))
    assert first == second
    assert await blobs.get(first.digest) == b"y" * size


async def test_an_unknown_digest_is_missing(blobs: BlobStore) -> None:
    digest = hashlib.sha256(b"never kept").hexdigest()
    with pytest.raises(BlobNotFound) as caught:
        await blobs.get(digest)
    assert caught.value.digest == digest


async def test_a_damaged_blob_is_missing(world: World) -> None:
    blob = await world.blobs.put(b"what was written")
    await world.damage(blob.digest, b"what is there now")
    with pytest.raises(BlobNotFound):
        await world.blobs.get(blob.digest)


async def test_a_blob_too_large_is_refused(blobs: BlobStore) -> None:
    with pytest.raises(ValueError, match=str(BLOB_BYTES_MAX)):
        await blobs.put(bytes(BLOB_BYTES_MAX + 1))


async def stored_blobs(world: World) -> dict[str, StoredBlob]:
    return {blob.digest: blob async for blob in world.blobs.kept()}


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_the_store_lists_what_it_keeps_and_since_when(world: World, size: int) -> None:
    assert await stored_blobs(world) == {}
    blobs = [await world.blobs.put(bytes([value]) * size) for value in range(3)]
    listed = await stored_blobs(world)
    assert sorted(listed) == sorted(blob.digest for blob in blobs)
    for one in listed.values():
        assert one.bytes == size
        assert abs((now() - one.at).total_seconds()) < 30


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_what_is_removed_is_missing_and_may_be_kept_again(world: World, size: int) -> None:
    data = b"z" * size
    blob, other = await world.blobs.put(data), await world.blobs.put(b"other")
    one = (await stored_blobs(world))[blob.digest]
    assert await world.blobs.remove(one)
    assert not await world.blobs.remove(one)
    with pytest.raises(BlobNotFound):
        await world.blobs.get(blob.digest)
    assert list(await stored_blobs(world)) == [other.digest]
    assert await world.blobs.put(data) == blob
    assert await world.blobs.get(blob.digest) == data


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_a_put_of_old_bytes_saves_them_from_the_collector(world: World, size: int) -> None:
    blob = await world.blobs.put(b"o" * size)
    listed = (await stored_blobs(world))[blob.digest]
    assert await world.later(BLOB_REFRESH_AFTER_S + 60).put(b"o" * size) == blob
    assert not await world.blobs.remove(listed)
    assert await world.blobs.get(blob.digest) == b"o" * size
    assert (await stored_blobs(world))[blob.digest].place != listed.place


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_a_put_of_young_bytes_writes_nothing(world: World, size: int) -> None:
    blob = await world.blobs.put(b"y" * size)
    listed = await stored_blobs(world)
    await world.later(BLOB_REFRESH_AFTER_S - 60).put(b"y" * size)
    assert await stored_blobs(world) == listed
    assert await world.blobs.remove(listed[blob.digest])


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_a_put_outlives_a_removal_at_the_same_moment(world: World, size: int) -> None:
    data = b"r" * size
    for turn in range(10):
        blob = await world.blobs.put(data)
        listed = (await stored_blobs(world))[blob.digest]
        later = world.later((turn + 1) * (BLOB_REFRESH_AFTER_S + 60))
        await asyncio.gather(later.put(data), world.blobs.remove(listed))
        assert await world.blobs.get(blob.digest) == data


@pytest.mark.server
async def test_the_chunks_of_an_unfinished_put_are_listed_and_removed(client: Client) -> None:
    blobs = NatsBlobStore(client)
    complete_blob = await blobs.put(b"w" * 300 * KIB)
    await client.request("$O.LARGE.C.unfinished", b"half", 2)
    (orphan,) = [blob async for blob in blobs.kept() if not blob.digest]
    assert orphan.bytes == 4
    assert await blobs.remove(orphan)
    assert [blob.digest async for blob in blobs.kept()] == [complete_blob.digest]
    assert await blobs.get(complete_blob.digest) == b"w" * 300 * KIB
