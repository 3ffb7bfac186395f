"""The blobs that agents keep: each on subjects of its own, where no other agent can write.

An agent may put garbage under any digest there. So whoever looks for one takes the first bytes that
have it, and looks there last: what services keep, no agent can hide.
"""

import hashlib
import re
import secrets
from collections.abc import AsyncIterator, Iterable
from functools import partial

import msgspec
from nats.aio.client import Client

from shared.blobs import BLOB_BYTES_MAX, Kept
from shared.nats.newest import newest
from shared.nats.requests import (
    NO_SEQUENCE,
    NOT_DELETED,
    Denied,
    Stored,
    ask,
    find,
    patiently,
    publish,
)
from shared.subjects import UPLOADS

SMALL_BYTES_MAX = 64 * 1024
CHUNK_BYTES = 128 * 1024
CHUNKS_MAX = BLOB_BYTES_MAX // CHUNK_BYTES
# So many agents may hold something under one digest.
UPLOADERS_MAX = 1000
SMALL, LARGE, CHUNK = "small", "large", "chunk"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class _Large(msgspec.Struct):
    """Where the bytes of a large blob are, and how many."""

    chunks_id: str
    chunks: int
    size: int


_described = msgspec.json.Decoder(_Large).decode


async def upload(nc: Client, agent: str, digest: str, data: bytes) -> None:
    """Keep an agent's bytes under their digest; again makes them young. Errors: Failed."""
    if len(data) <= SMALL_BYTES_MAX:
        await _write(nc, f"uploads.{agent}.{SMALL}.{digest}", data)
        return
    # A fresh name for the chunks: what a killed writer left behind cannot get between.
    chunks_id = secrets.token_hex(16)
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    for place, chunk in enumerate(chunks):
        await _write(nc, _chunk_subject(agent, chunks_id, place), chunk)
    description = msgspec.json.encode(_Large(chunks_id, len(chunks), len(data)))
    await _write(nc, f"uploads.{agent}.{LARGE}.{digest}", description)


async def _write(nc: Client, subject: str, data: bytes) -> None:
    # To write it twice, for a lost answer, changes nothing: a subject keeps its newest message.
    await patiently(nc, lambda: publish(nc, subject, data, {}))


async def get_upload(nc: Client, digest: str) -> bytes | None:
    """The bytes with this digest that some agent keeps, None if there are none. Errors: Failed."""
    async for kept in _all(nc, f"uploads.*.{SMALL}.{digest}"):
        if hashlib.sha256(kept.data).hexdigest() == digest:
            return kept.data
    async for kept in _all(nc, f"uploads.*.{LARGE}.{digest}"):
        data = await _joined(nc, _agent(kept.subject), _read(kept.data))
        if hashlib.sha256(data).hexdigest() == digest:
            return data
    return None


async def _all(nc: Client, subject: str) -> AsyncIterator[Stored]:
    """The newest message on each subject of a filter."""
    seq = 0
    for _ in range(UPLOADERS_MAX):
        which: dict[str, object] = {"seq": seq + 1, "next_by_subj": subject}
        found = await patiently(nc, partial(find, nc, UPLOADS, which))
        if found is None:
            return
        seq = found.seq
        yield found


async def _joined(nc: Client, agent: str, described: _Large) -> bytes:
    """The bytes of a large blob, as far as they are there."""
    chunks = list[bytes]()
    for place in range(min(described.chunks, CHUNKS_MAX)):
        subject = _chunk_subject(agent, described.chunks_id, place)
        found = await patiently(nc, partial(find, nc, UPLOADS, {"last_by_subj": subject}))
        if found is None:
            break
        chunks.append(found.data)
    return b"".join(chunks)


async def uploaded(nc: Client) -> list[Kept]:
    """Every upload, and the chunks that belong to none, without a digest. Errors: Failed.

    The chunks are looked at first: a description that is written meanwhile is of young ones.
    """
    lone: dict[str, Kept] = {}
    for one in await newest(nc, UPLOADS, f"uploads.*.{CHUNK}.*.*", headers_only=True):
        place = ".".join(("chunks", _agent(one.subject), one.subject.split(".")[3]))
        size = one.size + (lone[place].bytes if place in lone else 0)
        lone[place] = Kept("", size, one.at, place)
    found = list[Kept]()
    for one in await newest(nc, UPLOADS, f"uploads.*.{SMALL}.*", headers_only=True):
        found.append(Kept(_digest(one.subject), one.size, one.at, f"one.{one.seq}"))
    for one in await newest(nc, UPLOADS, f"uploads.*.{LARGE}.*", headers_only=False):
        described, agent = _read(one.data), _agent(one.subject)
        lone.pop(f"chunks.{agent}.{described.chunks_id}", None)
        place = f"one.{one.seq}.{agent}.{described.chunks_id}"
        found.append(Kept(_digest(one.subject), described.size, one.at, place))
    return [*found, *lone.values()]


async def remove_upload(nc: Client, place: str) -> bool:
    """Remove just what `uploaded` has seen in a place; False if it is gone. Errors: Failed."""
    kind, *where = place.split(".")
    if kind == "chunks":
        await _remove_chunks(nc, where)
        return True
    seq, *chunks = where
    if not await patiently(nc, lambda: _remove_one(nc, int(seq))):
        return False
    if chunks:
        await _remove_chunks(nc, chunks)
    return True


async def _remove_one(nc: Client, seq: int) -> bool:
    # By its sequence: a put in between has given the same bytes another one.
    try:
        await ask(nc, f"STREAM.MSG.DELETE.{UPLOADS}", {"seq": seq, "no_erase": True})
    except Denied as denied:
        if denied.code not in (NOT_DELETED, NO_SEQUENCE):
            raise
        return False
    return True


async def _remove_chunks(nc: Client, names: Iterable[str]) -> None:
    agent, chunks_id = names
    which = {"filter": f"uploads.{agent}.{CHUNK}.{chunks_id}.*"}
    await patiently(nc, lambda: ask(nc, f"STREAM.PURGE.{UPLOADS}", which))


def _read(description: bytes) -> _Large:
    """What a description says; one that says nothing of use has no chunks."""
    try:
        described = _described(description)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Large("", 0, 0)
    is_name = re.fullmatch(r"[0-9a-f]{32}", described.chunks_id)
    return described if is_name else _Large("", 0, 0)


def _chunk_subject(agent: str, chunks_id: str, place: int) -> str:
    return f"uploads.{agent}.{CHUNK}.{chunks_id}.{place}"


def _agent(subject: str) -> str:
    return subject.split(".")[1]


def _digest(subject: str) -> str:
    """The digest at the end of a subject, "" where an agent wrote anything else there."""
    named = subject.rpartition(".")[2]
    return named if _DIGEST.match(named) else ""
