"""What an agent does on the bus: it reads its orders, sends heartbeats, and makes requests.

Its account allows little more (`shared.servers.nats`); services answer its requests
(`shared.nats.agent_requests`).
"""

import hashlib
import logging
import secrets
import time
from functools import partial
from typing import TypeVar

import msgspec
from nats.aio.client import Client

from shared import subjects
from shared.blobs import BLOB_BYTES_MAX, BlobNotFound, describe_blob
from shared.bus import Inbox
from shared.errors import Failed
from shared.event_log import Conflict, LogCounts, NewEvent, RecordedEvent
from shared.events import Blob
from shared.nats.agent_requests import (
    ASSEMBLY,
    BLOB,
    CHUNK,
    CONFLICT,
    FAILED,
    INBOX,
    LIMITED,
    MISSING,
    OK,
    REPORT,
    SIZE,
    STATUS,
    UPLOAD,
    BlobRequest,
    InboxRequest,
    InboxResponse,
)
from shared.nats.bus import NatsBus
from shared.nats.connection import RequestDenied, TemporaryError, request, retry_request
from shared.nats.inbox import NatsInbox, agent_inbox_config, read_event
from shared.nats.streams import UPLOAD_CHUNK_BYTES, Settings
from shared.nats.uploads import AssemblyRequest, ChunkRequest, UploadRequest
from shared.reports import ReportRequest, ReportResponse
from shared.wire import encode_envelope

log = logging.getLogger(__name__)

T = TypeVar("T")

REFUSED = 400


class RequestConflict(Exception):  # noqa: N818
    """The services refused an event: it is not the next of its history, or not the sender's."""


async def ask_services(nc: Client, subject: str, body: bytes) -> tuple[bytes, int]:
    """Send a request that a service answers; return the response's data and the size it names.

    Errors: BlobNotFound; RequestConflict; temporary and permanent refusals, as for requests to
    JetStream.
    """
    name = subjects.last_token(subject)
    message = await request(nc, subject, body)
    headers = message.headers or {}
    status = headers.get(STATUS, FAILED)
    if status == OK:
        return message.data, int(headers[SIZE])
    if status == MISSING:
        raise BlobNotFound(name)
    if status == CONFLICT:
        raise RequestConflict
    if status in (FAILED, LIMITED):
        raise TemporaryError(f"no service could answer the request {name}")
    raise RequestDenied(REFUSED, f"the services refused the request {name}")


async def _request_data(nc: Client, agent: str, name: str, body: bytes) -> tuple[bytes, int]:
    return await ask_services(nc, subjects.agent_request(agent, name), body)


async def _request_value(
    nc: Client, agent: str, name: str, body: object, response_type: type[T]
) -> T:
    data, _ = await _request_data(nc, agent, name, msgspec.json.encode(body))
    return msgspec.json.decode(data, type=response_type)


async def open_inbox(nc: Client, agent: str) -> int:
    """Create the inbox of the agent's orders, and return the last sequence. Errors: Failed."""
    body = InboxRequest()
    response = await retry_request(
        nc, lambda: _request_value(nc, agent, INBOX, body, InboxResponse)
    )
    return response.last


class AgentBus(NatsBus):
    """The bus of one agent: its heartbeats, its progress messages, and its orders."""

    def __init__(self, nc: Client, agent: str) -> None:
        super().__init__(nc)
        self._agent = agent

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """Open the agent's orders; see the port."""
        assert agent == self._agent, f"the orders of {agent} are not for {self._agent}"
        return AgentInbox(self._nc, agent, after)

    async def _create_leases_bucket(self) -> None:
        """Do nothing: schedulers soon recreate the bucket of heartbeats."""


class AgentInbox(NatsInbox):
    """An agent's orders, read with a consumer that a service creates for it."""

    def __init__(self, nc: Client, agent: str, after: int) -> None:
        super().__init__(nc, agent_inbox_config(agent, after))
        self._agent = agent
        self._pull.create = self._create_consumer

    async def _consumer_settings(self) -> Settings:
        return self._delivery_start(self._config.after)

    async def _create_consumer(self, settings: Settings) -> str:
        first = settings["opt_start_seq"]
        assert isinstance(first, int), "_delivery_start returns a sequence"
        await _request_value(self._nc, self._agent, INBOX, InboxRequest(first - 1), InboxResponse)
        return self._config.consumer

    async def _resolve_event(self, place: int, body: bytes) -> RecordedEvent:
        return read_event(place, body)


class AgentLog:
    """The log for an agent: it sends its reports to services, which append them.

    While no service answers, it repeats a report; the log keeps one.
    """

    silent_s = 0.0

    def __init__(self, nc: Client, agent: str) -> None:
        self._nc = nc
        self._agent = agent
        self.counts = LogCounts()

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and re-established."""
        return self._nc.stats["reconnects"]

    async def append(self, event: NewEvent) -> int:
        """Store a report and return its sequence.

        Errors: Conflict if the lease is over, or the services refuse it; Failed if no service
        answered in 30 s.
        """
        body = ReportRequest(msgspec.Raw(encode_envelope(event.envelope)), event.expected)
        started_at = time.monotonic()
        try:
            response = await retry_request(
                self._nc,
                lambda: _request_value(self._nc, self._agent, REPORT, body, ReportResponse),
            )
        except RequestConflict as error:
            self.counts.conflicts += 1
            raise Conflict(event.envelope.aggregate, event.expected or 0) from error
        self.counts.append.add(time.monotonic() - started_at)
        return response.seq


class AgentBlobStore:
    """Blobs for an agent: services store its own, and return those whose digests it knows."""

    def __init__(self, nc: Client, agent: str) -> None:
        self._nc = nc
        self._agent = agent

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Store the bytes and return their description; see the port."""
        blob = describe_blob(data, media)
        if len(data) <= UPLOAD_CHUNK_BYTES:
            await self._send(UPLOAD, UploadRequest(blob.digest, data))
            return blob
        # A new name for the chunks, so that leftovers of a killed writer cannot mix in.
        upload, starts = secrets.token_hex(16), range(0, len(data), UPLOAD_CHUNK_BYTES)
        for place, start in enumerate(starts):
            chunk = data[start : start + UPLOAD_CHUNK_BYTES]
            await self._send(CHUNK, ChunkRequest(upload, place, chunk))
        await self._send(ASSEMBLY, AssemblyRequest(blob.digest, upload, len(starts)))
        return blob

    async def _send(self, name: str, body: object) -> None:
        """Send what services are to store, until one has. Errors: Failed."""
        data = msgspec.msgpack.encode(body)
        await retry_request(self._nc, partial(_request_data, self._nc, self._agent, name, data))

    async def get(self, digest: str) -> bytes:
        """Return the bytes, checked against the digest; see the port."""
        data, size = b"", 1
        while len(data) < size:
            request = msgspec.json.encode(BlobRequest(digest, len(data)))
            chunk, size = await retry_request(
                self._nc, partial(_request_data, self._nc, self._agent, BLOB, request)
            )
            if size > BLOB_BYTES_MAX or (not chunk and size):
                raise Failed(f"blob {digest} cannot be read: its size does not match its chunks")
            data += chunk
        if hashlib.sha256(data).hexdigest() != digest:
            raise BlobNotFound(digest)
        return data
