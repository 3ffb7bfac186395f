"""What readers see that is not stored: the progress of the read models, agents, runs, queues."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared import events
from shared.api.queues import Parked
from shared.bus import Bus
from shared.clock import now
from shared.errors import Failed
from shared.event_log import RecordedEvent, platform_time
from shared.events import SLOTS_MAX, AgentRegistered

# Followers read new events at once; a moment later the archive has them.
RECENT_MAX = 2000
RECENT_BYTES_MAX = 32 * 1024 * 1024
# How long a reader waits for the read models to catch up.
CATCH_UP_S_MAX = 5.0
# What /healthz calls a stopped projection, and how often it is looked for.
HEALTH_PART = "projection"
PARKED_S = 1.0
# What followers of all leaderboards follow, in the place of a submission.
LEADERBOARDS = "leaderboards"
# The types of the events that may change what a leaderboard shows.
LEADERBOARD_EVENTS = frozenset(
    kind.__name__
    for kind in (
        *(events.SubmissionFinished, events.RecordSet, events.MilestoneReached),
        *(events.DuelJudged, events.ConfirmationJudged, events.RejudgeApplied),
        *(events.SubmissionHeld, events.SubmissionReleased, events.SubmissionWithdrawn),
        *(events.SubmissionDisqualified, events.SubmissionRestored),
        *(events.AccountBanned, events.AccountUnbanned),
        *(events.AccountMerged, events.MergeUndone),
        *(events.ProblemPublished, events.LeaderboardChanged, events.LeaderboardArchived),
    )
)
# The events of a submission that change no leaderboard, or only those that its end names.
QUIET_EVENTS = frozenset(
    kind.__name__
    for kind in (
        *(events.SubmissionReceived, events.SubmissionsOpened, events.QuotaTaken),
        *(events.JobLeased, events.JobAssigned, events.RunStarted, events.RunCompleted),
        events.SubmissionFinished,
    )
)
# What commands log here is shown with `--progress`.
command_log = logging.getLogger("ranker.progress")
log = logging.getLogger(__name__)

# How many runs and queues are remembered.
QUEUES_MAX = 256
_Kind = TypeVar("_Kind")


def log_progress(step: str, done: int, total: int) -> None:
    """Log how much of a command's step is done; `warpboard server` reads these lines."""
    command_log.info("progress: %s, %d of %d", step, done, total)


class LeaderboardVersion(NamedTuple):
    """The last event that may have changed a problem's leaderboards, and where folding stopped."""

    seq: int
    parked: Parked | None


@dataclass
class ProjectionProgress:
    """Wakes readers who wait for the checkpoint to move, or for a submission's next event.

    `announced_seq` is how far the log is folded, decided and announced; `seq` may be further.
    Followers of `LEADERBOARDS` wait for any event that may change a leaderboard.
    """

    seq: int = 0
    announced_seq: int = 0
    at: datetime | None = None
    behind: int = 0
    parked: Parked | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False
    recent: OrderedDict[int, RecordedEvent] = field(default_factory=OrderedDict)
    recent_bytes: int = 0
    followers: dict[str, set[asyncio.Event]] = field(default_factory=dict)
    changed_seq: int = 0
    changed_seqs: dict[str, int] = field(default_factory=dict)

    def end(self) -> None:
        """Wake all waiting readers: the process is stopping."""
        self.is_over = True
        self.moved.set()
        for signals in self.followers.values():
            for signal in signals:
                signal.set()

    def advance(self, seq: int) -> None:
        """Record that the checkpoint moved to `seq`."""
        self.seq, self.parked = seq, None
        self._wake()

    def follow_checkpoint(self, seq: int) -> None:
        """Record that another instance moved the checkpoint: anything may have changed."""
        if seq == self.seq:
            return
        self.changed_seq = self.announced_seq = seq
        for signals in self.followers.values():
            for signal in signals:
                signal.set()
        self.advance(seq)

    def leaderboard_version(self, problem: str) -> LeaderboardVersion:
        """The version of what the leaderboards of a problem show, as far as events change it."""
        seq = max(self.changed_seq, self.changed_seqs.get(problem.lower(), 0))
        return LeaderboardVersion(seq, self.parked)

    def record(
        self,
        batch: Sequence[RecordedEvent],
        behind: int = 0,
        problems: AbstractSet[str] = frozenset(),
    ) -> None:
        """Record folded events: keep the newest, and wake followers of their submissions.

        `problems` are those on whose leaderboards ends of submissions changed something.
        """
        self.behind = behind
        self._keep_recent(batch)
        self.at = platform_time(batch) or self.at
        kinds = {event.envelope.type for event in batch}
        self.changed_seqs |= dict.fromkeys(problems, batch[-1].seq)
        if kinds - QUIET_EVENTS:
            self.changed_seq = batch[-1].seq
        if self.followers:
            # This only wakes readers: the fold decides which submission an event belongs to.
            topics = {event.envelope.corr for event in batch}
            if kinds & LEADERBOARD_EVENTS:
                topics.add(LEADERBOARDS)
            for topic in topics & self.followers.keys():
                for signal in self.followers[topic]:
                    signal.set()

    def _keep_recent(self, batch: Sequence[RecordedEvent]) -> None:
        for event in batch[-RECENT_MAX:]:
            if event.seq not in self.recent:
                self.recent[event.seq] = event
                self.recent_bytes += len(event.body)
        while len(self.recent) > RECENT_MAX or self.recent_bytes > RECENT_BYTES_MAX:
            _, dropped = self.recent.popitem(last=False)
            self.recent_bytes -= len(dropped.body)

    @contextmanager
    def follow(self, topic: str) -> Iterator[asyncio.Event]:
        """A signal that is set whenever a submission, or `LEADERBOARDS`, may have changed."""
        moved = asyncio.Event()
        if self.is_over:
            moved.set()
        self.followers.setdefault(topic, set()).add(moved)
        try:
            yield moved
        finally:
            signals = self.followers[topic]
            signals.discard(moved)
            if not signals:
                del self.followers[topic]

    def lag_s(self, at: datetime) -> float:
        """The age of the read models at an instant; 0 if everything is folded."""
        if self.at is None or not (self.behind or self.parked):
            return 0.0
        return max(0.0, (at - self.at).total_seconds())

    def park(self, seq: int, error: str) -> None:
        """Record that the projection is stopped at `seq` until an operator continues it."""
        self.parked = Parked(seq=seq, error=error)
        self._wake()

    async def report_parked(self, report_unhealthy: Callable[[str, str | None], None]) -> None:
        """Report on /healthz while the projection is stopped at an event that it cannot fold.

        Never returns.
        """
        # Once the process is to end, `wait` returns at once.
        while not self.is_over:
            parked = self.parked
            report_unhealthy(
                HEALTH_PART, None if parked is None else f"event {parked.seq}: {parked.error}"
            )
            await self.wait(PARKED_S)
        await asyncio.Event().wait()

    async def wait_until_folded(self, seq: int, log_end: Callable[[], Awaitable[int]]) -> None:
        """Wait until the read models have folded everything up to `seq`.

        For readers who ask for a number right after receiving it. Raises Failed if it takes too
        long.
        """
        if self.seq >= seq or seq > await log_end():
            return
        until = time.monotonic() + CATCH_UP_S_MAX
        while self.seq < seq:
            remaining_s = until - time.monotonic()
            if self.parked is not None:
                reason = f"the read models are stopped at event {self.parked.seq}"
                raise Failed(f"{reason}: an operator must resolve it")
            if remaining_s <= 0 or self.is_over:
                raise Failed("the read models are behind; try again")
            await self.wait(remaining_s)

    async def wait(self, within_s: float) -> None:
        """Return when something changes, or after a while."""
        try:
            async with asyncio.timeout(within_s):
                await self.moved.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self.moved.set()
        self.moved = asyncio.Event()


class _Offer(msgspec.Struct):
    session: str
    is_free: bool
    registration: AgentRegistered


@dataclass
class Live:
    """The newest heartbeat of each agent, its progress, and the forecast of each queue.

    `progress` has the newest submissions that an agent reports on, which may be others', each with
    the newest message, as many as an agent may have runs.
    """

    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    progress: dict[str, OrderedDict[str, dict[str, Any]]] = field(default_factory=dict)
    queues: OrderedDict[str, dict[str, Any]] = field(default_factory=OrderedDict)

    async def watch_agents(self, bus: Bus) -> None:
        """Follow heartbeats for ever."""
        async for beat in bus.beats():
            offer = beat.value and _decode(beat.value, _Offer)
            if offer:
                self.agents[beat.agent] = offer
            else:
                self.agents.pop(beat.agent, None)

    async def watch_progress(self, bus: Bus) -> None:
        """Follow progress messages for ever; the newest of each agent are remembered."""
        async for topic, data in bus.hear("progress.>"):
            _, agent, submission = topic.split(".")
            message = _decode(data, dict)
            if message is not None:
                messages = self.progress.setdefault(agent, OrderedDict())
                messages[submission] = message
                messages.move_to_end(submission)
                if len(messages) > SLOTS_MAX:
                    messages.popitem(last=False)

    def find_progress(self, submission: str, agent: str | None) -> dict[str, Any] | None:
        """Return the progress of a submission, as the agent that runs it reports."""
        messages = self.progress.get(agent or "")
        return None if messages is None else messages.get(submission)

    async def watch_queues(self, bus: Bus) -> None:
        """Follow the scheduler's forecasts for ever."""
        async for topic, data in bus.hear("queue.>"):
            _remember(self.queues, topic, data, QUEUES_MAX)


def _decode(data: bytes, kind: type[_Kind]) -> dict[str, Any] | None:
    """Decode a message as plain data; None if it is not of this kind."""
    try:
        msgspec.json.decode(data, type=kind)
        message: dict[str, Any] = msgspec.json.decode(data)
    except ValueError as error:
        log.warning("ignored a message that cannot be decoded: %s", error)
        return None
    return message


def _remember(
    messages: OrderedDict[str, dict[str, Any]], topic: str, data: bytes, messages_max: int
) -> None:
    """Remember the newest message of a topic; drop the oldest topic if there are too many."""
    name, message = topic.partition(".")[2], _decode(data, dict)
    if message is None:
        return
    messages[name] = message
    messages.move_to_end(name)
    if len(messages) > messages_max:
        messages.popitem(last=False)


class ProjectionLagMiddleware:
    """Adds the age of the shown data to each response."""

    def __init__(self, app: ASGIApp, progress: ProjectionProgress) -> None:
        self.app = app
        self.progress = progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header Warpboard-Projection-Lag in seconds. Source: the ASGI specification."""

        async def send_with_lag(message: Message) -> None:
            if message["type"] == "http.response.start":
                lag = f"{self.progress.lag_s(now()):.3f}".encode()
                message["headers"] = [*message["headers"], (b"warpboard-projection-lag", lag)]
            await send(message)

        await self.app(scope, receive, send_with_lag)
