"""Blobs on JetStream: a message each up to 64 KiB, an object store above."""

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta

from nats.aio.client import Client

from shared.blobs import BLOB_BYTES_MAX, TOUCH_S, Kept, Missing
from shared.clock import now
from shared.events import Blob
from shared.nats.large import get_large, large_ones, put_large, remove_chunks, remove_large
from shared.nats.newest import newest
from shared.nats.requests import (
    EXPECTED,
    NOT_DELETED,
    WRONG_LAST_SEQUENCE,
    Denied,
    Stored,
    ask,
    find,
    patiently,
    publish,
)
from shared.nats.uploads import get_upload, remove_upload, uploaded
from shared.subjects import BLOBS

SMALL_BYTES_MAX = 64 * 1024


class NatsBlobs:
    """Content by SHA-256, in the stream BLOBS and the object store LARGE.

    What agents keep, in the stream UPLOADS, can be read and removed like all else.
    """

    def __init__(self, nc: Client, clock: Callable[[], datetime] = now) -> None:
        self._nc = nc
        self._clock = clock

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes before returning their name; see the port."""
        if len(data) > BLOB_BYTES_MAX:
            raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
        digest = hashlib.sha256(data).hexdigest()
        young_from = self._clock() - timedelta(seconds=TOUCH_S)
        if len(data) <= SMALL_BYTES_MAX:
            await self._put_small(digest, data, young_from)
        else:
            await put_large(self._nc, digest, data, young_from)
        return Blob(digest=digest, bytes=len(data), media=media)

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest; see the port."""
        small = await self._small(digest)
        data = await get_large(self._nc, digest) if small is None else small.data
        if data is not None and hashlib.sha256(data).hexdigest() == digest:
            return data
        data = await get_upload(self._nc, digest)
        if data is None:
            raise Missing(digest)
        return data

    async def kept(self) -> AsyncIterator[Kept]:
        """All that is in the store; see the port."""
        for one in await newest(self._nc, BLOBS, "blobs.*", headers_only=True):
            digest = one.subject.removeprefix("blobs.")
            yield Kept(digest, one.size, one.at, f"small.{one.seq}")
        for kept in await large_ones(self._nc):
            yield kept
        for kept in await uploaded(self._nc):
            yield kept._replace(place=f"upload.{kept.place}")

    async def remove(self, kept: Kept) -> bool:
        """Remove just this; see the port."""
        kind, _, place = kept.place.partition(".")
        if kind == "small":
            return await patiently(self._nc, lambda: self._remove_small(int(place)))
        if kind == "large":
            return await remove_large(self._nc, kept.digest, int(place))
        if kind == "upload":
            return await remove_upload(self._nc, place)
        await remove_chunks(self._nc, place)
        return True

    async def _put_small(self, digest: str, data: bytes, young_from: datetime) -> None:
        expected = 0
        while not await self._write_small(digest, data, expected):
            found = await self._small(digest)
            if found is not None and found.at is not None and found.at >= young_from:
                return
            # It is old, and may be collected any moment: written once more, it is young.
            expected = found.seq if found is not None else 0

    async def _small(self, digest: str) -> Stored | None:
        which: dict[str, object] = {"last_by_subj": f"blobs.{digest}"}
        return await patiently(self._nc, lambda: find(self._nc, BLOBS, which))

    async def _write_small(self, digest: str, data: bytes, expected: int) -> bool:
        async def once() -> bool:
            try:
                await publish(self._nc, f"blobs.{digest}", data, {EXPECTED: str(expected)})
            except Denied as denied:
                # Somebody, or we ourselves unheard, have written it by now.
                if denied.code != WRONG_LAST_SEQUENCE:
                    raise
                return False
            return True

        return await patiently(self._nc, once)

    async def _remove_small(self, seq: int) -> bool:
        # By its sequence: a put in between has given the same bytes another one.
        try:
            await ask(self._nc, f"STREAM.MSG.DELETE.{BLOBS}", {"seq": seq, "no_erase": True})
        except Denied as denied:
            if denied.code != NOT_DELETED:
                raise
            return False
        return True
