"""Blobs and snapshots on JetStream.

A blob is one message up to 64 KiB, an object in an object store above. Large blobs have the layout
of a NATS object store, so that its own tools can read them too. A snapshot is the newest bytes
under a name, in parts that are stored together.
"""

import asyncio
import base64
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.blobs import (
    BLOB_REFRESH_AFTER_S,
    BlobNotFound,
    StoredBlob,
    describe_blob,
)
from shared.clock import now
from shared.events import Blob
from shared.nats.batches import BATCH_MAX, MessageDraft, publish_batch
from shared.nats.connection import (
    DUPLICATE_IN_BATCH,
    MESSAGE_ID_HEADER,
    RequestDenied,
    StoredMessage,
    api_request,
    delete_message,
    iter_messages,
    newest_message,
    publish,
    replace_message,
    retry_request,
)
from shared.nats.pull import read_newest_messages
from shared.nats.streams import LARGE_STREAM
from shared.subjects import BLOBS, LARGE, SNAPSHOTS

SMALL_BYTES_MAX = 64 * 1024
CHUNK_BYTES = 128 * 1024

log = logging.getLogger(__name__)


def _split(data: bytes, size: int) -> Sequence[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


async def _purge(nc: Client, stream: str, subject: str) -> None:
    await retry_request(nc, lambda: api_request(nc, f"STREAM.PURGE.{stream}", {"filter": subject}))


class _Object(msgspec.Struct, omit_defaults=True):
    name: str
    bucket: str = ""
    nuid: str = ""
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False


_encode_description = msgspec.json.Encoder().encode
_decode_description = msgspec.json.Decoder(_Object).decode


async def put_large(nc: Client, digest: str, data: bytes, young_from: datetime) -> None:
    """Store the bytes under their digest, at least as young as `young_from`. Errors: Failed."""
    while True:
        message, stored_object = await _find_object(nc, digest)
        if stored_object is None:
            # A new name for the chunks, so that leftovers of a killed writer cannot mix in.
            stored_object = await _put_chunks(nc, digest, data)
        elif message is not None and message.at is not None and message.at >= young_from:
            return
        if await _write_description(nc, stored_object, message.seq if message else 0):
            return


async def _put_chunks(nc: Client, digest: str, data: bytes) -> _Object:
    nuid = secrets.token_hex(16)
    chunks = _split(data, CHUNK_BYTES)
    for place, chunk in enumerate(chunks):
        # With this id a repeat within the stream's window of two minutes is not a second chunk.
        headers = {MESSAGE_ID_HEADER: f"{nuid}.{place}"}
        await retry_request(nc, partial(publish, nc, _chunks_subject(nuid), chunk, headers))
    sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return _Object(digest, LARGE, nuid, len(data), len(chunks), f"SHA-256={sha}")


async def get_large(nc: Client, digest: str) -> bytes | None:
    """Return what is stored under a digest, unchecked; None if nothing is. Errors: Failed."""
    _, stored_object = await _find_object(nc, digest)
    if stored_object is None:
        return None
    subject = _chunks_subject(stored_object.nuid)
    messages = iter_messages(nc, LARGE_STREAM, subject, stored_object.chunks)
    return b"".join([message.data async for message in messages])


async def _find_object(nc: Client, digest: str) -> tuple[StoredMessage | None, _Object | None]:
    """Return an object's newest description, if any, and the object if it still exists."""
    message = await newest_message(nc, LARGE_STREAM, _description_subject(digest))
    stored_object = None if message is None else _decode_description(message.data)
    return message, None if stored_object is None or stored_object.deleted else stored_object


async def _write_description(nc: Client, description: _Object, expected: int) -> bool:
    subject, body = _description_subject(description.name), _encode_description(description)
    return await replace_message(nc, subject, body, expected, {"Nats-Rollup": "sub"})


async def remove_large(nc: Client, digest: str, seq: int) -> bool:
    """Remove an object as described by message `seq`; False if there is a newer description.

    If it is killed in between it leaves chunks without a description, which are removed later.
    Errors: Failed.
    """
    message, stored_object = await _find_object(nc, digest)
    if message is None or stored_object is None or message.seq != seq:
        return False
    tombstone = _Object(digest, LARGE, stored_object.nuid, deleted=True)
    if not await _write_description(nc, tombstone, seq):
        return False
    await _purge(nc, LARGE_STREAM, _chunks_subject(stored_object.nuid))
    return True


async def list_large_blobs(nc: Client) -> list[StoredBlob]:
    """List every object, and chunks without an object, which have no digest. Errors: Failed.

    The chunks are listed first: a description written meanwhile is of young chunks.
    """
    chunks = {
        message.subject.rpartition(".")[2]: message
        for message in await read_newest_messages(
            nc, LARGE_STREAM, _chunks_subject("*"), headers_only=True
        )
    }
    blobs = list[StoredBlob]()
    for message in await read_newest_messages(
        nc, LARGE_STREAM, f"$O.{LARGE}.M.>", headers_only=False
    ):
        description = _decode_description(message.data)
        if not description.deleted:
            chunks.pop(description.nuid, None)
            place = f"large.{message.seq}"
            blobs.append(StoredBlob(description.name, description.size, message.at, place))
    orphans = (
        StoredBlob("", message.size, message.at, f"chunks.{nuid}")
        for nuid, message in chunks.items()
    )
    return [*blobs, *orphans]


def _chunks_subject(nuid: str) -> str:
    return f"$O.{LARGE}.C.{nuid}"


def _description_subject(name: str) -> str:
    return f"$O.{LARGE}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


class NatsBlobStore:
    """Content by SHA-256, in the stream BLOBS and the object store LARGE."""

    def __init__(self, nc: Client, clock: Callable[[], datetime] = now) -> None:
        self._nc = nc
        self._clock = clock

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Store the bytes and return their description; see the port."""
        blob = describe_blob(data, media)
        young_from = self._clock() - timedelta(seconds=BLOB_REFRESH_AFTER_S)
        if len(data) <= SMALL_BYTES_MAX:
            await self._put_small(blob.digest, data, young_from)
        else:
            await put_large(self._nc, blob.digest, data, young_from)
        return blob

    async def get(self, digest: str) -> bytes:
        """Return the bytes, checked against the digest; see the port."""
        small = await newest_message(self._nc, BLOBS, f"blobs.{digest}")
        data = await get_large(self._nc, digest) if small is None else small.data
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise BlobNotFound(digest)
        return data

    async def kept(self) -> AsyncIterator[StoredBlob]:
        """Yield everything in the store; see the port."""
        for message in await read_newest_messages(self._nc, BLOBS, "blobs.*", headers_only=True):
            digest = message.subject.removeprefix("blobs.")
            yield StoredBlob(digest, message.size, message.at, f"small.{message.seq}")
        for blob in await list_large_blobs(self._nc):
            yield blob

    async def remove(self, kept: StoredBlob) -> bool:
        """Remove exactly this blob; see the port."""
        kind, _, place = kept.place.partition(".")
        if kind == "small":
            # By sequence, because a put in between gave the same bytes another one.
            return await delete_message(self._nc, BLOBS, int(place))
        if kind == "large":
            return await remove_large(self._nc, kept.digest, int(place))
        await _purge(self._nc, LARGE_STREAM, _chunks_subject(place))
        return True

    async def _put_small(self, digest: str, data: bytes, young_from: datetime) -> None:
        expected = 0
        while not await replace_message(self._nc, f"blobs.{digest}", data, expected):
            message = await newest_message(self._nc, BLOBS, f"blobs.{digest}")
            if message is not None and message.at is not None and message.at >= young_from:
                return
            # It is old and may be deleted any moment: writing it again makes it young.
            expected = message.seq if message is not None else 0


PART_BYTES = 256 * 1024
BYTES_MAX = PART_BYTES * (BATCH_MAX - 1)
# A reader starts again if another snapshot was stored between its reads.
READS_MAX = 3
READ_AT_ONCE = 16


class _Head(msgspec.Struct, frozen=True):
    """The first message: how many parts follow, and the digest of all."""

    parts: int
    digest: str


def snapshot_drafts(name: str, data: bytes) -> list[MessageDraft]:
    """Return the messages of a snapshot, which are stored in one batch."""
    parts = _split(data, PART_BYTES) or [b""]
    head = _Head(len(parts), hashlib.sha256(data).hexdigest())
    # An id unique to this write: a repeat after a lost answer is recognised by it.
    write = secrets.token_hex(16)
    return [
        MessageDraft(f"snapshots.{name}.{place}", f"{write}.{place}", part, None)
        for place, part in enumerate([msgspec.json.encode(head), *parts])
    ]


class NatsSnapshots:
    """Snapshots by name, in the stream SNAPSHOTS."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    async def load(self, name: str) -> bytes | None:
        """Return the newest snapshot, or None if there is no complete one. Errors: Failed."""
        for _ in range(READS_MAX):
            head_data = await self._read_part(name, 0)
            if head_data is None:
                return None
            try:
                head = msgspec.json.decode(head_data, type=_Head)
            except msgspec.DecodeError:
                break
            parts = list[bytes | None]()
            while len(parts) < head.parts:
                places = range(len(parts) + 1, min(len(parts) + READ_AT_ONCE, head.parts) + 1)
                parts += await asyncio.gather(*(self._read_part(name, at) for at in places))
            data = b"".join(part or b"" for part in parts)
            if hashlib.sha256(data).hexdigest() == head.digest:
                return data
        log.warning("the snapshot %s is damaged, and ignored", name)
        return None

    async def save(self, name: str, data: bytes) -> None:
        """Replace the snapshot, all or nothing. Errors: Failed; ValueError above 250 MB."""
        if len(data) > BYTES_MAX:
            raise ValueError(f"a snapshot of {len(data)} bytes is over {BYTES_MAX}")
        drafts = snapshot_drafts(name, data)

        async def attempt() -> None:
            try:
                await publish_batch(self._nc, drafts)
            except RequestDenied as denied:
                if denied.code != DUPLICATE_IN_BATCH:
                    raise

        await retry_request(self._nc, attempt)

    async def _read_part(self, name: str, place: int) -> bytes | None:
        message = await newest_message(self._nc, SNAPSHOTS, f"snapshots.{name}.{place}")
        return None if message is None else message.data
