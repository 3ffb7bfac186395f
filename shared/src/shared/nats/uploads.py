"""Blobs that agents send: stored once their digest is checked, large ones assembled from chunks.

Chunks lie in the stream UPLOADS, each agent's under its own name, until the last request for their
blob; the server removes what was abandoned after an hour.
"""

import hashlib
import re

import msgspec
from nats.aio.client import Client

from shared.blobs import BLOB_BYTES_MAX, BlobNotFound, BlobStore
from shared.nats.connection import api_request, iter_messages, publish, retry_request
from shared.nats.streams import UPLOAD_CHUNK_BYTES
from shared.single_flight import SingleFlight
from shared.subjects import UPLOADS

CHUNKS_MAX = BLOB_BYTES_MAX // UPLOAD_CHUNK_BYTES
# Blobs that are being assembled, each of 64 MiB at most.
ASSEMBLIES_MAX = 4
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}\Z")


class UploadRequest(msgspec.Struct, frozen=True):
    """Store a blob of at most one chunk."""

    digest: str
    data: bytes


class ChunkRequest(msgspec.Struct, frozen=True):
    """Keep one chunk of a blob; `upload` names those that belong together."""

    upload: str
    place: int
    data: bytes


class AssemblyRequest(msgspec.Struct, frozen=True):
    """Store the blob that consists of the first `chunks` of an upload."""

    digest: str
    upload: str
    chunks: int


class Uploads:
    """Stores what agents send. Its methods raise ValueError for what is not as it must be."""

    def __init__(self, nc: Client, blobs: BlobStore) -> None:
        self._nc = nc
        self._blobs = blobs
        self._assembling: SingleFlight[tuple[str, str], None] = SingleFlight()

    async def store(self, request: UploadRequest) -> None:
        """Store a small blob."""
        _check_size(request.data)
        _check_digest(request.digest, request.data)
        await self._blobs.put(request.data)

    async def store_chunk(self, agent: str, request: ChunkRequest) -> None:
        """Keep a chunk until its blob is assembled; a repeat replaces it."""
        _check_size(request.data)
        if not 0 <= request.place < CHUNKS_MAX:
            raise ValueError(f"a blob has no chunk {request.place}")
        subject = f"{_upload_subject(agent, request.upload)}.{request.place}"
        await publish(self._nc, subject, request.data, {})

    async def assemble(self, agent: str, request: AssemblyRequest) -> bool:
        """Store the blob of an upload's chunks, or join who does; False if there is no room now.

        It may take longer than an answer may: then it continues, for the repeated request.
        """
        if not 0 < request.chunks <= CHUNKS_MAX:
            raise ValueError(f"a blob does not consist of {request.chunks} chunks")
        key = (agent, request.upload)
        if key not in self._assembling and len(self._assembling) >= ASSEMBLIES_MAX:
            return False
        await self._assembling.join(key, lambda: self._assemble(agent, request))
        return True

    def cancel(self) -> None:
        """Stop what is being assembled."""
        self._assembling.cancel()

    async def _assemble(self, agent: str, request: AssemblyRequest) -> None:
        subject = _upload_subject(agent, request.upload)
        chunks = {
            int(message.subject.rpartition(".")[2]): message.data
            async for message in iter_messages(self._nc, UPLOADS, f"{subject}.*", CHUNKS_MAX)
        }
        data = b"".join(chunks.pop(place, b"") for place in range(request.chunks))
        try:
            if hashlib.sha256(data).hexdigest() == request.digest:
                await self._blobs.put(data)
            else:
                await self._check_stored(request.digest)
        except ValueError:
            await self._remove_chunks(subject)
            raise
        # Not after another error, or when this service stops: the agent repeats the request.
        await self._remove_chunks(subject)

    async def _remove_chunks(self, subject: str) -> None:
        purge = {"filter": f"{subject}.*"}
        await retry_request(
            self._nc, lambda: api_request(self._nc, f"STREAM.PURGE.{UPLOADS}", purge)
        )

    async def _check_stored(self, digest: str) -> None:
        """Check that the blob is stored already.

        Another service may have assembled it, whose answer was lost, and remove its chunks by now.
        """
        try:
            await self._blobs.get(digest)
        except BlobNotFound as missing:
            reason = f"the chunks have not the digest {digest[:64]}, or are gone: send them again"
            raise ValueError(reason) from missing


def _check_size(data: bytes) -> None:
    if len(data) > UPLOAD_CHUNK_BYTES:
        raise ValueError(f"{len(data)} bytes are over {UPLOAD_CHUNK_BYTES} for one request")


def _check_digest(digest: str, data: bytes) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{len(data)} bytes do not have the digest {digest[:64]}")


def _upload_subject(agent: str, upload: str) -> str:
    if not _UPLOAD_ID.match(upload):
        raise ValueError("an upload is named by 32 hexadecimal digits")
    return f"uploads.{agent}.{upload}"
