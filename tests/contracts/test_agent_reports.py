"""Only the next report of a run that an agent was given goes to the log, on a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta

import msgspec
import pytest
from nats.aio.msg import Msg

from shared import subjects
from shared.clock import new_id
from shared.event_log import Conflict, NewEvent
from shared.events import (
    JobExpired,
    RunCompleted,
    RunDiscarded,
    RunFailed,
    RunStarted,
)
from shared.nats import agent_requests
from shared.nats.agent import AgentLog
from shared.nats.agent_requests import CONFLICT, LIMITED, OK, STATUS, AgentRequests
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.reports import ReportRefused, ReportRequest, RunRecord
from shared.servers.nats import NatsServer
from shared.wire import EVENT_BYTES_MAX, Envelope, encode, encode_envelope
from tests.contracts.agents import (
    AGENT,
    ANSWER_S_MAX,
    OTHER,
    Bus,
    bus_of,
    order,
    report,
    run_id,
)
from tests.contracts.samples import new_event
from tests.support.waits import eventually

pytestmark = pytest.mark.server
# As many as an agent sent in a second when it could write to the log.
FLOOD = 4000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(
        tmp_path_factory.mktemp("reports"), users=[f"agent-{AGENT}", f"agent-{OTHER}"]
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


async def send(bus: Bus, event: NewEvent, body: bytes | None = None) -> str:
    """Send a report as an agent could, around its own client; return how it is answered."""
    raw = msgspec.Raw(encode(event.envelope) if body is None else body)
    request = msgspec.json.encode(ReportRequest(raw, event.expected))
    answer = await bus.agent.request(f"agents.{AGENT}.report", request, ANSWER_S_MAX)
    assert answer.headers is not None
    return answer.headers[STATUS]


async def given(bus: Bus) -> tuple[str, int]:
    """Give the agent a run; return it, and the sequence of its order."""
    run = run_id()
    return run, await bus.log.append(order(run))


async def test_an_agent_cannot_fill_the_log_with_runs_that_it_was_never_given(bus: Bus) -> None:
    before = await bus.log.last()
    for _ in range(FLOOD):
        never_given = report(RunCompleted, run_id(), 0)
        body = encode_envelope(never_given.envelope)
        await bus.agent.publish(subjects.subject(never_given.envelope.aggregate), body)
        request = ReportRequest(msgspec.Raw(body), 0)
        await bus.agent.publish(f"agents.{AGENT}.report", msgspec.json.encode(request))
    await bus.agent.flush()
    await eventually(lambda: AGENT in bus.requests.misconduct, within_s=30)
    # It is answered after all that was sent before it.
    await bus.agent.request(f"agents.{AGENT}.report", b"{}", 30)
    assert await bus.log.last() == before
    assert "violation" in bus.refused.errors[0]
    # The log can never lose an event, so none of these may get in.
    assert "requests were refused" in bus.requests.misconduct[AGENT]


async def test_a_run_is_reported_once_and_byte_for_byte_as_its_agent_sent_it(bus: Bus) -> None:
    run, assigned = await given(bus)
    log = AgentLog(bus.agent, AGENT)
    begun = report(RunStarted, run, assigned)
    ended = report(RunCompleted, run, await log.append(begun))
    assert await log.append(begun) == ended.expected
    last = await log.append(ended)
    assert await log.append(ended) == last, "a lost answer is repeated"
    late = report(RunDiscarded, run, None)
    note = await log.append(late)
    assert await log.append(late) == note
    _, *reports = await bus.log.history(subjects.run(AGENT, run))
    sent = [encode_envelope(event.envelope) for event in (begun, ended, late)]
    assert [event.body for event in reports] == sent
    assert {event.envelope.aggregate for event in reports} == {subjects.report(AGENT, run)}


async def test_a_report_after_the_lease_is_refused_but_for_one_note(bus: Bus) -> None:
    run, assigned = await given(bus)
    log, aggregate = AgentLog(bus.agent, AGENT), subjects.run(AGENT, run)
    started = await log.append(report(RunStarted, run, assigned))
    expired = order_end(run, started)
    over = await bus.log.append(expired)
    assert await log.append(report(RunStarted, run, assigned)) == started, "it is in the log"
    for kind in (RunCompleted, RunFailed):
        for expected in (assigned, started, over, over + 1):
            with pytest.raises(Conflict):
                await log.append(report(kind, run, expected))
    await log.append(report(RunDiscarded, run, None))
    other = report(RunDiscarded, run, None)
    other = other._replace(envelope=msgspec.structs.replace(other.envelope, id=new_id()))
    await send(bus, other)
    types = [event.envelope.type for event in await bus.log.history(aggregate)]
    assert types == ["JobAssigned", "RunStarted", "JobExpired", "RunDiscarded"]


def order_end(run: str, expected: int) -> NewEvent:
    """Return the end of a lease."""
    event = new_event(subjects.run(AGENT, run), expected)
    body = msgspec.Raw(encode(JobExpired(reason="it fell silent", code="agent_silent")))
    envelope = msgspec.structs.replace(event.envelope, type="JobExpired", data=body)
    return event._replace(envelope=envelope)


async def test_a_run_begins_once_and_ends_once(bus: Bus) -> None:
    run, assigned = await given(bus)
    started = await AgentLog(bus.agent, AGENT).append(report(RunStarted, run, assigned))
    assert await send(bus, report(RunStarted, run, started)) == CONFLICT
    ended = await AgentLog(bus.agent, AGENT).append(report(RunFailed, run, started))
    for kind in (RunStarted, RunCompleted, RunFailed):
        assert await send(bus, report(kind, run, ended)) == CONFLICT
    assert await bus.log.last() == ended


Change = Callable[[Envelope], Envelope]
replace = msgspec.structs.replace
FALSE: dict[str, Change] = {
    "in another agent's name": lambda e: replace(e, actor=f"agent:{OTHER}"),
    "in a service's name": lambda e: replace(e, actor="service:scheduler"),
    "on another agent's run": lambda e: replace(e, aggregate=e.aggregate.replace(AGENT, OTHER)),
    "on its orders": lambda e: replace(e, aggregate=e.aggregate.replace("report", "run")),
    "on an account": lambda e: replace(e, aggregate="account.eve"),
    "with the id of a later event": lambda e: replace(e, id=new_id()),
    "of tomorrow": lambda e: replace(e, at=e.at + timedelta(days=1)),
    "of 1970": lambda e: replace(e, at=e.at.replace(year=1970)),
    "of a type that services write": lambda e: replace(e, type="JobExpired"),
    "of an unknown type": lambda e: replace(e, type="Anything"),
    "of a later version": lambda e: replace(e, v=9),
    "without its fields": lambda e: replace(e, data=msgspec.Raw(b"{}")),
    "with too many bytes": lambda e: replace(e, corr="x" * EVENT_BYTES_MAX),
}


@pytest.mark.parametrize("change", FALSE)
async def test_a_false_report_is_refused(bus: Bus, change: str) -> None:
    run, assigned = await given(bus)
    honest = report(RunStarted, run, assigned)
    false = honest._replace(envelope=FALSE[change](honest.envelope))
    assert await send(bus, false) == CONFLICT
    assert await bus.log.last() == assigned
    assert await send(bus, honest) == OK


async def test_bytes_that_are_not_encoded_as_events_are_refused(bus: Bus) -> None:
    run, assigned = await given(bus)
    honest = report(RunStarted, run, assigned)
    body = encode_envelope(honest.envelope)
    for other in (body.replace(b":", b": ", 1), b"[1,2]", b'{"id":"x"}', b"null"):
        assert await send(bus, honest, other) == CONFLICT
    assert await bus.log.last() == assigned


@pytest.mark.parametrize("version", [0, 1])
async def test_what_a_scheduler_has_not_folded_yet_is_read_from_the_log(
    bus: Bus, version: int
) -> None:
    """A scheduler that starts, or is behind, knows nothing of a run, or an old version of it."""
    run, assigned = await given(bus)
    stale = RunRecord(assigned * version, order(run).envelope.at)
    gate = agent_requests.ReportGate(bus.services, bus.log, lambda _agent, _run: stale)
    begun = report(RunStarted, run, assigned)

    async def append(event: NewEvent) -> int:
        body = msgspec.Raw(encode_envelope(event.envelope))
        return await gate.append(AGENT, ReportRequest(body, event.expected))

    started = await append(begun)
    assert await append(begun) == started
    with pytest.raises(ReportRefused):
        await append(report(RunStarted, run, started))
    assert await append(report(RunCompleted, run, started)) == started + 1


async def test_a_report_waits_for_a_service_that_takes_it(server: NatsServer) -> None:
    services, agent = (
        await connect(server.login(), "services"),
        await connect(server.login(f"agent-{AGENT}"), "agent"),
    )
    log, run = NatsLog(services), run_id()
    assigned = await log.append(order(run))
    waiting = asyncio.create_task(AgentLog(agent, AGENT).append(report(RunStarted, run, assigned)))
    await asyncio.wait({waiting}, timeout=0.2)
    assert not waiting.done()
    requests = AgentRequests(services, NatsBlobStore(services), log)
    assert not requests.has_listened()
    serving = asyncio.create_task(requests.serve())
    assert await asyncio.wait_for(waiting, ANSWER_S_MAX) == assigned + 1
    assert not requests.has_listened(), "others may still be waiting"
    serving.cancel()
    await asyncio.wait({serving})
    await agent.close()
    await services.close()


async def test_an_agent_that_asks_too_much_delays_no_other(
    server: NatsServer, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_requests, "REQUESTS_BURST", 20.0)
    monkeypatch.setattr(agent_requests, "REQUESTS_PER_S", 0.001)
    monkeypatch.setattr(agent_requests, "REFUSALS_BURST", 40.0)
    run = run_id()
    assigned = await bus.log.append(order(run, OTHER))
    statuses: list[str] = []

    async def take(message: Msg) -> None:
        statuses.append((message.headers or {})[STATUS])

    inbox = bus.agent.new_inbox()
    await bus.agent.subscribe(inbox, cb=take)
    for _ in range(500):
        await bus.agent.publish(f"agents.{AGENT}.report", b"{}", reply=inbox)
    await bus.agent.flush()
    other = await connect(server.login(f"agent-{OTHER}"), "other")
    honest = report(RunStarted, run, assigned, OTHER)
    assert await AgentLog(other, OTHER).append(honest) == assigned + 1
    await other.close()
    await eventually(lambda: len(statuses) == 500)
    assert statuses.count(LIMITED) >= 480
    assert list(bus.requests.misconduct) == [AGENT]


async def test_requests_that_waited_longer_than_their_agents_do_not_delay_new_ones(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[bytes] = []

    async def handle_slowly(_agent: str, body: bytes) -> tuple[bytes, int]:
        handled.append(body)
        await asyncio.sleep(0.02)
        return b"", 0

    monkeypatch.setitem(bus.requests._handlers, "slow", handle_slowly)
    monkeypatch.setattr(agent_requests, "CONCURRENT_MAX", 1)
    # Ten seconds of work, all asked at once and by agents that wait for two.
    for number in range(500):
        await bus.services.publish(f"agents.b{number}.slow", b"early")
    await bus.services.flush()

    async def is_answered() -> bool:
        answer = await bus.services.request("agents.b1.slow", b"late", ANSWER_S_MAX)
        return (answer.headers or {})[STATUS] == OK

    await eventually(is_answered)
    assert handled.count(b"early") < 250
