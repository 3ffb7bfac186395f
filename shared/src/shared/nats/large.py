"""Large blobs, in the layout of a NATS object store, so that its own tools can read them too."""

import base64
import hashlib
import secrets
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.nats.requests import (
    EXPECTED,
    MESSAGE_ID,
    WRONG_LAST_SEQUENCE,
    Denied,
    find,
    patiently,
    publish,
)
from shared.nats.streams import LARGE_STREAM
from shared.subjects import LARGE

CHUNK_BYTES = 128 * 1024


class _Object(msgspec.Struct, omit_defaults=True):
    """What an object store says of one object."""

    name: str
    bucket: str = ""
    nuid: str = ""
    size: int = 0
    chunks: int = 0
    digest: str = ""
    deleted: bool = False


_describe = msgspec.json.Encoder().encode
_described = msgspec.json.Decoder(_Object).decode


async def put_large(nc: Client, digest: str, data: bytes) -> None:
    """Keep the bytes under their digest, unless they are there. Errors: Failed."""
    seq, known = await _look(nc, digest)
    if known is not None:
        return
    # A fresh name for the chunks: what a killed writer left behind cannot get between them.
    nuid = secrets.token_hex(16)
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    for place, chunk in enumerate(chunks):
        await _put_chunk(nc, nuid, place, chunk)
    sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    described = _Object(digest, LARGE, nuid, len(data), len(chunks), f"SHA-256={sha}")
    await _put_description(nc, described, seq)


async def get_large(nc: Client, digest: str) -> bytes | None:
    """What is kept under a digest, unchecked, or None if nothing is. Errors: Failed."""
    _, known = await _look(nc, digest)
    if known is None:
        return None
    seq, chunks = 0, []
    for _ in range(known.chunks):
        which = {"seq": seq + 1, "next_by_subj": _chunks_subject(known.nuid)}
        found = await patiently(nc, partial(find, nc, LARGE_STREAM, which))
        if found is None:
            break
        seq = found.seq
        chunks.append(found.data)
    return b"".join(chunks)


async def _look(nc: Client, digest: str) -> tuple[int, _Object | None]:
    """The sequence of an object's newest description, 0 for none, and the object if it is kept."""
    which: dict[str, object] = {"last_by_subj": _description_subject(digest)}
    found = await patiently(nc, lambda: find(nc, LARGE_STREAM, which))
    if found is None:
        return 0, None
    known = _described(found.data)
    return found.seq, None if known.deleted else known


async def _put_chunk(nc: Client, nuid: str, place: int, chunk: bytes) -> None:
    # The id keeps a repeat within the stream's window of two minutes from being a second chunk.
    headers = {MESSAGE_ID: f"{nuid}.{place}"}
    await patiently(nc, lambda: publish(nc, _chunks_subject(nuid), chunk, headers))


async def _put_description(nc: Client, described: _Object, expected: int) -> None:
    subject, headers = _description_subject(described.name), {EXPECTED: str(expected)}

    async def once() -> None:
        try:
            await publish(nc, subject, _describe(described), headers)
        except Denied as denied:
            # Somebody, or we ourselves unheard, have described the same bytes by now.
            if denied.code != WRONG_LAST_SEQUENCE:
                raise

    await patiently(nc, once)


def _chunks_subject(nuid: str) -> str:
    return f"$O.{LARGE}.C.{nuid}"


def _description_subject(name: str) -> str:
    return f"$O.{LARGE}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
