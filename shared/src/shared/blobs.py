"""The port to large things: bytes kept once, by digest."""

import hashlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.events import Blob

BLOB_BYTES_MAX = 64 * 1024 * 1024
# What no event names is collected from this age on.
COLLECTED_S = 48 * 3600
# A put of what is there makes it young again from half of that on: the writer has the other half
# to append the event that names it.
TOUCH_S = COLLECTED_S // 2


def named(data: bytes, media: str = "application/octet-stream") -> Blob:
    """The name that bytes have once they are kept."""
    return Blob(digest=hashlib.sha256(data).hexdigest(), bytes=len(data), media=media)


class Missing(Exception):  # noqa: N818
    """No intact blob has this digest."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"no intact blob {digest}")
        self.digest = digest


class Kept(NamedTuple):
    """Bytes in the store since `at`, the last put that made them young; `place` is the store's own.

    What a writer left unfinished is there too, without a digest.
    """

    digest: str
    bytes: int
    at: datetime
    place: str


class Blobs(Protocol):
    """Content by SHA-256: what is stored under a digest is what has that digest."""

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes, durably and for a day at least, before returning their name.

        Errors: ValueError over 64 MiB; Failed if the store could not be reached in 30 s.
        """
        ...

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest. Errors: Missing; Failed as put."""
        ...


class Attic(Protocol):
    """The store as its collector sees it."""

    def kept(self) -> AsyncIterator[Kept]:
        """All that is in the store. Errors: Failed."""
        ...

    async def remove(self, kept: Kept) -> bool:
        """Remove just this; False if it is gone, or was put again since. Errors: Failed."""
        ...
