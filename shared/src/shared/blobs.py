"""The port to large things: bytes kept once, by digest."""

from typing import Protocol

from shared.events import Blob

BLOB_BYTES_MAX = 64 * 1024 * 1024


class Missing(Exception):  # noqa: N818
    """No intact blob has this digest."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"no intact blob {digest}")
        self.digest = digest


class Blobs(Protocol):
    """Content by SHA-256: what is stored under a digest is what has that digest."""

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes, durably, before returning their name; again is harmless.

        Errors: ValueError over 64 MiB; Failed if the store could not be reached in 30 s.
        """
        ...

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest. Errors: Missing; Failed as put."""
        ...
