"""What agents may do on the bus, and what services do for them.

An agent publishes its own subjects, reads its orders and sends requests; its account allows the
subjects `agents.<agent>.<request>` of that agent only, so the subject names the sender. A service
does everything else that an agent needs of JetStream: any service with access to the log and the
blobs can answer; schedulers do. So an agent's credentials allow nothing more
(`shared.servers.nats`).
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.blobs import BLOB_BYTES_MAX, BlobNotFound, BlobStore, describe_blob
from shared.bus import Inbox
from shared.errors import Failed
from shared.event_log import RecordedEvent
from shared.events import Blob
from shared.nats.blobs import upload
from shared.nats.bus import NatsBus
from shared.nats.connection import (
    REQUEST_ERRORS,
    RequestDenied,
    StoredMessage,
    TemporaryError,
    get_message,
    request,
    retry_request,
)
from shared.nats.event_log import NatsLog
from shared.nats.inbox import (
    NatsInbox,
    agent_inbox_config,
    consumer_settings,
    read_event,
)
from shared.nats.pull import create_consumer, delivery_start, find_consumer
from shared.nats.streams import Settings, stream_state
from shared.subjects import history_of, last_token

log = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")

INBOX, EVENT, BLOB = "inbox", "event", "blob"
STATUS, SIZE = "Warpboard-Status", "Warpboard-Size"
OK, BAD, MISSING, FAILED = "200", "400", "404", "503"
CHUNK_BYTES = 512 * 1024
CONCURRENT_MAX = 32
# An agent waits two seconds for an answer, then repeats the request.
ANSWER_S_MAX = 2.0
CACHE_BYTES_MAX = 128 * 1024 * 1024
# How many blobs are read at once, each of 64 MiB at most.
LOADS_MAX = 4
WAITING_MAX = 64


class InboxRequest(msgspec.Struct, frozen=True):
    """Prepare my inbox of orders, after this sequence; without one, for future orders."""

    after: int | None = None


class InboxResponse(msgspec.Struct, frozen=True):
    """The inbox is ready; `last` is the last sequence of the log."""

    last: int


class EventRequest(msgspec.Struct, frozen=True):
    """Return the event of one of my runs that follows a sequence."""

    run: str
    after: int


class EventResponse(msgspec.Struct, frozen=True):
    """An event's sequence and id; 0 and "" if there is none."""

    seq: int = 0
    id: str = ""


class BlobRequest(msgspec.Struct, frozen=True):
    """Return the bytes of a blob from an offset; whoever knows a digest may read the blob."""

    digest: str
    offset: int = 0


class SingleFlight(Generic[Key, T]):
    """Calls by key, of which only one runs at a time.

    Who asks first may be cancelled: the call goes on for the others. Its error is raised for all
    who wait for it.
    """

    def __init__(self) -> None:
        self._running: dict[Key, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        """Return how many calls run."""
        return len(self._running)

    def __contains__(self, key: Key) -> bool:
        """Return whether a call runs for this key."""
        return key in self._running

    async def join(self, key: Key, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the call that runs for this key; start it if there is none."""
        if key not in self._running:
            task = self._running[key] = asyncio.create_task(call())
            task.add_done_callback(partial(self._forget, key))
        return await asyncio.shield(self._running[key])

    def cancel(self) -> None:
        """Cancel all calls."""
        for task in self._running.values():
            task.cancel()

    def _forget(self, key: Key, task: "asyncio.Task[T]") -> None:
        del self._running[key]
        if not task.cancelled():
            # Read, so that asyncio logs no error that nobody waits for any more.
            task.exception()


class AgentRequests:
    """Answers the requests of all agents; several services may do so at once."""

    def __init__(self, nc: Client, blobs: BlobStore) -> None:
        self._nc = nc
        self._blobs = blobs
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._loading: SingleFlight[str, bytes] = SingleFlight()
        self._loads = asyncio.Semaphore(LOADS_MAX)
        self._running: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, Callable[[str, bytes], Awaitable[tuple[bytes, int]]]] = {
            INBOX: self._handle_inbox,
            EVENT: self._handle_event,
            BLOB: self._handle_blob,
        }

    async def serve(self) -> None:
        """Answer until the connection is closed."""
        subscription = await self._nc.subscribe("agents.*.*", queue="agents")
        try:
            async for message in subscription.messages:
                while len(self._running) >= CONCURRENT_MAX:
                    await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._handle(message))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
        finally:
            self._loading.cancel()
            for unfinished in self._running:
                unfinished.cancel()
            if not self._nc.is_closed:
                await subscription.unsubscribe()

    async def _handle(self, message: Msg) -> None:
        _, agent, request = message.subject.split(".")
        data, headers = b"", {STATUS: OK}
        try:
            subjects.agent(agent)
            if request not in self._handlers:
                raise ValueError("unknown request")  # noqa: TRY301  (logged below, as for others)
            async with asyncio.timeout(ANSWER_S_MAX):
                data, size = await self._handlers[request](agent, message.data)
            headers[SIZE] = str(size)
        except BlobNotFound:
            headers[STATUS] = MISSING
        except (ValueError, msgspec.MsgspecError) as error:
            log.warning("agent %s sent an invalid request %s: %s", agent, request, error)
            headers[STATUS] = BAD
        except (*REQUEST_ERRORS, Failed) as error:
            log.info("could not answer agent %s on %s: %s", agent, request, error)
            headers[STATUS] = FAILED
        if message.reply and not self._nc.is_closed:
            await self._nc.publish(message.reply, data, headers=headers)

    async def _handle_inbox(self, agent: str, body: bytes) -> tuple[bytes, int]:
        """Create the consumer of an agent's orders, which outlives the agent's processes."""
        request = msgspec.json.decode(body, type=InboxRequest)
        last = (await stream_state(self._nc, subjects.STREAM)).last_seq
        after = last if request.after is None else min(max(request.after, 0), last)
        reading = agent_inbox_config(agent)
        if await find_consumer(self._nc, subjects.STREAM, reading.consumer) is None:
            place = delivery_start(after + 1) | {"mem_storage": True}
            settings = consumer_settings(reading) | place
            await create_consumer(self._nc, subjects.STREAM, settings)
        return _encode_response(InboxResponse(last))

    async def _handle_event(self, agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.json.decode(body, type=EventRequest)
        history = subjects.history_subject(subjects.run(agent, request.run))
        query: dict[str, object] = {"seq": request.after + 1, "next_by_subj": history}
        event = await get_message(self._nc, subjects.STREAM, query)
        return _encode_response(
            EventResponse() if event is None else EventResponse(event.seq, event.id)
        )

    async def _handle_blob(self, _agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.json.decode(body, type=BlobRequest)
        data = await self._read_blob(request.digest)
        if not 0 <= request.offset <= len(data):
            raise ValueError(f"a blob of {len(data)} bytes has no offset {request.offset}")
        return data[request.offset : request.offset + CHUNK_BYTES], len(data)

    async def _read_blob(self, digest: str) -> bytes:
        """Read a blob, cached for its next chunk and for the next agent that runs its problem.

        Reading may take longer than an answer may: it continues, for the repeated request.
        """
        if digest in self._cache:
            self._cache.move_to_end(digest)
            return self._cache[digest]
        if digest not in self._loading and len(self._loading) >= WAITING_MAX:
            raise TemporaryError(f"{WAITING_MAX} blobs are being read")
        return await self._loading.join(digest, lambda: self._load(digest))

    async def _load(self, digest: str) -> bytes:
        async with self._loads:
            data = self._cache[digest] = await self._blobs.get(digest)
        while sum(map(len, self._cache.values())) > CACHE_BYTES_MAX:
            self._cache.popitem(last=False)
        return data


def _encode_response(response: InboxResponse | EventResponse) -> tuple[bytes, int]:
    body = msgspec.json.encode(response)
    return body, len(body)


REFUSED = 400


async def _request_data(nc: Client, agent: str, name: str, body: object) -> tuple[bytes, int]:
    """Return the data of a response and the size it names.

    Errors: BlobNotFound; temporary and permanent refusals, as for requests to JetStream.
    """
    subject = subjects.agent_request(agent, name)
    message = await request(nc, subject, msgspec.json.encode(body))
    headers = message.headers or {}
    status = headers.get(STATUS, FAILED)
    if status == OK:
        return message.data, int(headers[SIZE])
    if status == MISSING:
        raise BlobNotFound(getattr(body, "digest", ""))
    if status == FAILED:
        raise TemporaryError(f"no service could answer the request {name}")
    raise RequestDenied(REFUSED, f"the services refused the request {name}: {body}")


async def _request_value(
    nc: Client, agent: str, name: str, body: object, response_type: type[T]
) -> T:
    data, _ = await _request_data(nc, agent, name, body)
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


class AgentLog(NatsLog):
    """The log for an agent: it appends to its own runs, and reads nothing."""

    def __init__(self, nc: Client, agent: str) -> None:
        super().__init__(nc)
        self._agent = agent

    async def _next_event(self, agg: str, after: int) -> StoredMessage | None:
        body = EventRequest(last_token(history_of(agg)), after)
        event = await _request_value(self._nc, self._agent, EVENT, body, EventResponse)
        return StoredMessage(event.seq, event.id, b"") if event.seq else None


class AgentBlobStore:
    """Blobs for an agent: it stores its own, and gets those whose digests it knows."""

    def __init__(self, nc: Client, agent: str) -> None:
        self._nc = nc
        self._agent = agent

    async def put(self, data: bytes, media: str = "application/octet-stream") -> Blob:
        """Store the bytes and return their description; see the port."""
        blob = describe_blob(data, media)
        await upload(self._nc, self._agent, blob.digest, data)
        return blob

    async def get(self, digest: str) -> bytes:
        """Return the bytes, checked against the digest; see the port."""
        data, size = b"", 1
        while len(data) < size:
            request = BlobRequest(digest, len(data))
            chunk, size = await retry_request(
                self._nc, partial(_request_data, self._nc, self._agent, BLOB, request)
            )
            if size > BLOB_BYTES_MAX or (not chunk and size):
                raise Failed(f"blob {digest} cannot be read: its size does not match its chunks")
            data += chunk
        if hashlib.sha256(data).hexdigest() != digest:
            raise BlobNotFound(digest)
        return data
