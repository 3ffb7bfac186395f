"""The loops: say that we live, read orders, run them one at a time."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field

import msgspec

from gpu_agent.domain import (
    Began,
    Kept,
    News,
    ended,
    is_member,
    is_mine,
    progress_message,
    started,
)
from gpu_agent.service.lease import Lease, Reporter, lease_of
from gpu_agent.service.ports import Files, Metrics, Runs
from shared.blobs import Blobs, Missing
from shared.bus import Bus
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict
from shared.events import (
    AgentRegistered,
    Artefact,
    Blob,
    Fact,
    JobAssigned,
    JobExpired,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunReleased,
    StageResult,
)
from shared.lifecycle import until_first
from shared.subjects import progress

logger = logging.getLogger(__name__)

READ_S = 5.0
LEAVE_S_MAX = 2.0
# A run that is over sooner costs no heartbeats.
BUSY_S = 1.0
SILENT_HEARTBEATS = 3


@dataclass
class Agent:
    """One process of an agent; `session` names it in every order it accepts.

    `began` is where the log ended before its first heartbeat: no order is older than that.
    In quarantine it takes no orders until it is started again; `registration` says why.
    """

    session: str
    reporter: Reporter
    blobs: Blobs
    bus: Bus
    runs: Runs
    metrics: Metrics
    registration: AgentRegistered
    began: int = 0
    heartbeat_s: float = 5.0
    busy_s: float = BUSY_S
    drain_s: float = 8.0
    lease: Lease | None = None
    is_draining: bool = False
    orders: asyncio.Queue[Lease] = field(default_factory=asyncio.Queue)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The agent's id."""
        return self.reporter.agent

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
            self.lease.is_drained = True
            self.lease.stop()
            await asyncio.wait({self.lease.task}, timeout=self.drain_s)
        # Where the bus is gone too, the heartbeat's own time to live says it.
        with contextlib.suppress(Failed, TimeoutError):
            async with asyncio.timeout(LEAVE_S_MAX):
                await self.bus.leave(self.name)

    async def _beat(self) -> None:
        """Say that we live; at once when something changes that the log does not tell."""
        while True:
            self.changed.clear()
            said = self._state()
            ttl_s = max(1, round(self.heartbeat_s * SILENT_HEARTBEATS))
            try:
                await self.bus.beat(self.name, said, ttl_s)
                # Not wait_for: in 3.11 it swallows a cancellation that comes with the event.
                async with asyncio.timeout(self.heartbeat_s):
                    await self._news(said)
            except (Failed, TimeoutError):
                continue

    async def _news(self, said: bytes) -> None:
        """Until there is something else to say; that we are busy, the log said before us."""
        while self._state() == said:
            await self.changed.wait()
            # The next run may have begun before the end of the last one was seen here.
            while self.changed.is_set():
                self.changed.clear()
                if self.lease is not None and not self.is_draining:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.busy_s):
                            await self.changed.wait()

    def _state(self) -> bytes:
        """What a heartbeat says."""
        is_busy = self.lease is not None or self.is_draining
        is_well = not self.registration.quarantine
        self.metrics.looked(is_busy=is_busy, is_well=is_well)
        said = {
            "session": self.session,
            "is_free": is_well and not is_busy,
            "registration": self.registration,
            "run": self.lease.run if self.lease else None,
        }
        return msgspec.json.encode(said)

    async def _read(self) -> None:
        """Orders go to the desk; the news that a lease is over stops its run at once."""
        inbox = await self.bus.inbox(self.name, self.began)
        while not self.is_draining:
            delivery = await inbox.next(READ_S)
            if delivery is None:
                continue
            fact = delivery.recorded.fact
            if isinstance(fact, JobAssigned):
                await self._take(lease_of(delivery, fact))
                continue
            if isinstance(fact, JobExpired | RunCancelled | RunReleased):
                self._give_back(delivery.recorded.envelope.agg, fact.reason)
            await delivery.ack()
        await asyncio.Event().wait()

    async def _take(self, lease: Lease) -> None:
        """One order lies on the desk; while a run is in hand, the next is turned down at once."""
        if self.is_draining or not is_mine(lease.order, self.session):
            await lease.delivery.ack()
        elif self.lease is not None and not self.lease.is_left:
            busy = self._failed("busy", f"the agent is busy with run {self.lease.run}")
            # Over already, or not to be said before its deadline: then nobody waits for it.
            with contextlib.suppress(Conflict, Failed):
                await self.reporter.append(lease, busy)
            await lease.delivery.ack()
        else:
            self.lease = lease
            self.orders.put_nowait(lease)
            self.changed.set()

    def _give_back(self, agg: str, reason: str) -> None:
        if self.lease is not None and self.lease.agg == agg:
            self.lease.lost = reason or "the lease is over"
            self.lease.stop()

    async def _work(self) -> None:
        """One order after the other."""
        while True:
            lease = await self.orders.get()
            if self.is_draining:
                await lease.delivery.ack()
                continue
            lease.task = asyncio.create_task(self._run(lease))
            await asyncio.wait({lease.task})
            await self._look_after()
            if self.lease is lease:
                self.lease = None
            self.changed.set()
            if not lease.task.cancelled():
                lease.task.result()

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
        fact: Fact | None = None
        try:
            fact = await self._result(lease)
        except Conflict as conflict:
            lease.lost = str(conflict)
        except asyncio.CancelledError:
            if not lease.is_drained and not lease.lost:
                raise
            # Nobody waits for a word of one who was only kept free.
            if not lease.lost and not is_member(lease.order, self.name):
                fact = self._failed("drained", "the agent was stopped")
        except (Missing, Failed) as error:
            fact = self._failed("platform", str(error))
        await self._end(lease, fact)

    async def _end(self, lease: Lease, fact: Fact | None) -> None:
        """Say the last word, if the lease is still ours."""
        lease.is_ending = True
        if isinstance(fact, RunCompleted | RunFailed):
            fact = msgspec.structs.replace(fact, stages=list(lease.stages))
        if fact is not None and not lease.lost:
            try:
                await self.reporter.append(lease, fact)
                self.metrics.said(fact)
            except Conflict as conflict:
                lease.lost = str(conflict)
        if lease.lost and lease.has_begun:
            self.metrics.lost()
            await self.reporter.discard(lease, getattr(fact, "verdict", ""))
        await lease.delivery.ack()

    async def _result(self, lease: Lease) -> Fact | None:
        why = self.registration.quarantine
        if lease.lost:
            return None
        if why:
            # It was on its way when the quarantine began, and is for another agent.
            return self._failed("quarantine", f"the agent is in quarantine: {why}")
        if is_member(lease.order, self.name):
            await self._keep_free(lease)
            return None
        return await self._verdict(lease)

    async def _keep_free(self, lease: Lease) -> None:
        """Do nothing, so that the first of the gang has this agent's GPU, too."""
        left_s = (lease.order.deadline_at - now()).total_seconds()
        await asyncio.sleep(max(0.0, left_s))

    async def _verdict(self, lease: Lease) -> Fact:
        outcome, files = await self.runs.run(lease.order, lambda news: self._told(lease, news))
        return ended(outcome, lease.environment, await self._kept(files))

    async def _kept(self, files: Files) -> Kept:
        return Kept(
            log=await self._keep(files.log, "text/plain"),
            samples=await self._keep(files.samples, "application/gzip"),
            artefacts=[
                Artefact(name=name, media=media, blob=await self.blobs.put(data, media))
                for name, media, data in files.artefacts
            ],
        )

    async def _keep(self, data: bytes, media: str) -> Blob | None:
        return await self.blobs.put(data, media) if data else None

    @staticmethod
    def _failed(code: str, reason: str) -> RunFailed:
        return RunFailed(stage="", code=code, reason=reason)

    async def _told(self, lease: Lease, news: News) -> None:
        """What the harness says on its way: its key into the log, all else in passing."""
        if isinstance(news, Began):
            fact = started(news, self.registration.fingerprint)
            await self.reporter.append(lease, fact)
            self.metrics.said(fact)
            lease.has_begun = True
            lease.environment = news.environment
            await lease.delivery.ack()
            return
        if isinstance(news, StageResult):
            lease.stages.append(news)
        topic = progress(lease.order.submission)
        await self.bus.tell(topic, progress_message(news, lease.stages))
