"""The agent's loops: send heartbeats, read orders, run one in each slot, and report each run."""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from msgspec.structs import replace
from nacl.signing import SigningKey

from gpu_agent.domain import RunFiles, Timeline, fit_event, has_room, is_member, run_spans
from shared import subjects
from shared.blobs import BlobNotFound, BlobStore
from shared.bus import Bus, Delivery
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Conflict, NewEvent
from shared.events import (
    AgentRegistered,
    Artefact,
    ChunkStopRequested,
    Fact,
    JobAssigned,
    JobExpired,
    RunCancelled,
    RunCompleted,
    RunDiscarded,
    RunFailed,
    RunReleased,
    RunStarted,
    StageResult,
)
from shared.lifecycle import run_until_first
from shared.reports import report_id
from shared.signing import sign_verdict
from shared.tracing import DISCARD, SpanRecorder
from shared.wire import Envelope, EventMetadata, make_envelope

logger = logging.getLogger(__name__)

READ_S = 5.0
LEAVE_S_MAX = 2.0
# A shorter run causes no extra heartbeats.
BUSY_S = 1.0
SILENT_HEARTBEATS = 3
LEASE_ENDS = (JobExpired, RunCancelled, RunReleased)


class Metrics(Protocol):
    """The metrics of an agent."""

    def said(self, fact: Fact) -> None:
        """Count a fact of a run that was appended."""

    def lost(self) -> None:
        """Count a run whose lease was over before it had a result."""

    def looked(self, *, runs: int, slots: int, is_well: bool) -> None:
        """Update the agent's state, at each heartbeat: its runs, and how many it takes at once."""


@dataclass
class Lease:
    """A current run; `version` is the sequence of its last event, at first the fencing token.

    `aggregate` is the aggregate of its orders. `lost` is why the lease is no longer held. With
    `is_stopping`, the run of a chunk ends after its current items. With `is_ending` the last event
    is being appended. `stages` are those that ended.
    """

    order: JobAssigned
    aggregate: str
    token: int
    version: int
    delivery: Delivery
    task: asyncio.Task[None] | None = None
    lost: str = ""
    is_stopping: bool = False
    is_drained: bool = False
    has_begun: bool = False
    is_ending: bool = False
    stages: list[StageResult] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def run(self) -> str:
        """The run's id."""
        return subjects.last_token(self.aggregate)

    @property
    def is_left(self) -> bool:
        """Whether the run is ending here; the log may already know that it is over."""
        has_ended = self.task is not None and self.task.done()
        return has_ended or self.is_ending or bool(self.lost)

    def stop(self) -> None:
        """Cancel the run, unless its last event is being appended: then the log decides."""
        if self.task is not None and not self.is_ending:
            self.task.cancel()


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent sends: its process, whether it takes an order now, its offer and its runs."""

    session: str
    is_free: bool
    registration: AgentRegistered
    runs: tuple[str, ...]


class ReportLog(Protocol):
    """The log, as far as an agent may use it."""

    async def append(self, event: NewEvent) -> int:
        """Store a report and return its sequence; safe to repeat with the same id.

        Errors: Conflict if it is not the next event of a run that the agent has; Failed.
        """


@dataclass
class Reporter:
    """Appends events about an agent's runs; each verdict is signed with the agent's key."""

    agent: str
    log: ReportLog
    key: SigningKey

    async def append(self, lease: Lease, fact: Fact) -> None:
        """Append the next event of a run. Raises Conflict if the lease is over."""
        envelope = self._wrap(lease, fact, lease.version)
        if isinstance(fact, RunCompleted):
            sig = sign_verdict(self.key, lease.aggregate, lease.token, bytes(envelope.data))
            envelope = replace(envelope, sig=sig)
        event = NewEvent(envelope, lease.version)
        while True:
            try:
                lease.version = await self.log.append(event)
                return
            except Failed:
                if lease.is_drained or now() >= lease.order.deadline_at:
                    raise

    async def discard(self, lease: Lease, verdict: str) -> None:
        """Append a note about a result that came too late."""
        note = self._wrap(lease, RunDiscarded(verdict=verdict), 0)
        await self.log.append(NewEvent(note, None))

    def _wrap(self, lease: Lease, fact: Fact, version: int) -> Envelope:
        id_ = report_id(lease.run, type(fact).__name__, version)
        actor = f"agent:{self.agent}"
        stamp = EventMetadata(id_, now(), actor, lease.order.submission, lease.run)
        return make_envelope(fact, subjects.report(self.agent, lease.run), stamp)


@dataclass
class RunObserver:
    """Appends the start of a run to the log and publishes its progress, which is not kept."""

    lease: Lease
    reporter: Reporter
    bus: Bus
    metrics: Metrics
    registration: AgentRegistered

    async def report_start(self, event: RunStarted) -> None:
        """Append the event that binds the run to its key. Raises Conflict, Failed."""
        await self.reporter.append(self.lease, event)
        self.metrics.said(event)
        self.lease.has_begun = True
        await self.lease.delivery.ack()

    async def report_case(self, stage: str, case: str, done: int, total: int) -> None:
        """Publish that a case is about to run: `done` of `total` cases of its stage are over."""
        progress = {"stage": stage, "case": case, "done": done, "total": total}
        message = msgspec.json.encode(progress | {"stages": self.lease.stages})
        topic = subjects.progress(self.reporter.agent, self.lease.order.submission)
        await self.bus.tell(topic, message)

    async def report_stage(self, stage: StageResult) -> None:
        """Publish that a stage ended, and keep it for the run's last event."""
        self.lease.stages.append(stage)
        self.lease.timeline.stage_ends_ns.append(time.time_ns())
        await self.report_case(stage.stage, "", stage.cases, stage.cases)


class Runs(Protocol):
    """Runs jobs."""

    async def run(
        self, order: JobAssigned, observer: RunObserver
    ) -> tuple[RunCompleted | RunFailed, RunFiles]:
        """Run one job to its end; the event names no stored files and no stages yet.

        Raises Missing and Failed; cancellation kills it.
        """

    async def health(self) -> str:
        """Return why this machine must take no more jobs, "" if the next may start at once."""


@dataclass
class Agent:
    """One process of an agent; `session` names it in every order it accepts.

    `began` is the log's last sequence before its first heartbeat; no order is older. It takes as
    many runs at once as its `registration` has slots. In quarantine it takes no orders until it is
    restarted, and its current runs go on; `registration` gives the reason. With `is_once` it takes
    a single order; `has_verdict` says whether a run of its ended with one. `leases` are its current
    runs, also those after which it still checks the machine.
    """

    session: str
    reporter: Reporter
    blobs: BlobStore
    bus: Bus
    runs: Runs
    metrics: Metrics
    registration: AgentRegistered
    began: int = 0
    heartbeat_s: float = 5.0
    busy_s: float = BUSY_S
    drain_s: float = 8.0
    spans: SpanRecorder = DISCARD
    is_once: bool = False
    has_verdict: bool = False
    leases: list[Lease] = field(default_factory=list)
    is_draining: bool = False
    has_order: asyncio.Event = field(default_factory=asyncio.Event)
    has_run: asyncio.Event = field(default_factory=asyncio.Event)
    orders: asyncio.Queue[Lease] = field(default_factory=asyncio.Queue)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The agent's id."""
        return self.reporter.agent

    @property
    def is_free(self) -> bool:
        """Whether it takes an order now."""
        registration, orders = self.registration, [lease.order for lease in self.leases]
        is_out = self.is_draining or bool(registration.quarantine)
        return not is_out and has_room(orders, registration.slots, for_gang=False)

    async def serve(self, stopping: asyncio.Event) -> None:
        """Work until `stopping`, then finish the current runs or hand them back in `drain_s`."""
        await run_until_first(
            self._drain(stopping),
            self._send_heartbeats(),
            self._read_inbox(),
            *(self._run_orders() for _ in range(self.registration.slots)),
        )

    async def serve_once(self, stopping: asyncio.Event, wait_s: float) -> None:
        """Run one job and leave; without one within `wait_s`, only leave."""
        self.is_once = True
        await run_until_first(self.serve(stopping), self._stop_after_job(stopping, wait_s))

    async def _stop_after_job(self, stopping: asyncio.Event, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self.has_order.wait()
        if self.has_order.is_set():
            await self.has_run.wait()
        stopping.set()
        await asyncio.Event().wait()

    async def _drain(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self.is_draining = True
        self.changed.set()
        tasks = {lease.task for lease in self.leases if lease.task is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=self.drain_s)
        for lease in self.leases:
            lease.is_drained = True
            lease.stop()
        if tasks:
            await asyncio.wait(tasks, timeout=self.drain_s)
        # If the bus is gone too, the heartbeat expires by itself.
        with contextlib.suppress(Failed, TimeoutError):
            async with asyncio.timeout(LEAVE_S_MAX):
                await self.bus.leave(self.name)

    async def _send_heartbeats(self) -> None:
        """Send heartbeats, and one at once when something changes that the log does not tell."""
        while True:
            self.changed.clear()
            heartbeat = self._make_heartbeat()
            ttl_s = max(1, round(self.heartbeat_s * SILENT_HEARTBEATS))
            try:
                await self.bus.beat(self.name, msgspec.json.encode(heartbeat), ttl_s)
                # Not wait_for: in 3.11 it swallows a cancellation that comes with the event.
                async with asyncio.timeout(self.heartbeat_s):
                    await self._until_heartbeat_changes(heartbeat)
            except (Failed, TimeoutError):
                continue

    async def _until_heartbeat_changes(self, heartbeat: Heartbeat) -> None:
        """Wait until the heartbeat changes; that a run began, the log tells already."""
        while self._make_heartbeat() == heartbeat:
            await self.changed.wait()
            # The next run may have begun before the end of the last one was seen here.
            while self.changed.is_set():
                self.changed.clear()
                if not self._is_urgent(heartbeat):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.busy_s):
                            await self.changed.wait()

    def _is_urgent(self, heartbeat: Heartbeat) -> bool:
        """Whether a heartbeat says what the log does not tell: most often, that a slot is free."""
        has_ended = not set(heartbeat.runs) <= {lease.run for lease in self.leases}
        is_changed = self.is_draining or self.registration is not heartbeat.registration
        return is_changed or (has_ended and self.is_free)

    def _make_heartbeat(self) -> Heartbeat:
        registration, runs = self.registration, tuple(lease.run for lease in self.leases)
        is_well = not registration.quarantine
        self.metrics.looked(runs=len(runs), slots=registration.slots, is_well=is_well)
        return Heartbeat(
            session=self.session, is_free=self.is_free, registration=registration, runs=runs
        )

    async def _read_inbox(self) -> None:
        """Read the inbox: queue orders, and stop the run of a lease that is over at once."""
        inbox = await self.bus.inbox(self.name, self.began)
        while not self.is_draining:
            delivery = await inbox.next(READ_S)
            if delivery is None:
                continue
            recorded = delivery.recorded
            aggregate, fact = recorded.envelope.aggregate, recorded.fact
            if isinstance(fact, JobAssigned):
                await self._take_order(Lease(fact, aggregate, recorded.seq, recorded.seq, delivery))
                continue
            for lease in self.leases:
                if isinstance(fact, ChunkStopRequested) and lease.run == fact.run:
                    lease.is_stopping = True
                elif isinstance(fact, LEASE_ENDS) and lease.aggregate == aggregate:
                    lease.lost = fact.reason or "the lease is over"
                    lease.stop()
            await delivery.ack()
        await asyncio.Event().wait()

    async def _take_order(self, lease: Lease) -> None:
        """Take one order; it is turned down while no slot is free for it.

        Orders for an earlier process of the agent are void.
        """
        is_void = self.is_draining or lease.order.session != self.session
        current_leases = [current for current in self.leases if not current.is_left]
        orders = [current.order for current in current_leases]
        for_gang, slots = bool(lease.order.gang), self.registration.slots
        if not is_void and has_room(orders, slots, for_gang=for_gang):
            self.leases.append(lease)
            lease.timeline.taken_ns = time.time_ns()
            self.has_order.set()
            self.orders.put_nowait(lease)
            self.changed.set()
            return
        if not is_void:
            runs = ", ".join(current.run for current in current_leases)
            refusal = _build_failure("busy", f"the agent is busy with run {runs}")
            # The lease is over, or the log was not reached in time: nobody waits for it.
            with contextlib.suppress(Conflict, Failed):
                await self.reporter.append(lease, refusal)
        await lease.delivery.ack()

    async def _run_orders(self) -> None:
        """Run one order after the other in a slot.

        If the machine is not well after one, enter quarantine.
        """
        while True:
            lease = await self.orders.get()
            if self.is_draining:
                self.leases.remove(lease)
                await lease.delivery.ack()
                continue
            lease.task = asyncio.create_task(self._run(lease))
            await asyncio.wait({lease.task})
            fault = await self.runs.health()
            if fault and not self.registration.quarantine:
                logger.error("agent %s is in quarantine: %s", self.name, fault)
                self.registration = replace(self.registration, quarantine=fault, modes=[])
            # From here on every order is void.
            self.is_draining = self.is_draining or self.is_once
            self.leases.remove(lease)
            if not self.leases:
                self.spans.export_soon()
            self.has_run.set()
            self.changed.set()
            if not lease.task.cancelled():
                lease.task.result()

    async def _run(self, lease: Lease) -> None:
        """Run an order and append its end: a verdict, a failure, or only a note."""
        fact: Fact | None = None
        try:
            fact = await self._produce_result(lease)
        except Conflict as conflict:
            lease.lost = str(conflict)
        except asyncio.CancelledError:
            if not lease.is_drained and not lease.lost:
                raise
            # A member of a gang was only kept free: nobody waits for its result.
            if not lease.lost and not is_member(lease.order, self.name):
                fact = _build_failure("drained", "the agent was stopped")
        except (BlobNotFound, Failed) as error:
            fact = _build_failure("platform", str(error))
        await self._finish_run(lease, fact)

    async def _finish_run(self, lease: Lease, fact: Fact | None) -> None:
        """Append the run's last event if the lease is still held."""
        lease.is_ending = True
        if isinstance(fact, RunCompleted | RunFailed):
            fact = replace(fact, stages=list(lease.stages))
        if fact is not None and not lease.lost:
            try:
                await self.reporter.append(lease, fact)
                self.has_verdict = self.has_verdict or isinstance(fact, RunCompleted)
                self.metrics.said(fact)
            except Conflict as conflict:
                lease.lost = str(conflict)
        if lease.lost and lease.has_begun:
            self.metrics.lost()
            # The services refuse a note on a run that they do not know.
            with contextlib.suppress(Conflict):
                await self.reporter.discard(lease, getattr(fact, "verdict", ""))
        await lease.delivery.ack()
        self._record_run(lease, fact)

    def _record_run(self, lease: Lease, fact: Fact | None) -> None:
        """Record the spans of a run that is over; while it ran, only times were noted."""
        if self.spans is DISCARD or is_member(lease.order, self.name):
            return
        timeline, failure = lease.timeline, fact.code if isinstance(fact, RunFailed) else ""
        timeline.ended_ns = time.time_ns()
        timeline.end, timeline.error = getattr(fact, "verdict", failure), lease.lost or failure
        for span in run_spans(lease.order, lease.run, timeline, lease.stages):
            self.spans.record(span)

    async def _produce_result(self, lease: Lease) -> Fact | None:
        quarantine = self.registration.quarantine
        if lease.lost:
            return None
        if quarantine:
            # The order was on its way when the quarantine began; another agent takes it.
            return _build_failure("quarantine", f"the agent is in quarantine: {quarantine}")
        if is_member(lease.order, self.name):
            # The first agent of the gang uses this GPU until then.
            remaining_s = (lease.order.deadline_at - now()).total_seconds()
            await asyncio.sleep(max(0.0, remaining_s))
            return None
        return await self._run_job(lease)

    async def _run_job(self, lease: Lease) -> Fact:
        """Run a job, and store its files as blobs that its verdict names."""
        observer = RunObserver(lease, self.reporter, self.bus, self.metrics, self.registration)
        event, files = await self.runs.run(lease.order, observer)
        lease.timeline.measured_ns = time.time_ns()
        if isinstance(event, RunCompleted):
            put = self.blobs.put
            event = replace(
                event,
                log=await put(files.log, "text/plain") if files.log else None,
                samples=await put(files.samples, "application/gzip") if files.samples else None,
                artefacts=[
                    Artefact(name=name, media=media, blob=await put(data, media))
                    for name, media, data in files.artefacts
                ],
            )
        return fit_event(event)


def _build_failure(code: str, reason: str) -> RunFailed:
    return RunFailed(stage="", code=code, reason=reason)
