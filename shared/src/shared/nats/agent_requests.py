"""What services answer to agents, which may ask JetStream for nothing but their orders.

An agent's account has the subjects `agents.<agent>.<request>` of that agent alone, so the subject
says who asks. Any service that holds the log and the blobs can answer; schedulers do.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.blobs import Blobs, Missing
from shared.errors import Failed
from shared.nats.inbox import agent_reading, beginning, consumer_settings
from shared.nats.pull import create_consumer
from shared.nats.requests import NO_CONSUMER, Denied, Passing, ask, find
from shared.nats.streams import state

log = logging.getLogger(__name__)

INBOX, EVENT, BLOB = "inbox", "event", "blob"
STATUS, SIZE = "Warpboard-Status", "Warpboard-Size"
OK, BAD, MISSING, FAILED = "200", "400", "404", "503"
PIECE_BYTES = 512 * 1024
AT_ONCE_MAX = 32
# An agent waits two seconds for an answer, then asks again.
ANSWER_S_MAX = 2.0
CACHE_BYTES_MAX = 128 * 1024 * 1024
# So many blobs are read at once, each of 64 MiB at most.
LOADS_MAX = 4
WAITING_MAX = 64


class InboxRequest(msgspec.Struct, frozen=True):
    """Have my orders ready for me, after this sequence; without one, those to come."""

    after: int | None = None


class InboxResponse(msgspec.Struct, frozen=True):
    """The orders can be read; `last` is where the log ends."""

    last: int


class EventRequest(msgspec.Struct, frozen=True):
    """Which event of one of my runs comes after a sequence?"""

    run: str
    after: int


class EventResponse(msgspec.Struct, frozen=True):
    """An event's sequence and id; 0 and "" if there is none."""

    seq: int = 0
    id: str = ""


class BlobRequest(msgspec.Struct, frozen=True):
    """The bytes of a blob from an offset on; whoever knows a digest may have what it names."""

    digest: str
    offset: int = 0


class AgentRequests:
    """Answers the requests of all agents, beside whoever else does."""

    def __init__(self, nc: Client, blobs: Blobs) -> None:
        self._nc = nc
        self._blobs = blobs
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._loading: dict[str, asyncio.Task[bytes]] = {}
        self._loads = asyncio.Semaphore(LOADS_MAX)
        self._answering: set[asyncio.Task[None]] = set()
        self._answer_of: dict[str, Callable[[str, bytes], Awaitable[tuple[bytes, int]]]] = {
            INBOX: self._inbox,
            EVENT: self._event,
            BLOB: self._blob,
        }

    async def serve(self) -> None:
        """Answer until the connection is closed."""
        subscription = await self._nc.subscribe("agents.*.*", queue="agents")
        try:
            async for message in subscription.messages:
                while len(self._answering) >= AT_ONCE_MAX:
                    await asyncio.wait(self._answering, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.create_task(self._respond(message))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        finally:
            for unfinished in (*self._answering, *self._loading.values()):
                unfinished.cancel()
            if not self._nc.is_closed:
                await subscription.unsubscribe()

    async def _respond(self, message: Msg) -> None:
        _, agent, what = message.subject.split(".")
        data, headers = b"", {STATUS: OK}
        try:
            subjects.agent(agent)
            answer = self._answer_of.get(what, self._unknown)
            async with asyncio.timeout(ANSWER_S_MAX):
                data, size = await answer(agent, message.data)
            headers[SIZE] = str(size)
        except Missing:
            headers[STATUS] = MISSING
        except (ValueError, msgspec.MsgspecError) as error:
            log.warning("agent %s asked for %s what cannot be answered: %s", agent, what, error)
            headers[STATUS] = BAD
        except (TimeoutError, Failed, Denied, Passing, nats.errors.Error) as error:
            log.info("agent %s was not answered for %s: %s", agent, what, error)
            headers[STATUS] = FAILED
        if message.reply and not self._nc.is_closed:
            await self._nc.publish(message.reply, data, headers=headers)

    @staticmethod
    async def _unknown(_agent: str, _body: bytes) -> tuple[bytes, int]:
        raise ValueError("there is no such request")

    async def _inbox(self, agent: str, body: bytes) -> tuple[bytes, int]:
        """Have the consumer of an agent's orders, which outlives the agent's processes."""
        asked = msgspec.json.decode(body, type=InboxRequest)
        last = (await state(self._nc, subjects.STREAM)).last_seq
        after = last if asked.after is None else min(max(asked.after, 0), last)
        reading = agent_reading(agent)
        try:
            await ask(self._nc, f"CONSUMER.INFO.{subjects.STREAM}.{reading.consumer}")
        except Denied as denied:
            if denied.code != NO_CONSUMER:
                raise
            place = beginning(after + 1) | {"mem_storage": True}
            settings = consumer_settings(reading) | place
            await create_consumer(self._nc, subjects.STREAM, settings)
        return _encoded(InboxResponse(last))

    async def _event(self, agent: str, body: bytes) -> tuple[bytes, int]:
        asked = msgspec.json.decode(body, type=EventRequest)
        history = subjects.history_subject(subjects.run(agent, asked.run))
        which: dict[str, object] = {"seq": asked.after + 1, "next_by_subj": history}
        found = await find(self._nc, subjects.STREAM, which)
        return _encoded(EventResponse() if found is None else EventResponse(found.seq, found.id))

    async def _blob(self, _agent: str, body: bytes) -> tuple[bytes, int]:
        asked = msgspec.json.decode(body, type=BlobRequest)
        data = await self._bytes(asked.digest)
        if not 0 <= asked.offset <= len(data):
            raise ValueError(f"a blob of {len(data)} bytes has no offset {asked.offset}")
        return data[asked.offset : asked.offset + PIECE_BYTES], len(data)

    async def _bytes(self, digest: str) -> bytes:
        """A blob, kept for the next piece of it, and for the next agent that runs its problem.

        To read it may take longer than an answer may: it is read on for who asks again.
        """
        if digest in self._cache:
            self._cache.move_to_end(digest)
            return self._cache[digest]
        if digest not in self._loading:
            if len(self._loading) >= WAITING_MAX:
                raise Passing(f"{WAITING_MAX} blobs are being read")
            self._loading[digest] = asyncio.create_task(self._load(digest))
            self._loading[digest].add_done_callback(lambda task: self._loaded(digest, task))
        return await asyncio.shield(self._loading[digest])

    async def _load(self, digest: str) -> bytes:
        async with self._loads:
            return await self._blobs.get(digest)

    def _loaded(self, digest: str, task: "asyncio.Task[bytes]") -> None:
        del self._loading[digest]
        if task.cancelled() or task.exception() is not None:
            return
        self._cache[digest] = task.result()
        while sum(map(len, self._cache.values())) > CACHE_BYTES_MAX:
            self._cache.popitem(last=False)


def _encoded(response: InboxResponse | EventResponse) -> tuple[bytes, int]:
    body = msgspec.json.encode(response)
    return body, len(body)
