"""The process manager: fold the log and, once caught up, append what the rules decide.

It knows which agents are alive from the heartbeats in the bucket LEASES. The local clock is
compared with the log server's: a wrong clock must not decide what is late.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from scheduler.domain.fold import evolve
from scheduler.domain.match import list_candidates
from scheduler.domain.queue import Forecast, Policy, build_forecast
from scheduler.domain.rules import IDLE, decide
from scheduler.domain.state import Decision, Offer, SchedulerState, World, split_decision
from scheduler.domain.traces import lease_spans
from shared import subjects
from shared.allowances import Allowance
from shared.bus import Bus
from shared.clock import now
from shared.errors import Failed
from shared.event_log import Appender, Conflict, EventLog, Feed, RecordedEvent
from shared.events import SLOTS_MAX, AgentRegistered
from shared.health import HealthReporter, warn_rarely
from shared.reports import RunRecord
from shared.snapshots import FoldSnapshots
from shared.tracing import DISCARD, SpanRecorder

# With a larger skew, nothing that depends on the time is decided.
CLOCK_SKEW_S_MAX = 5.0
READ_EVERY_S = 5.0
# A slower answer does not tell precisely enough when it was given.
ANSWER_S_MAX = 2.0
# How long the server's time is extrapolated by the monotonic clock; then it is unknown.
READING_S_MAX = 60.0
CLOCK_PART = "clock"
BEAT_BYTES_MAX = 64 * 1024
# Changed registrations of an agent: one whenever its machine or its health changes.
CHANGES_BURST, CHANGES_PER_S = 10.0, 1 / 600
# The largest integer that the read models can hold.
NUMBER_MAX = 2**31 - 1
ACTOR = "service:scheduler"
SNAPSHOT = "scheduler"
# A start folds what came after the last snapshot, some 20,000 events a second. With 100,000 waiting
# jobs a snapshot takes the loop 0.3 s.
SNAPSHOT_EVENTS, SNAPSHOT_S = 20_000, 30.0
AT_ONCE_MAX = 256
PUBLISH_S = 1.0
REPEAT_S = 10.0
FORECAST_BYTES_MAX = 60 * 1024

log = logging.getLogger(__name__)


class ServerClock:
    """The current time, and whether this machine and the server agree on it.

    The server's time is read every few seconds and extrapolated by the monotonic clock, so that a
    step of the local clock shows at once. `clock` is the local one.
    """

    def __init__(
        self, clock: Callable[[], datetime] = now, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._monotonic = clock, monotonic
        self._read: tuple[datetime, float] | None = None

    def take(self, server_at: datetime, asked_at: float, answered_at: float) -> None:
        """Record a time that the server sent between two readings of the monotonic clock."""
        if answered_at - asked_at <= ANSWER_S_MAX:
            self._read = server_at, (asked_at + answered_at) / 2

    def skew_s(self) -> float | None:
        """Return how far the local clock is ahead of the server's; None if unknown."""
        if self._read is None:
            return None
        server_at, read_at = self._read
        elapsed_s = self._monotonic() - read_at
        if elapsed_s > READING_S_MAX:
            return None
        return (self._clock() - server_at).total_seconds() - elapsed_s

    def is_trusted(self) -> bool:
        """Return whether the two clocks agree."""
        skew_s = self.skew_s()
        return skew_s is not None and abs(skew_s) <= CLOCK_SKEW_S_MAX

    def now(self) -> datetime:
        """Return the local time, or the server's while the clocks are known to differ."""
        skew_s, at = self.skew_s(), self._clock()
        if skew_s is None or abs(skew_s) <= CLOCK_SKEW_S_MAX:
            return at
        return at - timedelta(seconds=skew_s)

    def trouble(self) -> str:
        """Explain why the clock is not trusted; "" if it is."""
        skew_s = self.skew_s()
        if skew_s is None:
            return "the log server's time is not known"
        if abs(skew_s) <= CLOCK_SKEW_S_MAX:
            return ""
        direction = "ahead of" if skew_s > 0 else "behind"
        limit = f"the limit is {CLOCK_SKEW_S_MAX:.0f} s"
        return f"this machine's clock is {abs(skew_s):.0f} s {direction} the log server's: {limit}"

    async def watch(
        self,
        read: Callable[[], Awaitable[datetime]],
        report_unhealthy: HealthReporter,
        measured: Callable[[float], None],
    ) -> None:
        """Read the server's time without end; report to /healthz, and the skew to `measured`."""
        while True:
            asked_at = self._monotonic()
            try:
                self.take(await read(), asked_at, self._monotonic())
            except Failed as failed:
                warn_rarely(log, CLOCK_PART, "the log server's time cannot be read: %s", failed)
            if trouble := self.trouble():
                key = f"{CLOCK_PART} trouble"
                warn_rarely(log, key, "%s; nothing is ended as overdue", trouble)
            report_unhealthy(CLOCK_PART, trouble or None)
            if (skew_s := self.skew_s()) is not None:
                measured(skew_s)
            await asyncio.sleep(READ_EVERY_S)


class Heartbeat(msgspec.Struct, frozen=True):
    """What an agent writes every few seconds."""

    session: str
    is_free: bool
    registration: AgentRegistered
    runs: tuple[str, ...] = ()


def _parse_offer(agent: str, value: bytes) -> Offer:
    """Decode a heartbeat and check its bounds. Raises ValueError, also for invalid JSON."""
    if len(value) > BEAT_BYTES_MAX:
        raise ValueError(f"its heartbeat has {len(value)} bytes, over {BEAT_BYTES_MAX}")
    heartbeat = msgspec.json.decode(value, type=Heartbeat)
    registration = heartbeat.registration
    subjects.agent(agent)
    subjects.pool(registration.gpu)
    for number in (registration.count, registration.memory_mib, registration.sandbox_memory_mib):
        if not 0 <= number <= NUMBER_MAX:
            raise ValueError(f"{number} is neither a number of GPUs nor a memory size in MiB")
    if not 1 <= registration.slots <= SLOTS_MAX:
        raise ValueError(f"it has {registration.slots} slots: expected 1 to {SLOTS_MAX}")
    session, is_free, runs = heartbeat.session, heartbeat.is_free, heartbeat.runs
    return Offer(agent, session, is_free, registration, runs)


@dataclass
class Presence:
    """The agents that are alive; just after the start a missing agent is unknown, not gone.

    The bus reports who is gone and counts only while it is connected, so an outage of the bus does
    not look like silent agents. Each changed registration becomes an event, so an agent may change
    it only so often; one that changes it more often is named in `misconduct`.
    """

    silent_s_max: float
    began: float = field(default_factory=time.monotonic)
    heard: dict[str, Offer] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    registered: dict[str, tuple[AgentRegistered, Allowance]] = field(default_factory=dict)
    misconduct: dict[str, str] = field(default_factory=dict)

    async def watch(self, bus: Bus) -> None:
        """Read heartbeats until cancelled."""
        async for beat in bus.beats():
            offer = None
            try:
                offer = None if beat.value is None else _parse_offer(beat.agent, beat.value)
            except ValueError as error:
                log.warning("agent %s sent an invalid heartbeat: %s", beat.agent, error)
            if self.heard.get(beat.agent) == offer or not self._may_register(offer):
                continue
            self.changed.set()
            if offer is None:
                del self.heard[beat.agent]
            else:
                self.heard[beat.agent] = offer

    def _may_register(self, offer: Offer | None) -> bool:
        """Whether a registration is the last one, or may follow it now."""
        if offer is None:
            return True
        first = (offer.registration, Allowance(CHANGES_BURST, CHANGES_PER_S))
        last, allowance = self.registered.setdefault(offer.agent, first)
        if last != offer.registration and not allowance.take():
            self.misconduct[offer.agent] = "it changes its registration too often"
            return False
        self.registered[offer.agent] = (offer.registration, allowance)
        return True

    def offers(self) -> dict[str, Offer]:
        """Return the agents that are alive."""
        return dict(self.heard)

    def is_settled(self) -> bool:
        """Return whether a missing agent is gone, not merely unheard."""
        return time.monotonic() - self.began > self.silent_s_max

    async def news(self) -> None:
        """Return as soon as an agent appeared, left or changed its heartbeat."""
        await self.changed.wait()
        self.changed.clear()


class Metrics(Protocol):
    """What operators watch."""

    def looked(self, state: SchedulerState, world: World, behind: int) -> None:
        """Record that the state and the world were examined."""

    def said(self, decision: Decision) -> None:
        """Record that a decision was stored."""

    def conflicted(self) -> None:
        """Record that another scheduler appended first."""


@dataclass
class Scheduler:
    """Follows the log and appends what is due; it may be killed and restarted at any point.

    Several schedulers may run: each decides for itself, and the log keeps the first of conflicting
    decisions. `has_listened` says whether agents' waiting reports had time to arrive, `misconduct`
    which agents to quarantine. A snapshot is stored every `snapshot_events`, but not more often
    than every `snapshot_s`.
    """

    log: EventLog
    agents: Presence
    metrics: Metrics
    words: Bus
    snapshots: FoldSnapshots[SchedulerState]
    clock: ServerClock
    policy: Policy = field(default_factory=Policy)
    tick_s: float = 0.5
    snapshot_events: int = SNAPSHOT_EVENTS
    snapshot_s: float = SNAPSHOT_S
    spans: SpanRecorder = DISCARD
    state: SchedulerState = field(default_factory=SchedulerState)
    kept_seq: int = 0
    kept_at: float = field(default_factory=time.monotonic)
    keeping: asyncio.Task[None] | None = None
    is_due: bool = True
    decided_at: float = 0.0
    published_at: float = 0.0
    published: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    has_listened: Callable[[], bool] = lambda: True
    misconduct: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Append in the scheduler's name, at the time of its clock."""
        self.appender = Appender(self.log, ACTOR, self.clock.now)

    async def run(self) -> None:
        """Fold and decide until cancelled. Gap and UnknownEvent stop the process.

        It decides nothing while it catches up, and its own events must have come back through the
        feed before it decides again. It folds meanwhile: agents may report on a run as soon as its
        order is stored.
        """
        feed = await self._open_feed()
        awaited = await self.log.last()
        taking = asyncio.create_task(feed.take())
        waking = asyncio.create_task(self.agents.news())
        deciding: asyncio.Task[int] | None = None
        try:
            while True:
                waited = {taking, waking} if deciding is None else {taking, waking, deciding}
                await asyncio.wait(waited, timeout=self.tick_s, return_when=asyncio.FIRST_COMPLETED)
                if taking.done():
                    self._fold(taking.result())
                    taking = asyncio.create_task(feed.take())
                if waking.done():
                    waking.result()
                    waking = asyncio.create_task(self.agents.news())
                    self.is_due = True
                if deciding is not None and deciding.done():
                    awaited, deciding = max(awaited, deciding.result()), None
                if deciding is None and self.state.seq >= awaited and self._should_decide():
                    deciding = asyncio.create_task(self._decide(feed))
        finally:
            tasks = [taking, waking, deciding, self.keeping]
            started = [task for task in tasks if task is not None]
            for task in started:
                task.cancel()
            await asyncio.gather(*started, return_exceptions=True)
            await feed.close()

    def _fold(self, events: Sequence[RecordedEvent]) -> None:
        for event in events:
            self.state = evolve(self.state, event)
            self.is_due = self.is_due or event.envelope.type not in IDLE
        self._keep_if_due()

    def _should_decide(self) -> bool:
        """Whether a rule may be due: most events of agents make nothing due."""
        if not self.is_due and time.monotonic() - self.decided_at < self.tick_s:
            return False
        self.is_due, self.decided_at = False, time.monotonic()
        return True

    async def keep(self) -> None:
        """Write a snapshot, so that the next start folds only new events. Raises Failed."""
        if self.state.seq > self.kept_seq:
            seq = self.state.seq
            await self.snapshots.save(self.state, seq)
            self.kept_seq = seq

    def _keep_if_due(self) -> None:
        """Store a snapshot from time to time, in the background: nobody must wait for it."""
        is_keeping = self.keeping is not None and not self.keeping.done()
        is_due = self.state.seq - self.kept_seq >= self.snapshot_events
        if is_due and not is_keeping and time.monotonic() - self.kept_at >= self.snapshot_s:
            self.kept_at = time.monotonic()
            self.keeping = asyncio.create_task(self._try_to_keep())

    async def _try_to_keep(self) -> None:
        seq = self.state.seq
        try:
            await self.keep()
        except (Failed, ValueError) as error:
            # Without a snapshot the next start only takes longer.
            log.warning("no snapshot at event %s: %s", seq, error)
            self.kept_seq = seq

    async def _open_feed(self) -> Feed:
        """Start from the snapshot if there is one of this log, else from the first event."""
        snapshot = await self.snapshots.load()
        if snapshot is not None:
            self.state, self.kept_seq = snapshot
        return self.log.follow(self.state.seq)

    async def _decide(self, feed: Feed) -> int:
        """Append everything that is due; return the last event's sequence, 0 if there was none."""
        agents, clock = self.agents, self.clock
        world = World(
            clock.now(),
            agents.offers(),
            agents.is_settled(),
            clock.is_trusted(),
            self.has_listened(),
            self._pending_misconduct(),
        )
        self.metrics.looked(self.state, world, feed.behind)
        decisions = list(decide(self.state, world, self.policy))
        sequences = [
            await asyncio.gather(*map(self._append_decision, decisions[at : at + AT_ONCE_MAX]))
            for at in range(0, len(decisions), AT_ONCE_MAX)
        ]
        if time.monotonic() - self.published_at >= PUBLISH_S:
            self.published_at = time.monotonic()
            await self._publish_forecasts(world)
        return max((seq for seqs in sequences for seq in seqs), default=0)

    def _pending_misconduct(self) -> dict[str, str]:
        """Return the misconduct that no quarantine answers yet, and forget all other."""
        for name in list(self.misconduct):
            known = self.state.agents.get(name)
            if known is not None and known.quarantine:
                del self.misconduct[name]
        return dict(self.misconduct)

    def find_run(self, agent: str, id_: str) -> RunRecord | None:
        """Return how far a run of an agent is, if it is open; as folded, so perhaps late."""
        run = self.state.runs.get(id_)
        if run is None or run.agent != agent or run.end is not None:
            return None
        return RunRecord(run.version, run.assigned_at, run.has_begun)

    async def _append_decision(self, decision: Decision) -> int:
        """Append a decision; return its last sequence, 0 if another scheduler was first."""
        seq = 0
        try:
            for batch in split_decision(decision):
                began_ns = time.time_ns()
                seq = await self.appender.append(*batch)
                self.metrics.said(batch)
                if self.spans is not DISCARD:
                    for span in lease_spans(self.state, batch, began_ns, time.time_ns()):
                        self.spans.record(span)
        except Conflict as conflict:
            log.debug("another scheduler appended to %s first", conflict.aggregate)
            self.metrics.conflicted()
        return seq

    async def _publish_forecasts(self, world: World) -> None:
        """Publish the forecast of each pool when it changed, and now and then."""
        alive = list_candidates(self.state, world)
        launchers = self.state.launchers.values()
        launched = {gpu for launcher in launchers for gpu in launcher.registered.prices}
        for gpu in sorted(self.state.pools.keys() | alive.keys() | launched):
            forecast = build_forecast(self.state, gpu, alive.get(gpu, []), world, self.policy)
            published_at, last_content = self.published.get(gpu, (0.0, b""))
            content = msgspec.json.encode(
                (
                    *(forecast.paused, forecast.free, forecast.busy),
                    *(forecast.run_s, forecast.jobs, forecast.runs),
                    forecast.launchers,
                )
            )
            if content == last_content and time.monotonic() - published_at < REPEAT_S:
                continue
            self.published[gpu] = time.monotonic(), content
            await self.words.tell(subjects.queue(gpu), encode_forecast(forecast))


def encode_forecast(forecast: Forecast) -> bytes:
    """Encode a forecast for publication; jobs at the end are dropped until it fits."""
    data = msgspec.json.encode(forecast)
    while len(data) > FORECAST_BYTES_MAX:
        forecast = msgspec.structs.replace(
            forecast, jobs=forecast.jobs[: len(forecast.jobs) * 3 // 4]
        )
        data = msgspec.json.encode(forecast)
    return data
