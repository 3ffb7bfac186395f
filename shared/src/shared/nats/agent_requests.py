"""What services do for agents, which may do little on the bus themselves.

An agent sends requests on `agents.<agent>.<request>`; its account allows only its own, so the
subject names the sender. Any service with access to the log and the blobs can answer; schedulers
do. An agent's reports come this way too: they go to the log only if they are the next of a run that
it was given (`shared.reports`). An agent whose requests are refused too often is reported in
`misconduct`.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.allowances import Allowance
from shared.blobs import BlobNotFound, BlobStore
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict, NewEvent
from shared.health import warn_rarely
from shared.nats.connection import (
    REQUEST_ERRORS,
    TemporaryError,
    iter_messages,
)
from shared.nats.event_log import NatsLog, read_stored_event
from shared.nats.inbox import agent_inbox_config, consumer_settings
from shared.nats.pull import create_consumer, delivery_start, find_consumer
from shared.nats.streams import UPLOAD_CHUNK_BYTES, stream_state
from shared.nats.uploads import AssemblyRequest, ChunkRequest, UploadRequest, Uploads
from shared.reports import (
    NOTE,
    NeverGiven,
    ReportRefused,
    ReportRequest,
    ReportResponse,
    RunRecord,
    check_report,
    parse_report,
    read_run,
)
from shared.single_flight import SingleFlight
from shared.subjects import STREAM

log = logging.getLogger(__name__)

INBOX, REPORT, BLOB = "inbox", "report", "blob"
UPLOAD, CHUNK, ASSEMBLY = "upload", "chunk", "assembly"
STATUS, SIZE = "Warpboard-Status", "Warpboard-Size"
OK, BAD, MISSING, CONFLICT, LIMITED, FAILED = "200", "400", "404", "409", "429", "503"
CHUNK_BYTES = UPLOAD_CHUNK_BYTES
CONCURRENT_MAX = 128
# So that an agent with slow requests leaves room for others.
CONCURRENT_PER_AGENT_MAX = 8
# An agent waits two seconds for an answer, then repeats the request.
ANSWER_S_MAX = 2.0
# Within this time an agent has repeated what it could not send while no service listened.
REPEAT_S_MAX = 5.0
CACHE_BYTES_MAX = 128 * 1024 * 1024
# How many blobs are read at once, each of 64 MiB at most.
LOADS_MAX = 4
WAITING_MAX = 64
# A run has an order, three reports and an end: these are far more.
RUN_EVENTS_MAX = 64
# An agent's requests: one that runs nothing but no-op jobs makes 250 a second.
REQUESTS_BURST, REQUESTS_PER_S = 1000.0, 500.0
# The bytes that it sends to be stored: a profile has up to 16 files.
UPLOADS_BURST, UPLOADS_PER_S = 512.0 * 1024**2, 256.0 * 1024
# Refused requests: more of them are misconduct. A report on a run that the agent was never given
# counts as many; an honest agent sends two of them if the log was restored from a backup. One that
# comes too soon counts little: an honest agent repeats it 20 times a second.
REFUSALS_BURST, REFUSALS_PER_S = 100.0, 1.0
NEVER_GIVEN_COST, TOO_SOON_COST = 20.0, 0.05


class InboxRequest(msgspec.Struct, frozen=True):
    """Prepare my inbox of orders, after this sequence; without one, for future orders."""

    after: int | None = None


class InboxResponse(msgspec.Struct, frozen=True):
    """The inbox is ready; `last` is the last sequence of the log."""

    last: int


class BlobRequest(msgspec.Struct, frozen=True):
    """Return the bytes of a blob from an offset; whoever knows a digest may read the blob."""

    digest: str
    offset: int = 0


@dataclass
class Conduct:
    """What one agent asked for lately; there are as many agents as the bus has accounts for."""

    requests: Allowance = field(default_factory=lambda: Allowance(REQUESTS_BURST, REQUESTS_PER_S))
    uploads: Allowance = field(default_factory=lambda: Allowance(UPLOADS_BURST, UPLOADS_PER_S))
    refusals: Allowance = field(default_factory=lambda: Allowance(REFUSALS_BURST, REFUSALS_PER_S))
    running: int = 0

    def may_ask(self) -> bool:
        """Return whether the agent's next request is answered."""
        return self.running < CONCURRENT_PER_AGENT_MAX and self.requests.take()


class _TooSoonError(Exception):
    """The agent asks for more than it may by now."""


# Whether a scheduler knows how far a run of an agent is; None if the log has to be asked.
RunFinder = Callable[[str, str], RunRecord | None]


class ReportGate:
    """Appends agents' reports to the log, each only as the next event of its run.

    `find_run` saves reading the run's history; what it returns may lag behind the log.
    """

    def __init__(self, nc: Client, log: NatsLog, find_run: RunFinder) -> None:
        self._nc = nc
        self._log = log
        self._find_run = find_run

    async def append(self, agent: str, request: ReportRequest) -> int:
        """Append a report and return its sequence.

        Errors: ReportRefused; Conflict if the run went on without it; those of the log.
        """
        report, expected = parse_report(agent, bytes(request.event)), request.expected
        run_id = subjects.last_token(report.aggregate)
        # What a damaged log lacks was not "never given".
        self._log.require_whole()
        run = self._find_run(agent, run_id)
        if run is None or report.type == NOTE or expected != run.version:
            run = await self._read_run(agent, run_id)
        if report.type == NOTE and run.note:
            return run.note
        check_report(run, report, expected, now())
        return await self._log.append(NewEvent(report, expected))

    async def _read_run(self, agent: str, run: str) -> RunRecord:
        """Read a run's history from the leader of the log, which no replica's lag distorts."""
        subject = subjects.history_subject(subjects.run(agent, run))
        messages = iter_messages(self._nc, STREAM, subject, RUN_EVENTS_MAX)
        return read_run([read_stored_event(message) async for message in messages])


class RequestMetrics(Protocol):
    """What operators watch."""

    def count_refusal(self, agent: str) -> None:
        """Count a refused request."""

    def count_upload(self, agent: str, size: int) -> None:
        """Count bytes that an agent sent to be stored."""


class AgentRequests:
    """Answers the requests of all agents; several services may do so at once.

    `misconduct` says for each agent whose requests were refused too often why the last one was;
    who acts on that removes it.
    """

    def __init__(
        self,
        nc: Client,
        blobs: BlobStore,
        log: NatsLog,
        find_run: RunFinder = lambda _agent, _run: None,
        metrics: RequestMetrics | None = None,
    ) -> None:
        self._nc = nc
        self._blobs = blobs
        self._reports = ReportGate(nc, log, find_run)
        self._uploads = Uploads(nc, blobs)
        self._metrics = metrics
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._loading: SingleFlight[str, bytes] = SingleFlight()
        self._loads = asyncio.Semaphore(LOADS_MAX)
        self._waiting: deque[tuple[float, Msg]] = deque()
        self._has_arrived = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._conducts: dict[str, Conduct] = {}
        self._listening_since: float | None = None
        self._reconnects = 0
        self.misconduct: dict[str, str] = {}
        self._handlers: dict[str, Callable[[str, bytes], Awaitable[tuple[bytes, int]]]] = {
            INBOX: self._handle_inbox,
            REPORT: self._handle_report,
            BLOB: self._handle_blob,
            UPLOAD: self._handle_upload,
            CHUNK: self._handle_chunk,
            ASSEMBLY: self._handle_assembly,
        }

    def conduct(self, agent: str) -> Conduct:
        """Return what an agent asked for lately."""
        return self._conducts.setdefault(agent, Conduct())

    def has_listened(self) -> bool:
        """Return whether agents that waited for a service have had time to repeat their reports."""
        reconnects = self._nc.stats["reconnects"]
        if self._listening_since is not None and reconnects != self._reconnects:
            self._listening_since, self._reconnects = time.monotonic(), reconnects
        since = self._listening_since
        is_listening = since is not None and self._nc.is_connected
        return is_listening and time.monotonic() - (since or 0.0) > REPEAT_S_MAX

    async def serve(self) -> None:
        """Answer until the connection is closed."""
        subscription = await self._nc.subscribe("agents.*.*", queue="agents")
        self._listening_since = time.monotonic()
        self._reconnects = self._nc.stats["reconnects"]
        try:
            async with asyncio.TaskGroup() as group:
                dispatching = group.create_task(self._dispatch_waiting())
                async for message in subscription.messages:
                    self._waiting.append((time.monotonic(), message))
                    self._has_arrived.set()
                dispatching.cancel()
        finally:
            self._loading.cancel()
            self._uploads.cancel()
            for unfinished in self._running:
                unfinished.cancel()
            if not self._nc.is_closed:
                await subscription.unsubscribe()

    async def _dispatch_waiting(self) -> None:
        """Answer the requests in their order, but those that waited too long not in full.

        Their agents repeat them: if a burst of all agents were answered late, everything would be
        asked again and again, and nothing answered in time any more.
        """
        while True:
            while not self._waiting:
                self._has_arrived.clear()
                await self._has_arrived.wait()
            while len(self._running) >= CONCURRENT_MAX:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
            arrived_at, message = self._waiting.popleft()
            if time.monotonic() - arrived_at > ANSWER_S_MAX:
                await self._answer(message, FAILED)
            else:
                await self._dispatch(message)

    async def _dispatch(self, message: Msg) -> None:
        """Answer a request in a task of its own, unless its agent asks for too much."""
        agent = message.subject.split(".")[1]
        conduct = self.conduct(agent)
        if not conduct.may_ask():
            self._refuse(agent, "it sends more requests than it may", TOO_SOON_COST)
            await self._answer(message, LIMITED)
            return
        conduct.running += 1
        task = asyncio.create_task(self._handle(message))
        self._running.add(task)
        task.add_done_callback(partial(self._end, conduct))

    def _end(self, conduct: Conduct, task: "asyncio.Task[None]") -> None:
        conduct.running -= 1
        self._running.discard(task)

    def _refuse(self, agent: str, reason: str, cost: float = 1.0) -> None:
        if self._metrics is not None:
            self._metrics.count_refusal(agent)
        warn_rarely(log, "agent refused", "refused a request of agent %s: %s", agent, reason)
        if not self.conduct(agent).refusals.take(cost):
            self.misconduct[agent] = f"too many of its requests were refused, the last: {reason}"

    async def _answer(self, message: Msg, status: str, data: bytes = b"", size: int = 0) -> None:
        """Answer, if the connection allows it; otherwise the agent asks again."""
        if message.reply and not self._nc.is_closed:
            headers = {STATUS: status, SIZE: str(size)}
            with suppress(*REQUEST_ERRORS):
                await self._nc.publish(message.reply, data, headers=headers)

    async def _handle(self, message: Msg) -> None:
        _, agent, request = message.subject.split(".")
        data, size, status = b"", 0, OK
        try:
            subjects.agent(agent)
            if request not in self._handlers:
                raise ValueError("unknown request")  # noqa: TRY301  (refused below, as others are)
            async with asyncio.timeout(ANSWER_S_MAX):
                data, size = await self._handlers[request](agent, message.data)
        except BlobNotFound:
            status = MISSING
        except Conflict:
            status = CONFLICT
        except ReportRefused as refused:
            status = CONFLICT
            cost = NEVER_GIVEN_COST if isinstance(refused, NeverGiven) else 1.0
            self._refuse(agent, str(refused), cost)
        except _TooSoonError as too_soon:
            status = LIMITED
            self._refuse(agent, str(too_soon), TOO_SOON_COST)
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            status = BAD
            self._refuse(agent, f"its request {request[:64]} is invalid: {error}")
        except (*REQUEST_ERRORS, Failed) as error:
            status = FAILED
            warn_rarely(log, "agent failed", "could not answer %s of %s: %s", request, agent, error)
        await self._answer(message, status, data, size)

    async def _handle_report(self, agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.json.decode(body, type=ReportRequest)
        return _encode_response(ReportResponse(await self._reports.append(agent, request)))

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

    async def _handle_blob(self, _agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.json.decode(body, type=BlobRequest)
        data = await self._read_blob(request.digest)
        if not 0 <= request.offset <= len(data):
            raise ValueError(f"a blob of {len(data)} bytes has no offset {request.offset}")
        return data[request.offset : request.offset + CHUNK_BYTES], len(data)

    async def _handle_upload(self, agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.msgpack.decode(body, type=UploadRequest)
        self._charge(agent, len(request.data))
        await self._uploads.store(request)
        return b"", 0

    async def _handle_chunk(self, agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.msgpack.decode(body, type=ChunkRequest)
        self._charge(agent, len(request.data))
        await self._uploads.store_chunk(agent, request)
        return b"", 0

    async def _handle_assembly(self, agent: str, body: bytes) -> tuple[bytes, int]:
        request = msgspec.msgpack.decode(body, type=AssemblyRequest)
        if not await self._uploads.assemble(agent, request):
            raise TemporaryError("other blobs are being assembled")
        return b"", 0

    def _charge(self, agent: str, size: int) -> None:
        """Count bytes that an agent sends to be stored. Errors: _TooSoonError."""
        if not self.conduct(agent).uploads.take(size):
            raise _TooSoonError("it sends more bytes to be stored than it may")
        if self._metrics is not None:
            self._metrics.count_upload(agent, size)

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


def _encode_response(response: InboxResponse | ReportResponse) -> tuple[bytes, int]:
    body = msgspec.json.encode(response)
    return body, len(body)
