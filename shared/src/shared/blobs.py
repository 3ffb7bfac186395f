"""The ports to large data: blobs, stored once by digest, and snapshots by name."""

import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.events import Blob

BLOB_BYTES_MAX = 64 * 1024 * 1024
# Blobs that no event names are deleted from this age on.
BLOB_RETENTION_S = 48 * 3600
# Putting an existing blob makes it young again from half of that age on: the writer has the other
# half to append the event that names it.
BLOB_REFRESH_AFTER_S = BLOB_RETENTION_S // 2


def describe_blob(data: bytes, media: str = "application/octet-stream") -> Blob:
    """Return the description that bytes have in a store. Errors: ValueError over 64 MiB."""
    if len(data) > BLOB_BYTES_MAX:
        raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
    return Blob(digest=hashlib.sha256(data).hexdigest(), bytes=len(data), media=media)


class BlobNotFound(Exception):  # noqa: N818
    """No intact blob has this digest."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"no intact blob {digest}")
        self.digest = digest


class StoredBlob(NamedTuple):
    """A stored blob; `at` is the last put that made it young, `place` is private to the store.

    What a writer left unfinished is listed too, without a digest.
    """

    digest: str
    bytes: int
    at: datetime
    place: str


class BlobStore(Protocol):
    """Content by SHA-256: the data stored under a digest always has that digest."""

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Store the bytes durably, for a day at least, and return their description.

        Errors: ValueError over 64 MiB; Failed if the store could not be reached in 30 s.
        """

    async def get(self, digest: str) -> bytes:
        """Return the bytes, checked against the digest. Errors: BlobNotFound; Failed as put."""


class PrunableBlobStore(Protocol):
    """The store, as seen by the job that deletes unused blobs."""

    def kept(self) -> AsyncIterator[StoredBlob]:
        """Yield everything in the store. Errors: Failed."""

    async def remove(self, kept: StoredBlob) -> bool:
        """Remove this blob; False if it is gone, or was put again since. Errors: Failed."""


class Snapshots(Protocol):
    """Stores bytes by name; only the newest are kept."""

    async def load(self, name: str) -> bytes | None:
        """Return the last saved bytes, or None. Errors: Failed."""

    async def save(self, name: str, data: bytes) -> None:
        """Replace the saved bytes, completely or not at all. Errors: Failed."""
