"""A forged event of any type is refused by the bus, and dropped by all its readers.

The types are those of the catalogue, so that new ones are tested automatically.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.client import Client

from ingest.identity.access import fold as access
from ingest.identity.access.preferences import PreferenceIndex
from ranker.audit.leaderboards import audit
from ranker.audit.report import AuditTrail
from ranker.audit.signatures import ResultVerifier
from ranker.domain.fold import decode_event, fold
from ranker.domain.rows import Rows
from ranker.domain.standings import Standings
from ranker.webhooks import subscriptions
from ranker.webhooks import subscriptions as hooks
from scheduler.domain.fold import evolve
from scheduler.domain.state import SchedulerState
from shared import subjects
from shared.api.audits import AuditReport, AuditRequest
from shared.clock import new_id
from shared.event_log import RecordedEvent
from shared.events import CATALOGUE, Fact
from shared.nats.agent_requests import REPORT, AgentRequests
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.reports import ReportRequest
from shared.servers.nats import NatsServer
from shared.verdicts import verify_verdict
from shared.wire import Envelope, EventMetadata, encode, is_genuine, make_envelope
from tests.contracts.agents import order, run_id
from tests.ranker.audit_platform import AuditPlatform
from tests.ranker.test_audit import List
from tests.support.examples import example_event
from tests.support.lives import AGENT, T0, Life
from tests.support.waits import eventually

OTHER = "other"
TYPES = sorted(CATALOGUE)
OWN = {name for name, kind in CATALOGUE.items() if kind.publisher == "gpu-agent"}
LIFE = Life("s1")
ACTORS = (
    f"agent:{AGENT}",
    f"agent:{OTHER}",
    "service:scheduler",
    "service:ranker",
    "operator:olga",
    "account:eve",
)
# Of how many ids an aggregate's name is made, where it is not one.
IDS = {"run": 2, "report": 2, "ranking": 2}


def envelope(name: str, aggregate: str, actor: str) -> Envelope:
    """Return an event of a type, on any aggregate and by any actor."""
    return make_envelope(
        example_event(CATALOGUE[name]), aggregate, EventMetadata(new_id(), T0, actor, "", "")
    )


def homes(name: str) -> Iterator[str]:
    """Return the aggregates, of others than the forging agent, where a type belongs."""
    aggregate = CATALOGUE[name].aggregate
    yield ".".join((aggregate, *(f"{OTHER}{place}" for place in range(IDS.get(aggregate, 1)))))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("forgery"), users=[f"agent-{AGENT}"])
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def services(server: NatsServer) -> AsyncIterator[Client]:
    nc = await connect(server.login(), "services")
    await ensure_streams(nc)
    yield nc
    await nc.close()


@pytest.fixture
async def thief(server: NatsServer) -> AsyncIterator[tuple[Client, list[str]]]:
    """The agent's own connection, and what the server refuses it."""
    refused: list[str] = []

    async def hear(error: Exception) -> None:
        refused.append(str(error))

    nc = await connect(server.login(f"agent-{AGENT}"), "thief")
    nc._error_cb = hear
    yield nc, refused
    await nc.close()


@pytest.fixture
async def requests(services: Client) -> AsyncIterator[AgentRequests]:
    """Services that answer agents' requests."""
    requests = AgentRequests(services, NatsBlobStore(services), NatsLog(services))
    serving = asyncio.create_task(requests.serve())
    yield requests
    serving.cancel()
    await asyncio.wait({serving})


@pytest.mark.server
@pytest.mark.usefixtures("requests")
@pytest.mark.parametrize("name", TYPES)
async def test_the_bus_refuses_an_agent_every_type_where_it_belongs(
    name: str, services: Client, thief: tuple[Client, list[str]]
) -> None:
    nc, refused = thief
    log = NatsLog(services)
    before = await log.append(order(run_id()))
    aggregates = [*homes(name), subjects.run(AGENT, "r1"), subjects.report(AGENT, "r1")]
    asking = subjects.agent_request(AGENT, REPORT)
    for aggregate in aggregates:
        subject = subjects.subject(aggregate)
        for actor in ("service:scheduler", f"agent:{AGENT}"):
            body = encode(envelope(name, aggregate, actor))
            await nc.publish(subject, body)
            await nc.publish(asking, encode(ReportRequest(msgspec.Raw(body), before)))
            # With the subject of an answer the server would be the writer.
            await nc.publish(asking, body, reply=subject)
    await nc.flush()
    await eventually(lambda: len(refused) >= 2 * len(aggregates))
    said = "\n".join(refused)
    assert all(f'"{subjects.subject(aggregate)}"' in said for aggregate in aggregates), said
    # Answered once all that was sent before it is.
    await nc.request(asking, b"", 5)
    assert [one async for one in after(log, before)] == []


async def after(log: NatsLog, seq: int) -> AsyncIterator[RecordedEvent]:
    """Yield the log's events after a sequence."""
    feed, last = log.follow(seq), await log.last()
    try:
        while seq < last:
            for event in await feed.take():
                seq = event.seq
                yield event
    finally:
        await feed.close()


class Readers:
    """Everything that folds the log, with the state it has so far."""

    def __init__(self, events: list[RecordedEvent]) -> None:
        self.board, self.rows, self.standings = SchedulerState(), Rows(), Standings()
        self.access, self.preferences, self.hooks = (
            access.Access(),
            PreferenceIndex(),
            hooks.Subscriptions(),
        )
        self.trail = AuditTrail("identity", "CPU")
        self.witness = ResultVerifier("identity", "CPU", verify_verdict)
        self.told = 0
        for event in events:
            self.take(event)

    def take(self, event: RecordedEvent) -> None:
        """Fold an event in all readers."""
        self.board = evolve(self.board, event)
        self.rows = fold(self.rows, [decode_event(event)])
        for folding in (self.standings, self.trail, self.witness):
            folding.fold(event)
        access.evolve(self.access, event)
        self.preferences.fold(event)
        hooks.evolve(self.hooks, event)
        self.told += event.envelope.type in subscriptions.TYPES and is_genuine(event.envelope)

    def state(self) -> dict[str, Any]:
        """Return all their knowledge, without their position and the forging agent's own row."""
        found = {name: plain(value) for name, value in vars(self).items() if name != "board"}
        for name in ("access", "preferences", "hooks"):
            found[name]["seq"] = 0
        board = msgspec.to_builtins(self.board)
        board["seq"] = board["last_id"] = 0
        for agent in (AGENT, OTHER):
            board["agents"].pop(agent, None)
        for run in board["runs"].values():
            run["version"] = 0
        return found | {"board": board}


def plain(value: Any) -> Any:
    """Return a reader's state as plain data, for comparison."""
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if isinstance(value, dict):
        return {repr(key): plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=repr)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    names = [*getattr(type(value), "__slots__", ()), *getattr(type(value), "__struct_fields__", ())]
    if names or hasattr(value, "__dict__"):
        said = {name: getattr(value, name) for name in names} | getattr(value, "__dict__", {})
        return {name: plain(one) for name, one in said.items() if not callable(one)}
    return repr(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


async def town_of(folder: Path, facts: int) -> AuditPlatform:
    """Return a log with as many of the facts of a submission's lifecycle."""
    town = await AuditPlatform(folder).found()
    told = LIFE.facts()
    if facts < len(told):
        for aggregate, fact in told[:facts]:
            await town.tell(aggregate, fact)
    else:
        await town.live(LIFE)
    return town


# How much of its run's life the log has: none, the order, its start, all of it.
MOMENTS = {"before its order": 2, "in its run": 4, "after its run": 5}
OWN_RUN = subjects.report(AGENT, LIFE.run)
STRANGE = subjects.report(AGENT, "no-run")


def is_forged(name: str, actor: str, aggregate: str, moment: str) -> bool:
    """Return whether an agent that writes this on its own subject claims what only others may."""
    is_its_own = name in OWN and aggregate == OWN_RUN and actor == f"agent:{AGENT}"
    # A note that changes nothing may come at any time.
    is_due = moment == "in its run" or (name == "RunDiscarded" and moment != "before its order")
    return not (is_its_own and is_due)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", TYPES)
async def test_readers_drop_every_type_that_an_agent_forges_on_its_own_subject(
    folder: Path, name: str, moment: str
) -> None:
    town = await town_of(folder, MOMENTS[moment])
    readers = Readers(list(town.log.since(0)))
    before, seq = readers.state(), await town.log.last()
    expected = await rows_of(town)
    forged: list[int] = []
    for aggregate in (OWN_RUN, STRANGE, subjects.report(OTHER, LIFE.run)):
        for actor in ACTORS:
            if not is_forged(name, actor, aggregate, moment):
                continue
            seq += 1
            said = envelope(name, aggregate, actor)
            assert await town.append(said) == seq
            readers.take(RecordedEvent(seq, said, encode(said)))
            forged.append(seq)
            assert readers.state() == before, (aggregate, actor)
    assert forged
    report = await audited(town)
    assert [one.seq for one in report.ignored] == forged
    assert report.is_clean, report.findings
    assert report.rows == expected


async def audited(town: AuditPlatform) -> AuditReport:
    """Audit the log."""
    question = AuditRequest("identity", "CPU", keys=[town.seal_key])
    return await audit(question, List(town.rows()), verify_verdict)


async def rows_of(town: AuditPlatform) -> list[Any]:
    """Return the leaderboard that an audit derives."""
    return (await audited(town)).rows


def test_every_type_has_one_writer_and_no_type_of_an_agents_is_a_services() -> None:
    def is_of_agent(kind: type[Fact]) -> bool:
        return kind.publisher == "gpu-agent"

    for name, kind in CATALOGUE.items():
        assert kind.publisher, f"{name} says nobody who publishes it"
        assert (kind.aggregate == "report") == is_of_agent(kind), name
