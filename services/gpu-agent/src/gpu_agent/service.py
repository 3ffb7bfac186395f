"""The loops: say that we live, read orders, run them one at a time."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Protocol

import msgspec

from gpu_agent.domain import Began, Kept, News, Outcome, Step, ended, fact_of, is_mine
from shared.blobs import Blobs, Missing
from shared.bus import Bus, Delivery
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict, EventLog, New
from shared.events import (
    AgentRegistered,
    Artefact,
    Blob,
    Fact,
    JobAssigned,
    JobExpired,
    RunDiscarded,
    RunFailed,
)
from shared.ids import derived
from shared.lifecycle import until_first
from shared.subjects import last_token, progress
from shared.wire import Stamp, seal

logger = logging.getLogger(__name__)

READ_S = 5.0
LEAVE_S_MAX = 2.0
SILENT_HEARTBEATS = 3


class Files(Protocol):
    """What a run left behind."""

    @property
    def log(self) -> bytes:
        """All that the submission printed, as far as it was kept."""
        ...

    @property
    def samples(self) -> bytes:
        """Every timed call, as gzipped JSON."""
        ...

    @property
    def artefacts(self) -> list[tuple[str, str, bytes]]:
        """What else the run made: names, media types and bytes."""
        ...


class Runs(Protocol):
    """Where jobs are run."""

    async def run(
        self,
        order: JobAssigned,
        told: Callable[[News], Awaitable[None]],
    ) -> tuple[Outcome, Files]:
        """Run one job to its end. Errors: Missing, Failed; cancellation kills it."""
        ...

    async def health(self) -> str:
        """Why no more jobs may be run here, "" if they may."""
        ...


class Metrics(Protocol):
    """What operators watch."""

    def ended(self, fact: Fact) -> None:
        """A run is over."""
        ...


@dataclass
class Lease:
    """A run in hand; `version` is the sequence of its last event, at first the fencing token."""

    order: JobAssigned
    agg: str
    version: int
    delivery: Delivery
    task: asyncio.Task[None] | None = None
    lost: str = ""
    drained: bool = False
    has_begun: bool = False
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Agent:
    """One process of an agent; `session` names it in every order it accepts.

    In quarantine it takes no orders until it is started again; `registration` says why.
    """

    name: str
    session: str
    log: EventLog
    blobs: Blobs
    bus: Bus
    runs: Runs
    metrics: Metrics
    registration: AgentRegistered
    heartbeat_s: float = 5.0
    drain_s: float = 8.0
    lease: Lease | None = None
    is_draining: bool = False
    orders: asyncio.Queue[Delivery] = field(default_factory=asyncio.Queue)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, stopping: asyncio.Event) -> None:
        """Work until `stopping`, then finish the run in hand or hand it back in `drain_s`."""
        await until_first(self._drain(stopping), self._beat(), self._read(), self._work())

    async def _drain(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.is_draining = True
        self.changed.set()
        if self.lease is not None and self.lease.task is not None:
            await asyncio.wait({self.lease.task}, timeout=self.drain_s)
        if self.lease is not None and self.lease.task is not None:
            self._stop(self.lease, drained=True)
            await asyncio.wait({self.lease.task}, timeout=self.drain_s)
        # Where the bus is gone too, the heartbeat's own time to live says it.
        with contextlib.suppress(Failed, TimeoutError):
            async with asyncio.timeout(LEAVE_S_MAX):
                await self.bus.leave(self.name)

    async def _beat(self) -> None:
        """Say that we live; at once when something changes."""
        while True:
            self.changed.clear()
            is_busy = self.lease is not None or self.is_draining
            is_free = not is_busy and not self.registration.quarantine
            said = {
                "session": self.session,
                "is_free": is_free,
                "registration": self.registration,
                "run": last_token(self.lease.agg) if self.lease else None,
            }
            ttl_s = max(1, round(self.heartbeat_s * SILENT_HEARTBEATS))
            try:
                await self.bus.beat(self.name, msgspec.json.encode(said), ttl_s)
                # Not wait_for: in 3.11 it swallows a cancellation that comes with the event.
                async with asyncio.timeout(self.heartbeat_s):
                    await self.changed.wait()
            except (Failed, TimeoutError):
                continue

    async def _read(self) -> None:
        """Orders go to the desk; the news that a lease is over stops its run at once."""
        inbox = await self.bus.inbox(self.name)
        while not self.is_draining:
            delivery = await inbox.next(READ_S)
            if delivery is None:
                continue
            fact = delivery.recorded.fact
            if isinstance(fact, JobAssigned):
                self.orders.put_nowait(delivery)
                continue
            agg = delivery.recorded.envelope.agg
            if isinstance(fact, JobExpired) and self.lease is not None and self.lease.agg == agg:
                self.lease.lost = fact.reason
                self._stop(self.lease)
            await delivery.ack()
        await asyncio.Event().wait()

    def _stop(self, lease: Lease, *, drained: bool = False) -> None:
        lease.drained = drained
        if lease.task is not None:
            lease.task.cancel()

    async def _work(self) -> None:
        """One order after the other."""
        while True:
            delivery = await self.orders.get()
            order = delivery.recorded.fact
            assert isinstance(order, JobAssigned), "the desk holds orders alone"
            if self.is_draining or not is_mine(order, self.session):
                await delivery.ack()
                continue
            recorded = delivery.recorded
            self.lease = Lease(order, recorded.envelope.agg, recorded.seq, delivery)
            self.changed.set()
            self.lease.task = asyncio.create_task(self._run(self.lease))
            await asyncio.wait({self.lease.task})
            await self._look_after()
            task, self.lease = self.lease.task, None
            self.changed.set()
            if not task.cancelled():
                task.result()

    async def _look_after(self) -> None:
        """After every job: a machine that is not well takes no more, and says why."""
        ailment = await self.runs.health()
        if ailment and not self.registration.quarantine:
            logger.error("agent %s is in quarantine: %s", self.name, ailment)
            self.registration = msgspec.structs.replace(
                self.registration, quarantine=ailment, modes=[]
            )

    async def _run(self, lease: Lease) -> None:
        """Run an order to a fact about it: a verdict, a failure of ours, or nothing but a note."""
        try:
            fact = self._turned_down() or await self._verdict(lease)
        except Conflict as conflict:
            lease.lost = str(conflict)
            fact = None
        except asyncio.CancelledError:
            if not lease.drained and not lease.lost:
                raise
            fact = None if lease.lost else self._failed("drained", "the agent was stopped")
        except (Missing, Failed) as error:
            fact = self._failed("platform", str(error))
        if fact is not None:
            try:
                await self._append(lease, fact)
                self.metrics.ended(fact)
            except Conflict as conflict:
                lease.lost = str(conflict)
        if lease.lost and lease.has_begun:
            await self._discard(lease, fact)
        await lease.delivery.ack()

    async def _verdict(self, lease: Lease) -> Fact:
        outcome, files = await self.runs.run(lease.order, lambda news: self._told(lease, news))
        kept = Kept(
            log=await self._keep(files.log, "text/plain"),
            samples=await self._keep(files.samples, "application/gzip"),
            artefacts=[
                Artefact(name=name, media=media, blob=await self.blobs.put(data, media))
                for name, media, data in files.artefacts
            ],
        )
        return ended(outcome, lease.environment, kept)

    async def _keep(self, data: bytes, media: str) -> Blob | None:
        return await self.blobs.put(data, media) if data else None

    def _turned_down(self) -> RunFailed | None:
        """An order that was on its way when the quarantine began is for another agent."""
        why = self.registration.quarantine
        return self._failed("quarantine", f"the agent is in quarantine: {why}") if why else None

    @staticmethod
    def _failed(code: str, reason: str) -> RunFailed:
        return RunFailed(stage="", code=code, reason=reason)

    async def _told(self, lease: Lease, news: News) -> None:
        """What the harness says on its way: into the log, or passing."""
        if isinstance(news, Step):
            topic = progress(lease.order.submission)
            await self.bus.tell(topic, json.dumps(asdict(news)).encode())
            return
        await self._append(lease, fact_of(news, self.registration.fingerprint))
        if isinstance(news, Began):
            lease.has_begun = True
            lease.environment = news.environment
            await lease.delivery.ack()

    async def _append(self, lease: Lease, fact: Fact) -> None:
        """Say the next fact of this run. Errors: Conflict when the lease is over."""
        stamp = self._stamp(lease, f"{type(fact).__name__}/{lease.version}")
        event = New(seal(fact, lease.agg, stamp), lease.version)
        while True:
            try:
                lease.version = await self.log.append(event)
                return
            except Failed:
                if lease.drained or now() >= lease.order.deadline_at:
                    raise

    async def _discard(self, lease: Lease, fact: Fact | None) -> None:
        """Leave a note of a result that came too late."""
        note = RunDiscarded(verdict=getattr(fact, "verdict", ""))
        stamp = self._stamp(lease, "RunDiscarded")
        await self.log.append(New(seal(note, lease.agg, stamp), None))

    def _stamp(self, lease: Lease, effect: str) -> Stamp:
        run = last_token(lease.agg)
        actor = f"agent:{self.name}"
        return Stamp(derived(run, effect), now(), actor, lease.order.submission, run)
