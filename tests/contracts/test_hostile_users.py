"""What users in accounts of their own try against the bus and against the services' answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from nats.aio.client import Client

from shared import subjects
from shared.bus_keys.authority import CONNECTIONS_MAX, SUBSCRIPTIONS_MAX
from shared.bus_keys.claims import ACCOUNT, USER, Credentials, make_key, sign_claims
from shared.bus_keys.login import BusLogin
from shared.bus_keys.permissions import DISCORD_EDGE, PUBLISH, allowed, user_rights
from shared.clock import new_id, now
from shared.errors import Failed
from shared.event_log import Conflict, NewEvent
from shared.events import LAUNCHER as LAUNCHER_OWNER
from shared.events import LAUNCHER_ACTOR, AgentEnrolled, Fact, InstanceEnded, LauncherRegistered
from shared.nats import agent_requests, reader_requests
from shared.nats.account_deployment import deploy_accounts
from shared.nats.agent_requests import LIMITED, OK, REQUESTS_BURST, STATUS
from shared.nats.connection import PAGE, connect, get_message
from shared.nats.event_log import NatsLog
from shared.nats.reader import ReaderLog
from shared.nats.reader_requests import (
    APPEND,
    APPENDS_BURST,
    HISTORY,
    AppendRequest,
    EventPage,
    HistoryRequest,
    LogState,
    ReaderRequests,
)
from shared.nats.streams import ensure_streams
from shared.servers.nats import NatsServer
from shared.wire import EventMetadata, encode_envelope, make_envelope
from tests.contracts.samples import JOB, new_event
from tests.support.servers import skip_without_nats
from tests.support.waits import eventually

pytestmark = pytest.mark.server
LAUNCHER, AGENT = "launcher-modal", "agent-a1"
ASKED_AT_ONCE = int(REQUESTS_BURST) + 20
APART = (LAUNCHER, AGENT, DISCORD_EDGE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    skip_without_nats()
    server = NatsServer(tmp_path_factory.mktemp("hostile"), users=(LAUNCHER, AGENT))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("user", APART)
async def test_a_user_apart_cannot_fill_the_server_with_subscriptions(
    server: NatsServer, user: str
) -> None:
    nc = await connect(server.login(user), user)
    for number in range(SUBSCRIPTIONS_MAX):
        await nc.subscribe(f"_INBOX_{user}.{number}")
    await nc.flush()
    assert nc.last_error is None
    await nc.subscribe(f"_INBOX_{user}.more")
    await eventually(lambda: "maximum subscriptions exceeded" in str(nc.last_error))
    await nc.close()


@pytest.mark.parametrize("user", APART)
async def test_a_user_apart_cannot_take_all_connections(server: NatsServer, user: str) -> None:
    connections = [await connect(server.login(user), user) for _ in range(CONNECTIONS_MAX)]
    with pytest.raises(Failed, match="maximum account active connections exceeded"):
        await connect(server.login(user), user, within_s=1)
    for nc in connections:
        await nc.close()


@pytest.mark.parametrize("issuer", ["user", "account"])
async def test_no_user_can_sign_for_another(
    server: NatsServer, tmp_path: Path, issuer: str
) -> None:
    own = server.authority.credentials(AGENT).key
    forged = make_key(USER)
    by = own if issuer == "user" else make_key(ACCOUNT)
    jwt = sign_claims("user", "maintenance", forged.public, by, {"pub": {}, "sub": {}})
    path = tmp_path / "forged.creds"
    path.write_text(Credentials(jwt, forged).render())
    with pytest.raises(Failed, match="of another operator"):
        # The server asks others for an account that it does not know, for a second.
        await connect(BusLogin(server.url, str(path)), "forged", within_s=3)


async def test_a_revoked_key_stays_revoked_on_a_server_with_an_older_configuration(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = own_nats.authority
    authority.ensure_user(AGENT)
    older = own_nats.configuration()
    await deploy_accounts(own_nats.login("sys"), [authority.account_jwt(AGENT)])
    await asyncio.sleep(1.1)  # Times of JWTs are whole seconds.
    authority.revoke(AGENT, keeps_newest=False)
    await deploy_accounts(own_nats.login("sys"), [authority.account_jwt(AGENT)])
    monkeypatch.setattr(own_nats, "configuration", lambda: older)
    own_nats.kill()
    own_nats.start()
    with pytest.raises(Failed, match="are revoked"):
        await connect(own_nats.login(AGENT), AGENT, within_s=1)


class World(NamedTuple):
    """A log with its answering service, and the connection of a launcher."""

    services: Client
    log: NatsLog
    launcher: Client


@pytest.fixture
async def world(server: NatsServer) -> AsyncIterator[World]:
    services, launcher = (
        await connect(server.login(), "s"),
        await connect(server.login(LAUNCHER), "l"),
    )
    await ensure_streams(services)
    log = NatsLog(services)
    serving = asyncio.create_task(ReaderRequests(services, log, LogState).serve())
    await services.flush()
    yield World(services, log, launcher)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await launcher.close()
    await services.close()


HEADERS = (
    {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"},
    {"Nats-Trace-Dest": "events.account.eve"},
    {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": "$KV.LEASES.agent.other"},
    {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    {"Nats-Expected-Stream": "EVENTS"},
)


@pytest.mark.parametrize("headers", HEADERS, ids=lambda headers: next(iter(headers)))
async def test_no_header_of_an_agent_reaches_what_is_not_its_own(
    world: World, server: NatsServer, headers: dict[str, str]
) -> None:
    await world.services.publish("$KV.LEASES.agent.other", b"alive")
    before = await world.log.last()
    nc = await connect(server.login(AGENT), AGENT)
    for pattern in allowed(user_rights(AGENT), PUBLISH):
        await nc.publish(pattern.replace("*", "x").replace(">", "x"), b"{}", headers=dict(headers))
    await nc.flush()
    await asyncio.sleep(0.2)
    assert await world.log.last() == before
    beat = await get_message(
        world.services, "KV_LEASES", {"last_by_subj": "$KV.LEASES.agent.other"}
    )
    assert beat is not None
    assert beat.data == b"alive"
    await nc.close()


def by_launcher(fact: Fact, id_: str, *, late_s: float = 0.0) -> NewEvent:
    """A fact in the launcher's own history."""
    stamp = EventMetadata(id_, now() + timedelta(seconds=late_s), LAUNCHER_ACTOR, "modal", "modal")
    return NewEvent(make_envelope(fact, subjects.launcher("modal"), stamp), None)


def ending(id_: str, *, late_s: float = 0.0) -> NewEvent:
    """An event that this launcher may write."""
    fact = InstanceEnded(agent="a1", job="j1", reason="", url="", request="r1")
    return by_launcher(fact, id_, late_s=late_s)


async def test_a_launcher_cannot_take_the_id_that_an_event_of_a_service_will_have(
    world: World,
) -> None:
    foreseen = subjects.derive_id("j1", "JobRequeued")
    await ReaderLog(world.launcher, LAUNCHER).append(ending(foreseen))
    seq = await world.log.append(new_event(JOB, 0, id_=foreseen))
    # The server would take it for a repetition, and drop it.
    assert [event.seq for event in await world.log.history(JOB)] == [seq]


async def test_a_repeated_event_of_a_launcher_is_stored_once(world: World) -> None:
    log, event = ReaderLog(world.launcher, LAUNCHER), ending(new_id())
    assert await log.append(event) == await log.append(event)


@pytest.mark.parametrize("late_s", [-2 * 86_400.0, 2 * 86_400.0])
async def test_a_launcher_cannot_write_into_another_day(world: World, late_s: float) -> None:
    with pytest.raises(Conflict):
        await ReaderLog(world.launcher, LAUNCHER).append(ending(new_id(), late_s=late_s))


@pytest.mark.parametrize("aggregate", ["agent.*", "agent.>", "job.j1", "launcher.other"])
async def test_a_launcher_reads_only_what_its_table_has(world: World, aggregate: str) -> None:
    await world.log.append(new_event("agent.a1", None))
    with pytest.raises(Failed, match="refused the request history"):
        await ReaderLog(world.launcher, LAUNCHER).history(aggregate)


async def test_a_long_history_is_read_in_short_pages(world: World) -> None:
    written = [await world.log.append(new_event("launcher.modal", None)) for _ in range(2 * PAGE)]
    subject = subjects.reader_request(LAUNCHER, HISTORY)
    after = written[0] - 1
    body = msgspec.json.encode(HistoryRequest("launcher.modal", after))
    message = await world.launcher.request(subject, body, timeout=20)
    page = msgspec.json.decode(message.data, type=EventPage)
    assert ([seq for seq, _ in page.events], page.has_more) == (written[:PAGE], True)
    read = await ReaderLog(world.launcher, LAUNCHER).history("launcher.modal", after)
    assert [event.seq for event in read] == written


async def test_a_launcher_cannot_keep_the_services_busy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the requests come no faster than they are allowed again.
    monkeypatch.setattr(agent_requests, "REQUESTS_PER_S", 0.0)
    subject = subjects.reader_request(LAUNCHER, HISTORY)
    body, inbox = msgspec.json.encode(HistoryRequest("agent.a1")), world.launcher.new_inbox()
    answers = await world.launcher.subscribe(inbox)
    for _ in range(ASKED_AT_ONCE):
        await world.launcher.publish(subject, body, reply=inbox)
    messages = [await answers.next_msg(20) for _ in range(ASKED_AT_ONCE)]
    assert {(message.headers or {})[STATUS] for message in messages} == {OK, LIMITED}


async def test_a_launcher_cannot_fill_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_requests, "APPENDS_PER_S", 0.0)
    subject = subjects.reader_request(LAUNCHER, APPEND)
    bodies = [
        msgspec.json.encode(AppendRequest(msgspec.Raw(encode_envelope(ending(new_id()).envelope))))
        for _ in range(int(APPENDS_BURST) + 20)
    ]
    statuses = [await world.launcher.request(subject, body, timeout=5) for body in bodies]
    found = [(message.headers or {})[STATUS] for message in statuses]
    assert LIMITED in found
    assert set(found) == {OK, LIMITED}


@pytest.mark.parametrize("by", ["operator:root", LAUNCHER_ACTOR])
async def test_a_launcher_offers_no_agent_of_an_operator(world: World, by: str) -> None:
    agent = f"a{by.partition(':')[2]}"
    owner = "lab" if by.startswith("operator") else LAUNCHER_OWNER
    enrolled = AgentEnrolled(sign_key="K=", owner=owner, reason="new")
    stamp = EventMetadata(new_id(), now(), by, "c", "c")
    await world.log.append(NewEvent(make_envelope(enrolled, subjects.agent(agent), stamp), None))
    offer = LauncherRegistered(
        kind="modal", prices={"CPU": 0.0}, agents=[agent], daily_cost_max=1.0, start_s_max=60.0
    )
    offering = ReaderLog(world.launcher, LAUNCHER).append(by_launcher(offer, new_id()))
    if by == LAUNCHER_ACTOR:
        assert await offering > 0
    else:
        with pytest.raises(Conflict):
            await offering
