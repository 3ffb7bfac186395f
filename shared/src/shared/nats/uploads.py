"""Uploads: the blobs of agents, each on subjects where no other agent can write.

An agent may put garbage under any digest there. So a reader takes the first bytes that match the
digest, and looks there last: no agent can hide what services stored.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable

import msgspec
from nats.aio.client import Client

from shared.blobs import BLOB_BYTES_MAX, StoredBlob
from shared.nats.connection import api_request, delete_message, publish, retry_request
from shared.nats.messages import iter_messages, newest_message, read_newest_messages
from shared.subjects import UPLOADS

SMALL_BYTES_MAX = 64 * 1024
CHUNK_BYTES = 128 * 1024
CHUNKS_MAX = BLOB_BYTES_MAX // CHUNK_BYTES
# How many agents may have an upload with the same digest.
UPLOADERS_MAX = 1000
SMALL, LARGE, CHUNK = "small", "large", "chunk"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class _LargeUpload(msgspec.Struct):
    """The location and size of a large blob's bytes."""

    chunks_id: str
    chunks: int
    size: int


_decode_description = msgspec.json.Decoder(_LargeUpload).decode


async def upload(nc: Client, agent: str, digest: str, data: bytes) -> None:
    """Store an agent's bytes under their digest; a repeat makes them young. Errors: Failed."""
    if len(data) <= SMALL_BYTES_MAX:
        await _write(nc, f"uploads.{agent}.{SMALL}.{digest}", data)
        return
    # A new name for the chunks, so that leftovers of a killed writer cannot mix in.
    chunks_id = secrets.token_hex(16)
    chunks = [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]
    for place, chunk in enumerate(chunks):
        await _write(nc, _chunk_subject(agent, chunks_id, place), chunk)
    description = msgspec.json.encode(_LargeUpload(chunks_id, len(chunks), len(data)))
    await _write(nc, f"uploads.{agent}.{LARGE}.{digest}", description)


async def _write(nc: Client, subject: str, data: bytes) -> None:
    # Writing twice after a lost answer is harmless: a subject keeps only its newest message.
    await retry_request(nc, lambda: publish(nc, subject, data, {}))


async def get_upload(nc: Client, digest: str) -> bytes | None:
    """Return an agent's upload with this digest, None if there is none. Errors: Failed."""
    small = f"uploads.*.{SMALL}.{digest}"
    async for message in iter_messages(nc, UPLOADS, small, UPLOADERS_MAX):
        if hashlib.sha256(message.data).hexdigest() == digest:
            return message.data
    large = f"uploads.*.{LARGE}.{digest}"
    async for message in iter_messages(nc, UPLOADS, large, UPLOADERS_MAX):
        data = await _read_chunks(nc, _agent_of(message.subject), _parse_description(message.data))
        if hashlib.sha256(data).hexdigest() == digest:
            return data
    return None


async def _read_chunks(nc: Client, agent: str, description: _LargeUpload) -> bytes:
    """Read the bytes of a large blob, as far as they exist."""
    chunks = list[bytes]()
    for place in range(min(description.chunks, CHUNKS_MAX)):
        subject = _chunk_subject(agent, description.chunks_id, place)
        message = await newest_message(nc, UPLOADS, subject)
        if message is None:
            break
        chunks.append(message.data)
    return b"".join(chunks)


async def list_uploads(nc: Client) -> list[StoredBlob]:
    """List every upload, and chunks without an upload, which have no digest. Errors: Failed.

    The chunks are listed first: a description written meanwhile is of young chunks.
    """
    orphans: dict[str, StoredBlob] = {}
    for message in await read_newest_messages(
        nc, UPLOADS, f"uploads.*.{CHUNK}.*.*", headers_only=True
    ):
        place = ".".join(("chunks", _agent_of(message.subject), message.subject.split(".")[3]))
        size = message.size + (orphans[place].bytes if place in orphans else 0)
        orphans[place] = StoredBlob("", size, message.at, place)
    uploads = list[StoredBlob]()
    for message in await read_newest_messages(
        nc, UPLOADS, f"uploads.*.{SMALL}.*", headers_only=True
    ):
        digest, place = _digest_of(message.subject), f"one.{message.seq}"
        uploads.append(StoredBlob(digest, message.size, message.at, place))
    for message in await read_newest_messages(
        nc, UPLOADS, f"uploads.*.{LARGE}.*", headers_only=False
    ):
        description, agent = _parse_description(message.data), _agent_of(message.subject)
        orphans.pop(f"chunks.{agent}.{description.chunks_id}", None)
        place = f"one.{message.seq}.{agent}.{description.chunks_id}"
        uploads.append(StoredBlob(_digest_of(message.subject), description.size, message.at, place))
    return [*uploads, *orphans.values()]


async def remove_upload(nc: Client, place: str) -> bool:
    """Remove exactly the upload that was listed at a place; False if it is gone. Errors: Failed."""
    kind, *parts = place.split(".")
    if kind == "chunks":
        await _remove_chunks(nc, parts)
        return True
    seq, *chunks = parts
    # By sequence, because a put in between gave the same bytes another one.
    if not await delete_message(nc, UPLOADS, int(seq)):
        return False
    if chunks:
        await _remove_chunks(nc, chunks)
    return True


async def _remove_chunks(nc: Client, names: Iterable[str]) -> None:
    agent, chunks_id = names
    query = {"filter": f"uploads.{agent}.{CHUNK}.{chunks_id}.*"}
    await retry_request(nc, lambda: api_request(nc, f"STREAM.PURGE.{UPLOADS}", query))


def _parse_description(description: bytes) -> _LargeUpload:
    """Parse a description; an invalid one has no chunks."""
    try:
        parsed = _decode_description(description)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _LargeUpload("", 0, 0)
    is_name = re.fullmatch(r"[0-9a-f]{32}", parsed.chunks_id)
    return parsed if is_name else _LargeUpload("", 0, 0)


def _chunk_subject(agent: str, chunks_id: str, place: int) -> str:
    return f"uploads.{agent}.{CHUNK}.{chunks_id}.{place}"


def _agent_of(subject: str) -> str:
    return subject.split(".")[1]


def _digest_of(subject: str) -> str:
    """Return the digest at the end of a subject, "" if an agent wrote something else there."""
    last_token = subject.rpartition(".")[2]
    return last_token if _DIGEST.match(last_token) else ""
