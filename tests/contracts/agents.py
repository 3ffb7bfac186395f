"""A server with an agent's account, services that answer its requests, and events of its runs."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nats.aio.client import Client

from shared import subjects
from shared.clock import new_id, now
from shared.event_log import NewEvent
from shared.events import Fact, JobAssigned
from shared.nats.agent_requests import AgentRequests
from shared.nats.blobs import NatsBlobStore
from shared.nats.connection import connect
from shared.nats.event_log import NatsLog
from shared.nats.streams import ensure_streams
from shared.reports import report_id
from shared.servers.nats import NatsServer
from shared.wire import EventMetadata, make_envelope
from tests.support.examples import example_event
from tests.support.waits import eventually

AGENT, OTHER = "a1", "a2"
ANSWER_S_MAX = 10.0


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
    requests: AgentRequests

    @property
    def log(self) -> NatsLog:
        """The log for services."""
        return NatsLog(self.services)


@asynccontextmanager
async def bus_of(server: NatsServer) -> AsyncIterator[Bus]:
    services = await connect(server.login(), "services")
    await ensure_streams(services)
    refused = Said()
    agent = await connect(server.login(f"agent-{AGENT}"), "agent")
    agent._error_cb = refused.hear
    requests = AgentRequests(services, NatsBlobStore(services), NatsLog(services))
    serving = asyncio.create_task(requests.serve())
    await eventually(lambda: requests._listening_since is not None)
    await services.flush()
    try:
        yield Bus(services, agent, refused, requests)
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await agent.close()
        await services.close()


def run_id() -> str:
    """Return a run that no other test uses."""
    return hashlib.sha256(str(now()).encode()).hexdigest()[:16]


def order(run: str, agent: str = AGENT) -> NewEvent:
    """Return the order that gives a run to an agent."""
    stamp = EventMetadata(new_id(), now(), "service:scheduler", "s1", run)
    return NewEvent(make_envelope(example_event(JobAssigned), subjects.run(agent, run), stamp), 0)


def report(kind: type[Fact], run: str, expected: int | None, agent: str = AGENT) -> NewEvent:
    """Return an agent's report on a run, as the agent would send it."""
    id_ = report_id(run, kind.__name__, expected or 0)
    stamp = EventMetadata(id_, now(), f"agent:{agent}", "s1", run)
    envelope = make_envelope(example_event(kind), subjects.report(agent, run), stamp)
    return NewEvent(envelope, expected)
