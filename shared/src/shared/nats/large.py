"""Large blobs, in the layout of a NATS object store, so that its own tools can read them too."""

import base64
import hashlib
import secrets
from datetime import datetime
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.blobs import Kept
from shared.nats.newest import newest
from shared.nats.requests import (
    EXPECTED,
    MESSAGE_ID,
    WRONG_LAST_SEQUENCE,
    Denied,
    Stored,
    ask,
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


async def put_large(nc: Client, digest: str, data: bytes, young_from: datetime) -> None:
    """Keep the bytes under their digest, as young as `young_from` at least. Errors: Failed."""
    while True:
        found, known = await _look(nc, digest)
        if known is None:
            # A fresh name for the chunks: what a killed writer left behind cannot get between.
            known = await _put_chunks(nc, digest, data)
        elif found is not None and found.at is not None and found.at >= young_from:
            return
        if await _describe_as(nc, known, found.seq if found else 0):
            return


async def _put_chunks(nc: Client, digest: str, data: bytes) -> _Object:
    nuid = secrets.token_hex(16)
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    for place, chunk in enumerate(chunks):
        await _put_chunk(nc, nuid, place, chunk)
    sha = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
    return _Object(digest, LARGE, nuid, len(data), len(chunks), f"SHA-256={sha}")


async def get_large(nc: Client, digest: str) -> bytes | None:
    """What is kept under a digest, unchecked, or None if nothing is. Errors: Failed."""
    _, known = await _look(nc, digest)
    if known is None:
        return None
    seq, chunks = 0, list[bytes]()
    for _ in range(known.chunks):
        which = {"seq": seq + 1, "next_by_subj": _chunks_subject(known.nuid)}
        found = await patiently(nc, partial(find, nc, LARGE_STREAM, which))
        if found is None:
            break
        seq = found.seq
        chunks.append(found.data)
    return b"".join(chunks)


async def _look(nc: Client, digest: str) -> tuple[Stored | None, _Object | None]:
    """An object's newest description, if there is one, and the object if it is kept."""
    which: dict[str, object] = {"last_by_subj": _description_subject(digest)}
    found = await patiently(nc, lambda: find(nc, LARGE_STREAM, which))
    known = None if found is None else _described(found.data)
    return found, None if known is None or known.deleted else known


async def _put_chunk(nc: Client, nuid: str, place: int, chunk: bytes) -> None:
    # The id keeps a repeat within the stream's window of two minutes from being a second chunk.
    headers = {MESSAGE_ID: f"{nuid}.{place}"}
    await patiently(nc, lambda: publish(nc, _chunks_subject(nuid), chunk, headers))


async def _describe_as(nc: Client, described: _Object, expected: int) -> bool:
    """Put the newest description in the place of the `expected`; False if another one is newer."""
    subject, body = _description_subject(described.name), _describe(described)
    headers = {EXPECTED: str(expected), "Nats-Rollup": "sub"}

    async def once() -> bool:
        try:
            await publish(nc, subject, body, headers)
        except Denied as denied:
            # Somebody, or we ourselves unheard, have written it by now.
            if denied.code != WRONG_LAST_SEQUENCE:
                raise
            return False
        return True

    return await patiently(nc, once)


async def remove_large(nc: Client, digest: str, seq: int) -> bool:
    """Remove an object as its description `seq` has it; False if there is a newer. Errors: Failed.

    Killed between its steps it leaves chunks without a description, which are collected later.
    """
    found, known = await _look(nc, digest)
    if found is None or known is None or found.seq != seq:
        return False
    gone = _Object(digest, LARGE, known.nuid, deleted=True)
    if not await _describe_as(nc, gone, seq):
        return False
    await remove_chunks(nc, known.nuid)
    return True


async def remove_chunks(nc: Client, nuid: str) -> None:
    """Remove the chunks of one put. Errors: Failed."""
    which = {"filter": _chunks_subject(nuid)}
    await patiently(nc, lambda: ask(nc, f"STREAM.PURGE.{LARGE_STREAM}", which))


async def large_ones(nc: Client) -> list[Kept]:
    """Every object, and the chunks that belong to none, without a digest. Errors: Failed.

    The chunks are looked at first: a description that is written meanwhile is of young ones.
    """
    chunks = {
        one.subject.rpartition(".")[2]: one
        for one in await newest(nc, LARGE_STREAM, _chunks_subject("*"), headers_only=True)
    }
    kept = list[Kept]()
    for one in await newest(nc, LARGE_STREAM, f"$O.{LARGE}.M.>", headers_only=False):
        known = _described(one.data)
        if not known.deleted:
            chunks.pop(known.nuid, None)
            kept.append(Kept(known.name, known.size, one.at, f"large.{one.seq}"))
    lone = (Kept("", one.size, one.at, f"chunks.{nuid}") for nuid, one in chunks.items())
    return [*kept, *lone]


def _chunks_subject(nuid: str) -> str:
    return f"$O.{LARGE}.C.{nuid}"


def _description_subject(name: str) -> str:
    return f"$O.{LARGE}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"
