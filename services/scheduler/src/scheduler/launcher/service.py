"""The loop of a launcher: start what the scheduler requests, watch it, and report its end."""

import asyncio
import base64
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from nacl.signing import SigningKey

from shared import events, subjects
from shared.bus_keys.login import BusLogin
from shared.errors import Failed
from shared.event_log import NewEvent, RecordedEvent
from shared.lifecycle import run_until_first
from shared.signing import SEED_BYTES, public_key, seal_credential
from shared.subjects import derive_id
from shared.wire import EventMetadata, make_envelope

logger = logging.getLogger(__name__)

REASON_LENGTH_MAX = 2000
# An agent that cannot be stopped leaves on its own: without a job at once, else after it.
STOP_ATTEMPTS_MAX = 20


class LostAnswer(Failed):
    """A place where agents run did not answer, and may have started an agent."""


class Request(NamedTuple):
    """An agent to start: the id of the request, the agent's id, the job and its GPU type."""

    id: str
    agent: str
    job: str
    gpu: str


class End(NamedTuple):
    """How an agent ended: what went wrong, "" if it left in order, and where its log is."""

    reason: str
    url: str = ""


class Runner(Protocol):
    """A place where agents run, each for one job."""

    poll_s: float

    async def start(self, request: Request, credential: str) -> None:
        """Start an agent, which opens its credential with the launcher's key.

        Raises LostAnswer if it may have been started, Failed if it was not.
        """

    async def has_started(self, request: Request) -> bool:
        """Return whether an agent was started for a request and is not lost. Raises Failed."""

    async def find_end(self, request: Request) -> End | None:
        """Return how an agent ended, None while it may still come or runs. Raises Failed.

        It can be repeated until `forget`.
        """

    def forget(self, request: Request) -> None:
        """Forget an agent, whose end is stored."""

    async def stop(self, request: Request) -> None:
        """Stop an agent that nobody needs; safe to repeat. Raises Failed."""

    async def close(self) -> None:
        """Release what it holds, when the launcher ends."""


class Branch(Protocol):
    """The launcher's own history after a sequence."""

    async def take(self) -> list[RecordedEvent]:
        """Return the next events, waiting for at least one. Raises Failed."""


class LauncherLog(Protocol):
    """The parts of the log that a launcher may read and append to."""

    async def append(self, event: NewEvent) -> int:
        """Store one event and return its sequence; safe to repeat. Raises Conflict and Failed."""

    async def history(self, aggregate: str, after: int = 0) -> list[RecordedEvent]:
        """Return the events of an aggregate after a sequence, in order. Raises Failed."""

    def branch(self, after: int, aggregate: str) -> Branch:
        """Follow one aggregate after a sequence."""


@dataclass
class Launcher:
    """A launcher: how its agents log in to the bus, and the requests that are open."""

    name: str
    log: LauncherLog
    clock: Callable[[], datetime]
    runner: Runner
    logins: Mapping[str, BusLogin]
    credential_key: str
    open: dict[str, Request] = field(default_factory=dict)
    agent_seqs: dict[str, int] = field(default_factory=dict)
    revoked: set[str] = field(default_factory=set)
    # How often each agent could not be stopped.
    failed_stops: dict[Request, int] = field(default_factory=dict)

    @property
    def aggregate(self) -> str:
        """The launcher's own history."""
        return subjects.launcher(self.name)

    async def run(self, offer: events.LauncherRegistered) -> None:
        """Register, then start and watch agents until cancelled. Raises Failed and Gap.

        Requests that an earlier process left open are started again if nothing came of them. The
        last agent of each account is stopped if its request ended while no launcher ran.
        """
        history = await self.log.history(self.aggregate)
        offered: events.Fact | None = None
        ended: dict[str, Request] = {}
        for event in history:
            request = self._record(event)
            if isinstance(event.fact, events.LauncherRegistered):
                offered = event.fact
            elif isinstance(event.fact, events.InstanceEnded) and request is not None:
                ended[request.agent] = request
        after = history[-1].seq if history else 0
        if offered != offer:
            await self._append(offer, derive_id(f"{self.aggregate}/{after}", "registered"))
        for request in ended.values():
            await self._stop(request)
        for request in list(self.open.values()):
            await self._resume(request)
        await run_until_first(self._follow(self.log.branch(after, self.aggregate)), self._watch())

    def _record(self, event: RecordedEvent) -> Request | None:
        """Fold an event into the open requests; return a request that it opened or closed."""
        fact = event.fact
        if isinstance(fact, events.InstanceRequested):
            request = Request(event.envelope.id, fact.agent, fact.job, fact.gpu)
            self.open[fact.agent] = request
            return request
        if isinstance(fact, events.InstanceEnded):
            opened = self.open.get(fact.agent)
            # The end of an earlier request of the agent may come late.
            if opened is not None and opened.id == fact.request:
                return self.open.pop(fact.agent)
        return None

    async def _follow(self, branch: Branch) -> None:
        while True:
            for event in await branch.take():
                request = self._record(event)
                if request is None:
                    continue
                if isinstance(event.fact, events.InstanceRequested):
                    await self._start(request)
                else:
                    await self._stop(request)

    async def _stop(self, request: Request) -> None:
        """Stop an agent; what fails is repeated with the next look at the agents."""
        failures = self.failed_stops.pop(request, 0)
        try:
            await self.runner.stop(request)
        except Failed as failed:
            logger.warning("agent %s could not be stopped: %s", request.agent, failed)
            if failures + 1 < STOP_ATTEMPTS_MAX:
                self.failed_stops[request] = failures + 1

    async def _start(self, request: Request) -> None:
        """Start an agent with a key of its own, which signs the verdict of one job."""
        try:
            await self.runner.start(request, await self._issue_credential(request))
        except LostAnswer as failed:
            # It may still come. The scheduler gives it up in time.
            logger.warning("agent %s may have been started: %s", request.agent, failed)
        except Failed as failed:
            logger.warning("agent %s could not be started: %s", request.agent, failed)
            await self._report_end(request, End(f"it could not be started: {failed}"))

    async def _resume(self, request: Request) -> None:
        """Start an agent that an earlier process did not start; if unsure, only watch it."""
        try:
            has_started = await self.runner.has_started(request)
        except Failed as failed:
            logger.warning("the state of agent %s is unknown: %s", request.agent, failed)
            return
        if not has_started:
            await self._start(request)

    async def _issue_credential(self, request: Request) -> str:
        """Enrol the agent with a new key, and return what it needs to know. Raises Failed."""
        agent, aggregate = request.agent, subjects.agent(request.agent)
        if agent not in self.logins:
            raise Failed(f"launcher {self.name} has no credentials of agent {agent} any more")
        for event in await self.log.history(aggregate, self.agent_seqs.get(agent, 0)):
            self.agent_seqs[agent] = event.seq
            if isinstance(event.fact, events.AgentRevoked):
                self.revoked.add(agent)
        if agent in self.revoked:
            raise Failed(f"agent {agent} was revoked: give the launcher another agent")
        seed = secrets.token_bytes(SEED_BYTES)
        enrolled = events.AgentEnrolled(
            sign_key=public_key(SigningKey(seed)),
            owner=events.LAUNCHER,
            reason=f"for job {request.job}",
        )
        id_ = derive_id(request.id, "enrolled")
        stamp = EventMetadata(id_, self.clock(), events.LAUNCHER_ACTOR, request.job, agent)
        await self.log.append(NewEvent(make_envelope(enrolled, aggregate, stamp), None))
        login = self.logins[agent].with_texts()
        settings = {
            "ID": agent,
            "NATS_URL": login.url,
            "NATS_CREDENTIALS": login.credentials,
            "NATS_CA": login.ca,
            "SIGN_SEED": base64.b64encode(seed).decode(),
        }
        return seal_credential(settings, self.credential_key)

    async def _watch(self) -> None:
        """Report the end of agents that left, or were left by an earlier process."""
        while True:
            await asyncio.sleep(self.runner.poll_s)
            for request in list(self.failed_stops):
                await self._stop(request)
            for request in list(self.open.values()):
                try:
                    end = await self.runner.find_end(request)
                except Failed as failed:
                    logger.warning("the state of agent %s is unknown: %s", request.agent, failed)
                    continue
                if end is not None and self.open.get(request.agent) == request:
                    await self._report_end(request, end)

    async def _report_end(self, request: Request, end: End) -> None:
        ended = events.InstanceEnded(
            agent=request.agent,
            job=request.job,
            reason=end.reason[:REASON_LENGTH_MAX],
            url=end.url,
            request=request.id,
        )
        await self._append(ended, derive_id(request.id, "ended"))
        if self.open.get(request.agent) == request:
            del self.open[request.agent]
        self.runner.forget(request)

    async def _append(self, fact: events.Fact, id_: str) -> None:
        stamp = EventMetadata(id_, self.clock(), events.LAUNCHER_ACTOR, self.name, self.name)
        await self.log.append(NewEvent(make_envelope(fact, self.aggregate, stamp), None))
