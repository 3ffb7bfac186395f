"""An agent's credentials allow exactly what it needs, on a real server."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import nats.errors
import pytest
from nats.aio.client import Client

from shared.blobs import BLOB_RETENTION_S, BlobNotFound
from shared.clock import now
from shared.event_log import Conflict
from shared.nats import agent
from shared.nats.agent import AgentBlobStore, AgentBus, AgentLog, AgentRequests, open_inbox
from shared.nats.blobs import NatsBlobStore, list_uploads
from shared.nats.bus import NatsBus
from shared.nats.connection import MESSAGE_ID_HEADER, connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from tests.contracts.samples import new_event, next_delivery
from tests.contracts.servers import restart
from tests.support.waits import eventually

pytestmark = pytest.mark.server
AGENT, OTHER = "a1", "a2"
ANSWER_S_MAX = 10.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server with the accounts of the services and of two agents."""
    server = NatsServer(tmp_path_factory.mktemp("agents"), agents=[AGENT, OTHER])
    try:
        server.start()
        yield server
    finally:
        server.stop()


@dataclass
class Said:
    """The errors that the server reports to a client."""

    errors: list[str] = field(default_factory=list)

    async def hear(self, error: Exception) -> None:
        """Record an error."""
        self.errors.append(str(error))


@dataclass
class Bus:
    """The services' connection, whose requests are answered, and an agent's connection."""

    services: Client
    agent: Client
    refused: Said

    @property
    def log(self) -> NatsLog:
        """The log for services."""
        return NatsLog(self.services)


@asynccontextmanager
async def bus_of(server: NatsServer) -> AsyncIterator[Bus]:
    services = await connect(server.url, "services")
    await ensure_streams(services)
    refused = Said()
    agent = await connect(server.agent_url(AGENT), "agent")
    agent._error_cb = refused.hear
    serving = asyncio.create_task(AgentRequests(services, NatsBlobStore(services)).serve())
    try:
        yield Bus(services, agent, refused)
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await agent.close()
        await services.close()


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[Bus]:
    async with bus_of(server) as bus:
        yield bus


def run_id() -> str:
    """Return a run that no other test uses."""
    return hashlib.sha256(str(now()).encode()).hexdigest()[:16]


async def test_an_agent_reads_its_orders_and_acknowledges_them(bus: Bus) -> None:
    run = run_id()
    last = await open_inbox(bus.agent, AGENT)
    assert last == await bus.log.last()
    seq = await bus.log.append(new_event(f"run.{AGENT}.{run}", 0))
    await bus.log.append(new_event(f"run.{OTHER}.{run}", 0))
    inbox = await AgentBus(bus.agent, AGENT).inbox(AGENT, last)
    delivery = await next_delivery(inbox)
    assert delivery.recorded.seq == seq
    await delivery.ack()
    assert await inbox.next(0.3) is None
    await inbox.close()


async def test_an_agents_report_expects_the_order_and_the_scheduler_the_report(bus: Bus) -> None:
    run = run_id()
    order, report = f"run.{AGENT}.{run}", f"report.{AGENT}.{run}"
    log = AgentLog(bus.agent, AGENT)
    first = await bus.log.append(new_event(order, 0))
    started = new_event(report, first)
    second = await log.append(started)
    assert await log.append(started) == second, "a repeat is told from another's event"
    with pytest.raises(Conflict):
        await bus.log.append(new_event(order, first))
    third = await bus.log.append(new_event(order, second))
    with pytest.raises(Conflict):
        await log.append(new_event(report, second))
    history = await bus.log.history(order)
    assert [event.seq for event in history] == [first, second, third]
    assert [event.envelope.agg for event in history] == [order, report, order]


@pytest.mark.parametrize("size", [0, 10, 64 * 1024, 64 * 1024 + 1, 1_300_000])
async def test_what_an_agent_keeps_services_get_and_the_other_way_round(
    bus: Bus, size: int
) -> None:
    agent, services = AgentBlobStore(bus.agent, AGENT), NatsBlobStore(bus.services)
    mine, theirs = b"m" * size + run_id().encode(), b"t" * size + run_id().encode()
    for _ in range(2):
        blob = await agent.put(mine, "text/plain")
        assert await services.get(blob.digest) == mine
        assert await agent.get(blob.digest) == mine
    digest = (await services.put(theirs)).digest
    assert await agent.get(digest) == theirs
    with pytest.raises(BlobNotFound):
        await agent.get("0" * 64)


async def test_a_blob_that_takes_longer_than_an_answer_may_is_had_all_the_same(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "ANSWER_S_MAX", 0.001)
    data = run_id().encode() * 300_000
    digest = (await NatsBlobStore(bus.services).put(data)).digest
    assert await AgentBlobStore(bus.agent, AGENT).get(digest) == data


async def test_an_agent_can_hide_or_replace_no_blob_of_another(server: NatsServer) -> None:
    async with bus_of(server) as bus:
        services = NatsBlobStore(bus.services)
        data = b"a source " + run_id().encode()
        digest = hashlib.sha256(data).hexdigest()
        liar = await connect(server.agent_url(OTHER), "liar")
        for kind in ("small", "large"):
            await liar.request(f"uploads.{OTHER}.{kind}.{digest}", b"garbage", ANSWER_S_MAX)
        with pytest.raises(BlobNotFound):
            await services.get(digest)
        assert (await AgentBlobStore(bus.agent, AGENT).put(data)).digest == digest
        assert await services.get(digest) == data
        await services.put(data)
        assert await AgentBlobStore(bus.agent, AGENT).get(digest) == data
        await liar.close()


async def test_the_collector_finds_and_removes_what_agents_kept(bus: Bus) -> None:
    agent, services = AgentBlobStore(bus.agent, AGENT), NatsBlobStore(bus.services)
    small, large = run_id().encode(), run_id().encode() * 20_000
    sizes = {(await agent.put(one)).digest: len(one) for one in (small, large)}
    await bus.agent.request(f"uploads.{AGENT}.small.no-digest", b"garbage", ANSWER_S_MAX)
    await bus.agent.request(f"uploads.{AGENT}.large.{'e' * 64}", b"garbage", ANSWER_S_MAX)
    kept = [one async for one in services.kept() if one.place.startswith("upload.")]
    assert {"", "e" * 64} <= {one.digest for one in kept}
    assert sizes == {one.digest: one.bytes for one in kept if one.digest in sizes}
    assert all(one.at > now() - timedelta(seconds=BLOB_RETENTION_S) for one in kept)
    for one in kept:
        assert await services.remove(one)
        await services.remove(one)
    assert await list_uploads(bus.services) == []


async def test_an_agent_outlives_a_restart_of_the_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    own = NatsServer(tmp_path_factory.mktemp("restarted"), agents=[AGENT])
    own.start()
    try:
        async with bus_of(own) as bus:
            last = await open_inbox(bus.agent, AGENT)
            inbox = await AgentBus(bus.agent, AGENT).inbox(AGENT, last)
            first = await bus.log.append(new_event(f"run.{AGENT}.r1", 0))
            delivery = await next_delivery(inbox)
            await delivery.ack()
            restart(own)
            second = await bus.log.append(new_event(f"run.{AGENT}.r2", 0))
            again = await inbox.next(30)
            assert again is not None
            assert (delivery.recorded.seq, again.recorded.seq) == (first, second)
            agents, beating = AgentBus(bus.agent, AGENT), NatsBus(bus.services).beats()
            _, beat = await asyncio.gather(
                agents.beat(AGENT, b"here", 30), asyncio.wait_for(anext(beating), 30)
            )
            assert beat.agent == AGENT
            await inbox.close()
    finally:
        own.stop()


async def refused(bus: Bus, subject: str, body: bytes = b"") -> None:
    """Check that the server refuses a publish of the agent, and that nobody receives it."""
    heard = await bus.services.subscribe(subject) if "$JS" not in subject else None
    await bus.agent.publish(subject, body)
    await bus.agent.flush()
    await eventually(lambda: bus.refused.errors)
    assert "permissions violation for publish" in bus.refused.errors[0], subject
    if heard is not None:
        with pytest.raises((TimeoutError, nats.errors.Error)):
            await heard.next_msg(0.05)
        await heard.unsubscribe()


FORBIDDEN = (
    f"events.report.{OTHER}.r1",
    f"events.run.{AGENT}.r1",
    f"$KV.LEASES.agent.{OTHER}",
    f"uploads.{OTHER}.small.{'a' * 64}",
    f"blobs.{'a' * 64}",
    "$O.LARGE.M.eA==",
    f"agents.{OTHER}.inbox",
    "snapshots.scheduler.0",
    "queue.CPU",
    "$JS.API.INFO",
    "$JS.API.STREAM.NAMES",
    *(
        f"$JS.API.{what}.{stream}"
        for stream in ("EVENTS", "BLOBS", "OBJ_LARGE", "KV_LEASES", "UPLOADS", "SNAPSHOTS")
        for what in (
            "STREAM.INFO",
            "STREAM.CREATE",
            "STREAM.UPDATE",
            "STREAM.DELETE",
            "STREAM.PURGE",
            "STREAM.MSG.GET",
            "STREAM.MSG.DELETE",
            "STREAM.SNAPSHOT",
            "DIRECT.GET",
            "CONSUMER.NAMES",
            "CONSUMER.CREATE",
        )
    ),
    f"$JS.API.DIRECT.GET.EVENTS.events.run.{AGENT}.r1",
    f"$JS.API.CONSUMER.CREATE.EVENTS.gpu-agent-{AGENT}.events.run.{AGENT}.>",
    f"$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.gpu-agent-{AGENT}",
    f"$JS.API.CONSUMER.DELETE.EVENTS.gpu-agent-{AGENT}",
    f"$JS.API.CONSUMER.DELETE.EVENTS.gpu-agent-{OTHER}",
    f"$JS.API.CONSUMER.INFO.EVENTS.gpu-agent-{OTHER}",
    f"$JS.API.CONSUMER.MSG.NEXT.EVENTS.gpu-agent-{OTHER}",
    f"$JS.ACK.EVENTS.gpu-agent-{OTHER}.1.1.1.1.1",
)


@pytest.mark.parametrize("subject", FORBIDDEN)
async def test_an_agent_may_publish_nothing_else(bus: Bus, subject: str) -> None:
    await refused(bus, subject)


@pytest.mark.parametrize("subject", ["events.>", "_INBOX_warpboard.>", "_INBOX_agent-a2.>", ">"])
async def test_an_agent_may_hear_nothing_but_its_answers(bus: Bus, subject: str) -> None:
    await bus.agent.subscribe(subject)
    await bus.agent.flush()
    await eventually(lambda: bus.refused.errors)
    assert "permissions violation for subscription" in bus.refused.errors[0]


def answered(run: str) -> Sequence[tuple[str, bytes]]:
    """Return every subject on which an agent may publish and gets an answer."""
    ask = json.dumps({"run": run, "after": 0}).encode()
    batch = json.dumps({"batch": 5, "expires": 200_000_000}).encode()
    return (
        (f"events.report.{AGENT}.{run}", b"{}"),
        (f"$KV.LEASES.agent.{AGENT}", b"{}"),
        (f"uploads.{AGENT}.small.{'b' * 64}", b"{}"),
        (f"agents.{AGENT}.event", ask),
        (f"agents.{AGENT}.inbox", b"{}"),
        (f"$JS.API.CONSUMER.MSG.NEXT.EVENTS.gpu-agent-{AGENT}", batch),
    )


@pytest.mark.parametrize("target", ["events.account.eve", "blobs.x", "$JS.API.STREAM.DELETE.BLOBS"])
async def test_no_answer_to_an_agent_goes_where_it_may_not_publish(bus: Bus, target: str) -> None:
    """A server does not check the subject that a request names for its answer."""
    run, before = run_id(), await bus.log.last()
    await open_inbox(bus.agent, AGENT)
    await bus.log.append(new_event(f"run.{AGENT}.{run}", 0))
    asked = answered(run)
    for subject, body in asked:
        await bus.agent.publish(subject, body, reply=target)
    await bus.agent.flush()
    await asyncio.sleep(0.3)
    written = await bus.log.history("account.eve")
    assert written == []
    info = json.loads((await bus.services.request("$JS.API.STREAM.INFO.BLOBS", b"", 2)).data)
    assert "error" not in info
    blob = await bus.services.request("$JS.API.STREAM.MSG.GET.BLOBS", b'{"last_by_subj":"blobs.x"}')
    assert b"error" in blob.data
    assert await bus.log.last() == before + 2, "the order and the report alone"


async def test_an_agent_that_takes_the_id_of_a_later_event_keeps_nobody_from_saying_it(
    bus: Bus,
) -> None:
    run = run_id()
    order = await bus.log.append(new_event(f"run.{AGENT}.{run}", 0))
    later = new_event(f"submission.{run}", 0)
    await bus.agent.request(
        f"events.report.{AGENT}.{run}",
        b"taken",
        ANSWER_S_MAX,
        headers={MESSAGE_ID_HEADER: later.envelope.id},
    )
    seq = await bus.log.append(later)
    (event,) = await bus.log.history(f"submission.{run}")
    assert (event.seq, event.envelope) == (seq, later.envelope)
    assert seq > order
    assert await bus.log.append(later) == seq


async def test_who_shows_no_password_or_another_agents_is_not_let_in(server: NatsServer) -> None:
    _, _, where = server.agent_url(AGENT).rpartition("@")
    host, _, port = where.partition(":")
    others = server.agent_url(OTHER).rpartition("@")[0].rpartition(":")[2]
    for user, password in ((f"agent-{AGENT}", others), ("warpboard", others), ("", "")):
        reader, writer = await asyncio.open_connection(host, int(port))
        options = json.dumps({"user": user, "pass": password, "verbose": False})
        writer.write(f"CONNECT {options}\r\nPING\r\n".encode())
        async with asyncio.timeout(5):
            answer = await reader.read()
        assert b"Authorization Violation" in answer
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("taken", [0, 1])
async def test_nor_from_saying_it_in_a_batch(bus: Bus, taken: int) -> None:
    run = run_id()
    batch = [new_event(f"job.{run}", 0), new_event(f"submission.{run}", 0)]
    id_ = batch[taken].envelope.id
    report = f"events.report.{AGENT}.{run}"
    await bus.agent.request(report, b"taken", ANSWER_S_MAX, headers={MESSAGE_ID_HEADER: id_})
    seq = await bus.log.append_all(batch)
    assert [event.seq for event in await bus.log.history(f"job.{run}")] == [seq - 1]
    assert [event.seq for event in await bus.log.history(f"submission.{run}")] == [seq]
    assert await bus.log.append_all(batch) == seq


async def test_nor_another_agent(server: NatsServer, bus: Bus) -> None:
    run = run_id()
    order = await bus.log.append(new_event(f"run.{AGENT}.{run}", 0))
    report = new_event(f"report.{AGENT}.{run}", order)
    thief = await connect(server.agent_url(OTHER), "thief")
    subject, id_ = f"events.report.{OTHER}.{run}", report.envelope.id
    await thief.request(subject, b"taken", ANSWER_S_MAX, headers={MESSAGE_ID_HEADER: id_})
    await thief.close()
    seq = await AgentLog(bus.agent, AGENT).append(report)
    assert [event.seq for event in await bus.log.history(f"run.{AGENT}.{run}")] == [order, seq]
