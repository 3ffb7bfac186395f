"""An agent's credentials allow exactly what it needs, on a real server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import nats.errors
import pytest

from shared.blobs import BlobNotFound
from shared.bus_keys.authority import Authority
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import MAINTENANCE
from shared.errors import Failed
from shared.event_log import Conflict
from shared.events import RunCompleted, RunStarted
from shared.nats import agent_requests
from shared.nats.agent import AgentBlobStore, AgentBus, AgentLog, open_inbox
from shared.nats.blobs import NatsBlobStore
from shared.nats.bus import NatsBus
from shared.nats.connection import connect, newest_message
from shared.nats.streams import BEAT_BYTES_MAX
from shared.servers.nats import NatsServer
from tests.contracts.agents import AGENT, ANSWER_S_MAX, OTHER, Bus, bus_of, order, report, run_id
from tests.contracts.samples import new_event, next_delivery
from tests.contracts.servers import restart
from tests.support.waits import eventually

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server with the accounts of the services and of two agents."""
    server = NatsServer(
        tmp_path_factory.mktemp("agents"), users=[f"agent-{AGENT}", f"agent-{OTHER}"]
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
    log, aggregate = AgentLog(bus.agent, AGENT), f"run.{AGENT}.{run}"
    first = await bus.log.append(order(run))
    begun = report(RunStarted, run, first)
    second = await log.append(begun)
    assert await log.append(begun) == second, "a repeat is told from another's event"
    with pytest.raises(Conflict):
        await bus.log.append(new_event(aggregate, first))
    third = await bus.log.append(new_event(aggregate, second))
    with pytest.raises(Conflict):
        await log.append(report(RunCompleted, run, second))
    history = await bus.log.history(aggregate)
    assert [event.seq for event in history] == [first, second, third]
    assert [event.envelope.aggregate for event in history] == [
        aggregate,
        f"report.{AGENT}.{run}",
        aggregate,
    ]


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
    monkeypatch.setattr(agent_requests, "ANSWER_S_MAX", 0.001)
    data = run_id().encode() * 300_000
    digest = (await NatsBlobStore(bus.services).put(data)).digest
    assert await AgentBlobStore(bus.agent, AGENT).get(digest) == data


async def test_an_agent_outlives_a_restart_of_the_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    own = NatsServer(tmp_path_factory.mktemp("restarted"), users=[f"agent-{AGENT}"])
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
            # The bucket of heartbeats was lost; only the services may create it again.
            assert not [error for error in bus.refused.errors if "permissions" in error]
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
    f"events.report.{AGENT}.r1",
    f"events.report.{OTHER}.r1",
    f"events.run.{AGENT}.r1",
    f"$KV.LEASES.agent.{OTHER}",
    f"uploads.{AGENT}.{'a' * 32}.0",
    f"uploads.{OTHER}.{'a' * 32}.0",
    f"progress.{OTHER}.s1",
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


@pytest.mark.parametrize("headers", [{"Nats-Rollup": "all"}, {"Nats-Rollup": "sub"}, {}])
async def test_an_agent_cannot_remove_the_heartbeats_of_others(
    bus: Bus, headers: dict[str, str]
) -> None:
    await NatsBus(bus.services).beat(OTHER, b"here", 30)
    subject, body = f"$KV.LEASES.agent.{AGENT}", b"" if headers else bytes(BEAT_BYTES_MAX * 2)
    answer = await bus.agent.request(subject, body, ANSWER_S_MAX, headers=headers or None)
    assert "error" in json.loads(answer.data)
    assert await newest_message(bus.services, "KV_LEASES", f"$KV.LEASES.agent.{OTHER}")


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
        (f"$KV.LEASES.agent.{AGENT}", b"{}"),
        (f"agents.{AGENT}.upload", b"{}"),
        (f"agents.{AGENT}.report", ask),
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
    assert await bus.log.last() == before + 1, "the order alone"


async def test_who_shows_no_credentials_or_those_of_another_operator_is_not_let_in(
    server: NatsServer, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path)
    stranger.create()
    for user in (MAINTENANCE, f"agent-{AGENT}"):
        credentials = str(stranger.ensure_user(user))
        with pytest.raises(Failed, match=f"{user} are revoked or of another operator"):
            # A server asks the others about an account that it does not know, for a second.
            await connect(BusLogin(server.url, credentials), "a stranger", within_s=4)
    with pytest.raises(Failed, match="set NATS_CREDENTIALS to the"):
        await connect(server.url, "a stranger", within_s=0.5)
