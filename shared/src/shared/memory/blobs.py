"""Bytes by digest, each with the time it was last asked to be kept."""

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import NamedTuple

from shared.blobs import BLOB_BYTES_MAX, TOUCH_S, Kept, Missing
from shared.clock import now
from shared.events import Blob


class _Slot(NamedTuple):
    data: bytes
    at: datetime
    turn: int


class MemoryBlobs:
    """Bytes by digest, in a dict; `clock` says how old they are."""

    def __init__(self, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._turn = 0
        self._kept: dict[str, _Slot] = {}

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes; see the port."""
        if len(data) > BLOB_BYTES_MAX:
            raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
        digest = hashlib.sha256(data).hexdigest()
        known, at = self._kept.get(digest), self._clock()
        if known is None or (at - known.at).total_seconds() > TOUCH_S:
            self._turn += 1
            self._kept[digest] = _Slot(data, at, self._turn)
        return Blob(digest=digest, bytes=len(data), media=media)

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest; see the port."""
        slot = self._kept.get(digest)
        if slot is None or hashlib.sha256(slot.data).hexdigest() != digest:
            raise Missing(digest)
        return slot.data

    async def kept(self) -> AsyncIterator[Kept]:
        """All that is here; see the port."""
        for digest, slot in list(self._kept.items()):
            yield Kept(digest, len(slot.data), slot.at, str(slot.turn))

    async def remove(self, kept: Kept) -> bool:
        """Remove what was kept just so; see the port."""
        slot = self._kept.get(kept.digest)
        if slot is None or str(slot.turn) != kept.place:
            return False
        del self._kept[kept.digest]
        return True

    def damage(self, digest: str, data: bytes) -> None:
        """Put other bytes under a digest, as a broken disk would."""
        self._kept[digest] = self._kept[digest]._replace(data=data)
