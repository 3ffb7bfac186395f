"""Snapshots on JetStream: the newest bytes under a name, in parts that are stored together."""

import hashlib
import logging
import secrets
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.nats.batch import BATCH_MAX, Draft, publish_batch
from shared.nats.requests import Denied, find, patiently
from shared.subjects import SNAPSHOTS

log = logging.getLogger(__name__)

PART_BYTES = 256 * 1024
BYTES_MAX = PART_BYTES * (BATCH_MAX - 1)
# A reader between whose reads another snapshot was stored begins again.
READS_MAX = 3
DUPLICATE_IN_BATCH = 10201


class _Head(msgspec.Struct, frozen=True):
    """The first message: how many parts follow, and what they are together."""

    parts: int
    digest: str


class NatsSnapshots:
    """Bytes by name, in the stream SNAPSHOTS."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def load(self, name: str) -> bytes | None:
        """What was kept last, whole, or None if there is nothing whole. Errors: Failed."""
        for _ in range(READS_MAX):
            head = await self._part(name, 0)
            if head is None:
                return None
            try:
                told = msgspec.json.decode(head, type=_Head)
            except msgspec.DecodeError:
                break
            parts = [await self._part(name, place) or b"" for place in range(1, told.parts + 1)]
            data = b"".join(parts)
            if hashlib.sha256(data).hexdigest() == told.digest:
                return data
        log.warning("the snapshot %s is damaged, and ignored", name)
        return None

    async def save(self, name: str, data: bytes) -> None:
        """Keep this instead, whole or not at all. Errors: Failed; ValueError above 250 MB."""
        if len(data) > BYTES_MAX:
            raise ValueError(f"a snapshot of {len(data)} bytes is over {BYTES_MAX}")
        parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)] or [b""]
        head = _Head(len(parts), hashlib.sha256(data).hexdigest())
        # An id of this write alone: what was stored though its answer was lost is known by it.
        write = secrets.token_hex(16)
        drafts = [
            Draft(_subject(name, place), f"{write}.{place}", part, None)
            for place, part in enumerate([msgspec.json.encode(head), *parts])
        ]

        async def once() -> None:
            try:
                await publish_batch(self._nc, drafts)
            except Denied as denied:
                if denied.code != DUPLICATE_IN_BATCH:
                    raise

        await patiently(self._nc, once)

    async def _part(self, name: str, place: int) -> bytes | None:
        which: dict[str, object] = {"last_by_subj": _subject(name, place)}
        found = await patiently(self._nc, partial(find, self._nc, SNAPSHOTS, which))
        return None if found is None else found.data


def _subject(name: str, place: int) -> str:
    return f"snapshots.{name}.{place}"
