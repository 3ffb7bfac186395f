"""What an agent sends to be stored is checked, counted, and does not stay if nobody wants it."""

import hashlib
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest

from shared.allowances import Allowance
from shared.blobs import BlobNotFound
from shared.nats import streams
from shared.nats.agent import AgentBlobStore
from shared.nats.agent_requests import ASSEMBLY, BAD, CHUNK, LIMITED, OK, STATUS, UPLOAD
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.streams import UPLOAD_CHUNK_BYTES, stream_state
from shared.nats.uploads import CHUNKS_MAX, AssemblyRequest, ChunkRequest, UploadRequest, Uploads
from shared.servers.nats import NatsServer
from shared.subjects import BLOBS, UPLOADS
from tests.contracts.agents import AGENT, ANSWER_S_MAX, OTHER, Bus, bus_of, run_id
from tests.support.waits import eventually

pytestmark = pytest.mark.server
# As an agent once sent, under digests that they did not have.
GARBAGE, GARBAGE_BYTES = 60, 500_000
NAME = "ab" * 16


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(
        tmp_path_factory.mktemp("uploads"), users=[f"agent-{AGENT}", f"agent-{OTHER}"]
    )
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[Bus]:
    async with bus_of(server) as bus:
        yield bus


async def send(bus: Bus, name: str, request: object) -> str:
    """Send a request as an agent could, around its own client; return how it is answered."""
    body = msgspec.msgpack.encode(request)
    answer = await bus.agent.request(f"agents.{AGENT}.{name}", body, ANSWER_S_MAX)
    assert answer.headers is not None
    return answer.headers[STATUS]


async def stored_bytes(bus: Bus) -> int:
    """Return how much the streams of blobs and of chunks hold."""
    states = [await stream_state(bus.services, name) for name in (BLOBS, UPLOADS, "OBJ_LARGE")]
    return sum(state.bytes for state in states)


async def test_what_has_another_digest_is_not_stored(bus: Bus) -> None:
    before = await stored_bytes(bus)
    for number in range(GARBAGE):
        digest = hashlib.sha256(f"{number}".encode()).hexdigest()
        assert await send(bus, UPLOAD, UploadRequest(digest, bytes(GARBAGE_BYTES))) == BAD
    assert await stored_bytes(bus) == before


async def test_chunks_of_another_digest_are_removed(bus: Bus) -> None:
    before = await stored_bytes(bus)
    for place in range(3):
        chunk = ChunkRequest(NAME, place, bytes(UPLOAD_CHUNK_BYTES))
        assert await send(bus, CHUNK, chunk) == OK
    assert await stored_bytes(bus) > before
    assert await send(bus, ASSEMBLY, AssemblyRequest("e" * 64, NAME, 3)) == BAD
    assert await stored_bytes(bus) == before


async def test_a_blob_is_stored_by_the_services_alone_and_its_chunks_are_removed(bus: Bus) -> None:
    data = run_id().encode() * 100_000
    digest = (await AgentBlobStore(bus.agent, AGENT).put(data)).digest
    assert await NatsBlobStore(bus.services).get(digest) == data
    assert (await stream_state(bus.services, UPLOADS)).messages == 0


async def test_an_assembly_whose_answer_was_lost_is_repeated(bus: Bus) -> None:
    data = run_id().encode() * 40_000
    digest = hashlib.sha256(data).hexdigest()
    cut = [data[:UPLOAD_CHUNK_BYTES], data[UPLOAD_CHUNK_BYTES:]]
    for place in (1, 0, 1):
        assert await send(bus, CHUNK, ChunkRequest(NAME, place, cut[place])) == OK
    for _ in range(2):
        assert await send(bus, ASSEMBLY, AssemblyRequest(digest, NAME, 2)) == OK
    assert await NatsBlobStore(bus.services).get(digest) == data
    assert await send(bus, ASSEMBLY, AssemblyRequest("e" * 64, NAME, 2)) == BAD


async def test_an_assembly_of_more_chunks_than_a_blob_may_have_is_refused_at_once(bus: Bus) -> None:
    data = run_id().encode()
    digest = hashlib.sha256(data).hexdigest()
    assert await send(bus, CHUNK, ChunkRequest(NAME, 0, data)) == OK
    for chunks in (CHUNKS_MAX + 1, 0, -1):
        assert await send(bus, ASSEMBLY, AssemblyRequest(digest, NAME, chunks)) == BAD
    assert await send(bus, ASSEMBLY, AssemblyRequest(digest, NAME, CHUNKS_MAX)) == OK


async def test_a_repeat_succeeds_while_another_service_removes_the_chunks(bus: Bus) -> None:
    data = run_id().encode() * 40_000
    digest = (await NatsBlobStore(bus.services).put(data)).digest
    chunk = ChunkRequest(NAME, 1, data[UPLOAD_CHUNK_BYTES:])
    assert await send(bus, CHUNK, chunk) == OK
    assert await send(bus, ASSEMBLY, AssemblyRequest(digest, NAME, 2)) == OK
    assert (await stream_state(bus.services, UPLOADS)).messages == 0


async def test_chunks_stay_if_a_service_stops_before_their_blob_is_stored(
    server: NatsServer, bus: Bus
) -> None:
    data = run_id().encode() * 40_000
    digest = hashlib.sha256(data).hexdigest()
    for place, start in enumerate(range(0, len(data), UPLOAD_CHUNK_BYTES)):
        chunk = data[start : start + UPLOAD_CHUNK_BYTES]
        assert await send(bus, CHUNK, ChunkRequest(NAME, place, chunk)) == OK
    closed = await connect(server.login(), "closed")
    await closed.close()
    stopped, request = (
        Uploads(bus.services, NatsBlobStore(closed)),
        AssemblyRequest(digest, NAME, 2),
    )
    with pytest.raises(Exception, match="clos"):
        await stopped.assemble(AGENT, request)
    assert (await stream_state(bus.services, UPLOADS)).messages == 2
    assert await send(bus, ASSEMBLY, request) == OK
    assert await NatsBlobStore(bus.services).get(digest) == data


WRONG = {
    "a chunk that is too large": (CHUNK, ChunkRequest(NAME, 0, bytes(UPLOAD_CHUNK_BYTES + 1))),
    "a chunk too many": (CHUNK, ChunkRequest(NAME, CHUNKS_MAX, b"x")),
    "a chunk before the first": (CHUNK, ChunkRequest(NAME, -1, b"x")),
    "a name with a wildcard": (CHUNK, ChunkRequest("*", 0, b"x")),
    "all chunks of an agent": (ASSEMBLY, AssemblyRequest("e" * 64, ">", 1)),
    "no request": (UPLOAD, [1, 2]),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_request_stores_nothing(bus: Bus, what: str) -> None:
    before = await stored_bytes(bus)
    assert await send(bus, *WRONG[what]) == BAD
    assert await stored_bytes(bus) == before


async def test_an_agent_stores_no_more_than_its_share(bus: Bus) -> None:
    conduct = bus.requests.conduct(AGENT)
    conduct.uploads = Allowance(burst=2 * UPLOAD_CHUNK_BYTES, per_s=0.0)
    statuses = []
    for number in range(5):
        data = f"{number} {run_id()}".encode().ljust(UPLOAD_CHUNK_BYTES)
        request = UploadRequest(hashlib.sha256(data).hexdigest(), data)
        statuses.append(await send(bus, UPLOAD, request))
    assert statuses == [OK, OK, LIMITED, LIMITED, LIMITED]


async def test_an_honest_agent_over_its_share_goes_on_later(bus: Bus) -> None:
    conduct = bus.requests.conduct(AGENT)
    conduct.uploads = Allowance(burst=UPLOAD_CHUNK_BYTES, per_s=8 * UPLOAD_CHUNK_BYTES)
    data = run_id().encode() * 100_000
    digest = (await AgentBlobStore(bus.agent, AGENT).put(data)).digest
    assert await NatsBlobStore(bus.services).get(digest) == data
    assert bus.requests.misconduct == {}


async def test_abandoned_chunks_are_removed_by_the_server(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert streams.UPLOAD_S_MAX == 3600
    monkeypatch.setitem(streams._UPLOADS, "max_age", 1_000_000_000)
    own = NatsServer(tmp_path_factory.mktemp("abandoned"), users=[f"agent-{AGENT}"])
    own.start()
    try:
        async with bus_of(own) as bus:
            assert await send(bus, CHUNK, ChunkRequest(NAME, 0, b"half of it")) == OK
            assert (await stream_state(bus.services, UPLOADS)).messages == 1

            async def is_empty() -> bool:
                return not (await stream_state(bus.services, UPLOADS)).messages

            await eventually(is_empty, ANSWER_S_MAX)
    finally:
        own.stop()


async def test_no_agent_has_what_another_sent_in_part(server: NatsServer, bus: Bus) -> None:
    data = run_id().encode()
    other = await connect(server.login(f"agent-{OTHER}"), "other")
    body = msgspec.msgpack.encode(ChunkRequest(NAME, 0, data))
    await other.request(f"agents.{OTHER}.{CHUNK}", body, ANSWER_S_MAX)
    await other.close()
    digest = hashlib.sha256(data).hexdigest()
    assert await send(bus, ASSEMBLY, AssemblyRequest(digest, NAME, 1)) == BAD
    with pytest.raises(BlobNotFound):
        await NatsBlobStore(bus.services).get(digest)


class Counts:
    """Counts what operators watch."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.sent: list[tuple[str, int]] = []

    def count_refusal(self, agent: str) -> None:
        self.refused.append(agent)

    def count_upload(self, agent: str, size: int) -> None:
        self.sent.append((agent, size))


async def test_bytes_sent_and_requests_refused_are_counted(bus: Bus) -> None:
    bus.requests._metrics = counts = Counts()
    await send(bus, UPLOAD, UploadRequest("e" * 64, b"other bytes"))
    assert (counts.refused, counts.sent) == ([AGENT], [(AGENT, 11)])
    await AgentBlobStore(bus.agent, AGENT).put(b"more")
    assert (counts.refused, counts.sent[1:]) == ([AGENT], [(AGENT, 4)])
