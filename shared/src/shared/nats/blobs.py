"""Blobs on JetStream: a message each up to 64 KiB, an object store above."""

import hashlib

from nats.aio.client import Client

from shared.blobs import BLOB_BYTES_MAX, Missing
from shared.events import Blob
from shared.nats.large import get_large, put_large
from shared.nats.requests import EXPECTED, WRONG_LAST_SEQUENCE, Denied, find, patiently, publish
from shared.subjects import BLOBS

SMALL_BYTES_MAX = 64 * 1024


class NatsBlobs:
    """Content by SHA-256, in the stream BLOBS and the object store LARGE."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes before returning their name; see the port."""
        if len(data) > BLOB_BYTES_MAX:
            raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
        digest = hashlib.sha256(data).hexdigest()
        if len(data) <= SMALL_BYTES_MAX:
            await patiently(self._nc, lambda: self._put_small(digest, data))
        else:
            await put_large(self._nc, digest, data)
        return Blob(digest=digest, bytes=len(data), media=media)

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest; see the port."""
        which: dict[str, object] = {"last_by_subj": f"blobs.{digest}"}
        small = await patiently(self._nc, lambda: find(self._nc, BLOBS, which))
        data = await get_large(self._nc, digest) if small is None else small.data
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise Missing(digest)
        return data

    async def _put_small(self, digest: str, data: bytes) -> None:
        try:
            await publish(self._nc, f"blobs.{digest}", data, {EXPECTED: "0"})
        except Denied as denied:
            # It is there already, from us or from another.
            if denied.code != WRONG_LAST_SEQUENCE:
                raise
