"""What the store of large things promises, asked of memory and of JetStream alike."""

import asyncio
import hashlib
import random

import pytest

from shared.blobs import BLOB_BYTES_MAX, Blobs, Missing
from tests.contracts.conftest import World

KIB = 1024


@pytest.mark.parametrize("size", [0, 10, 64 * KIB, 64 * KIB + 1, 3 * KIB * KIB])
async def test_bytes_of_any_size_come_back_by_their_digest(blobs: Blobs, size: int) -> None:
    data = random.Random(size).randbytes(size)
    blob = await blobs.put(data, "text/plain")
    assert blob.digest == hashlib.sha256(data).hexdigest()
    assert (blob.bytes, blob.media) == (size, "text/plain")
    assert await blobs.get(blob.digest) == data


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_the_same_bytes_may_be_kept_again(blobs: Blobs, size: int) -> None:
    data = b"x" * size
    first, *others = [await blobs.put(data) for _ in range(3)]
    assert others == [first, first]
    assert await blobs.get(first.digest) == data


@pytest.mark.parametrize("size", [10, 200 * KIB])
async def test_two_may_keep_the_same_bytes_at_once(blobs: Blobs, size: int) -> None:
    first, second = await asyncio.gather(blobs.put(b"y" * size), blobs.put(b"y" * size))
    assert first == second
    assert await blobs.get(first.digest) == b"y" * size


async def test_an_unknown_digest_is_missing(blobs: Blobs) -> None:
    digest = hashlib.sha256(b"never kept").hexdigest()
    with pytest.raises(Missing) as caught:
        await blobs.get(digest)
    assert caught.value.digest == digest


async def test_a_damaged_blob_is_missing(world: World) -> None:
    blob = await world.blobs.put(b"what was written")
    await world.damage(blob.digest, b"what is there now")
    with pytest.raises(Missing):
        await world.blobs.get(blob.digest)


async def test_a_blob_too_large_is_refused(blobs: Blobs) -> None:
    with pytest.raises(ValueError, match=str(BLOB_BYTES_MAX)):
        await blobs.put(bytes(BLOB_BYTES_MAX + 1))
