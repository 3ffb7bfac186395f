"""The ports as an agent has them: it publishes its own subjects, reads its orders, and asks.

Whatever else an agent needs of JetStream, a service does for it (`shared.nats.agent_requests`), so
that an agent's credentials open nothing more (`shared.rights`).
"""

import hashlib
from functools import partial
from typing import TypeVar

import msgspec
from nats.aio.client import Client

from shared import subjects
from shared.blobs import BLOB_BYTES_MAX, Missing, named
from shared.bus import Inbox
from shared.errors import Failed
from shared.event_log import Recorded
from shared.events import Blob
from shared.nats.agent_requests import (
    BLOB,
    EVENT,
    FAILED,
    INBOX,
    MISSING,
    OK,
    SIZE,
    STATUS,
    BlobRequest,
    EventRequest,
    EventResponse,
    InboxRequest,
    InboxResponse,
)
from shared.nats.bus import NatsBus
from shared.nats.event_log import NatsLog
from shared.nats.inbox import NatsInbox, agent_reading, read_event
from shared.nats.requests import Denied, Passing, Stored, answer, patiently
from shared.nats.streams import Settings
from shared.nats.uploads import upload
from shared.subjects import history_of, last_token

REFUSED = 400
T = TypeVar("T")


async def _request(nc: Client, agent: str, what: str, body: object) -> tuple[bytes, int]:
    """The data of an answer and the size it names; errors: Missing, Denied, Passing."""
    subject = subjects.agent_request(agent, what)
    message = await answer(nc, subject, msgspec.json.encode(body))
    headers = message.headers or {}
    status = headers.get(STATUS, FAILED)
    if status == OK:
        return message.data, int(headers[SIZE])
    if status == MISSING:
        raise Missing(getattr(body, "digest", ""))
    if status == FAILED:
        raise Passing(f"no service could answer the request {what} now")
    raise Denied(REFUSED, f"the services refuse the request {what}: {body}")


async def _ask(nc: Client, agent: str, what: str, body: object, kind: type[T]) -> T:
    data, _ = await _request(nc, agent, what, body)
    return msgspec.json.decode(data, type=kind)


async def open_inbox(nc: Client, agent: str) -> int:
    """Have the agent's orders ready to be read, and return where the log ends. Errors: Failed."""
    body = InboxRequest()
    found = await patiently(nc, lambda: _ask(nc, agent, INBOX, body, InboxResponse))
    return found.last


class AgentBus(NatsBus):
    """The bus of one agent: its heartbeats, what it says in passing, and its orders."""

    def __init__(self, nc: Client, agent: str) -> None:
        super().__init__(nc)
        self._agent = agent

    async def inbox(self, agent: str, after: int = 0) -> Inbox:
        """The agent's orders; see the port."""
        assert agent == self._agent, f"the orders of {agent} are not for {self._agent}"
        return AgentInbox(self._nc, agent, after)

    async def _make_leases(self) -> None:
        """Nothing: schedulers make the bucket of heartbeats anew, and soon."""


class AgentInbox(NatsInbox):
    """An agent's orders, by the consumer that a service makes for it."""

    def __init__(self, nc: Client, agent: str, after: int) -> None:
        super().__init__(nc, agent_reading(agent, after))
        self._agent = agent
        self._pull.create = self._create

    async def _settings(self) -> Settings:
        return self._beginning(self._reading.after)

    async def _create(self, settings: Settings) -> str:
        first = settings["opt_start_seq"]
        assert isinstance(first, int), "_beginning gives a sequence"
        await _ask(self._nc, self._agent, INBOX, InboxRequest(first - 1), InboxResponse)
        return self._reading.consumer

    async def _meant(self, place: int, body: bytes) -> Recorded:
        return read_event(place, body)


class AgentLog(NatsLog):
    """The log as an agent has it: it appends to its own runs, and reads nothing."""

    def __init__(self, nc: Client, agent: str) -> None:
        super().__init__(nc)
        self._agent = agent

    async def _next(self, agg: str, after: int) -> Stored | None:
        body = EventRequest(last_token(history_of(agg)), after)
        found = await _ask(self._nc, self._agent, EVENT, body, EventResponse)
        return Stored(found.seq, found.id, b"") if found.seq else None


class AgentBlobs:
    """Blobs as an agent has them: it keeps its own, and gets those whose digests it was told."""

    def __init__(self, nc: Client, agent: str) -> None:
        self._nc = nc
        self._agent = agent

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Keep the bytes before returning their name; see the port."""
        if len(data) > BLOB_BYTES_MAX:
            raise ValueError(f"a blob of {len(data)} bytes is over {BLOB_BYTES_MAX}")
        blob = named(data, media)
        await upload(self._nc, self._agent, blob.digest, data)
        return blob

    async def get(self, digest: str) -> bytes:
        """The bytes, checked against the digest; see the port."""
        data, size = b"", 1
        while len(data) < size:
            piece, size = await patiently(self._nc, partial(self._piece, digest, len(data)))
            if size > BLOB_BYTES_MAX or (not piece and size):
                raise Failed(f"blob {digest} cannot be had: its pieces make no whole")
            data += piece
        if hashlib.sha256(data).hexdigest() != digest:
            raise Missing(digest)
        return data

    async def _piece(self, digest: str, offset: int) -> tuple[bytes, int]:
        return await _request(self._nc, self._agent, BLOB, BlobRequest(digest, offset))
