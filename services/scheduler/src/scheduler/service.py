"""The process manager: fold the log, and when live, say what is due."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from scheduler.domain.board import Board
from scheduler.domain.fair import Policy
from scheduler.domain.fold import evolve
from scheduler.domain.forecast import Forecast, forecast
from scheduler.domain.match import candidates
from scheduler.domain.moves import Move, Offer, World, steps
from scheduler.domain.rules import IDLE, due
from shared import subjects
from shared.errors import Failed
from shared.event_log import Conflict, EventLog, Feed, New, Recorded
from shared.wire import Stamp, seal

log = logging.getLogger(__name__)

ACTOR = "service:scheduler"
SNAPSHOT = "scheduler"
AT_ONCE_MAX = 256
TELL_S = 1.0
REPEAT_S = 10.0
FORECAST_BYTES_MAX = 60 * 1024


class Agents(Protocol):
    """Who is alive."""

    def offers(self) -> dict[str, Offer]:
        """The agents that are alive, by name."""
        ...

    def is_settled(self) -> bool:
        """Whether an agent that is missing is gone, not merely unheard."""
        ...

    async def news(self) -> None:
        """Return as soon as an agent came, went or said something else than before."""
        ...


class Clock(Protocol):
    """What the time is, and whether it may decide what is late."""

    def now(self) -> datetime:
        """The best that is known of the time."""
        ...

    def is_trusted(self) -> bool:
        """Whether this machine's clock agrees with the log server's."""
        ...


class Words(Protocol):
    """What is said and not kept."""

    async def tell(self, topic: str, data: bytes) -> None:
        """Say something to whoever listens now."""
        ...


class Snapshots(Protocol):
    """Bytes by name, the newest alone."""

    async def load(self, name: str) -> bytes | None:
        """What was kept last, whole, or None. Errors: Failed."""
        ...

    async def save(self, name: str, data: bytes) -> None:
        """Keep this instead, whole or not at all. Errors: Failed."""
        ...


class Metrics(Protocol):
    """What operators watch."""

    def looked(self, board: Board, world: World, behind: int) -> None:
        """The board and the world were looked at."""
        ...

    def said(self, move: Move) -> None:
        """A move is in the log."""
        ...

    def conflicted(self) -> None:
        """Somebody else moved first."""
        ...


def freeze(board: Board, code: str) -> bytes:
    """A snapshot of the board, for the same code alone."""
    return msgspec.msgpack.encode((code, msgspec.Raw(msgspec.msgpack.encode(board))))


def thaw(data: bytes | None, code: str) -> Board | None:
    """The board of a snapshot; None if it is damaged or was made by other code."""
    if data is None:
        return None
    try:
        maker, board = msgspec.msgpack.decode(data, type=tuple[str, msgspec.Raw])
        return msgspec.msgpack.decode(board, type=Board) if maker == code else None
    except msgspec.DecodeError as error:
        log.warning("the snapshot cannot be read, starting from the first event: %s", error)
        return None


@dataclass
class Scheduler:
    """Follows the log, and appends what is due; it may be killed at any point and started again.

    `code` names the fold: a snapshot of another code is not read. With several at once each
    decides for itself, and the log keeps the first of what excludes each other.
    """

    log: EventLog
    agents: Agents
    metrics: Metrics
    words: Words
    snapshots: Snapshots
    code: str
    clock: Clock
    policy: Policy = field(default_factory=Policy)
    tick_s: float = 0.5
    snapshot_events: int = 20_000
    board: Board = field(default_factory=Board)
    kept_seq: int = 0
    is_due: bool = True
    looked_at: float = 0.0
    told_at: float = 0.0
    told: dict[str, tuple[float, bytes]] = field(default_factory=dict)

    async def run(self) -> None:
        """Fold and decide for ever. Errors: Gap and UnknownEvent stop the process.

        While it catches up it decides nothing, and what it said itself must have come back
        through the feed before it looks again.
        """
        feed = await self._begin()
        awaited = await self.log.last()
        taking = asyncio.create_task(feed.take())
        waking = asyncio.create_task(self.agents.news())
        try:
            while True:
                await asyncio.wait(
                    {taking, waking}, timeout=self.tick_s, return_when=asyncio.FIRST_COMPLETED
                )
                has_taken = taking.done()
                if has_taken:
                    self._fold(taking.result())
                    await self._keep_now_and_then()
                if waking.done():
                    waking.result()
                    waking = asyncio.create_task(self.agents.news())
                    self.is_due = True
                if self.board.seq >= awaited and self._may_look():
                    awaited = max(awaited, await self._decide(feed))
                # Only now, so that it takes all that has come meanwhile.
                if has_taken:
                    taking = asyncio.create_task(feed.take())
        finally:
            for task in (taking, waking):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await feed.close()

    def _fold(self, events: Sequence[Recorded]) -> None:
        for event in events:
            self.board = evolve(self.board, event)
            self.is_due = self.is_due or event.envelope.type not in IDLE

    def _may_look(self) -> bool:
        """Whether there may be something to say: most of what agents say makes nothing due."""
        if not self.is_due and time.monotonic() - self.looked_at < self.tick_s:
            return False
        self.is_due, self.looked_at = False, time.monotonic()
        return True

    async def keep(self) -> None:
        """Write a snapshot, so that the next start folds new events alone. Errors: Failed."""
        if self.board.seq > self.kept_seq:
            seq = self.board.seq
            await self.snapshots.save(SNAPSHOT, freeze(self.board, self.code))
            self.kept_seq = seq

    async def _keep_now_and_then(self) -> None:
        if self.board.seq - self.kept_seq < self.snapshot_events:
            return
        try:
            await self.keep()
        except Failed as failed:
            # Without one the next start only takes longer.
            log.warning("no snapshot at event %s: %s", self.board.seq, failed)
            self.kept_seq = self.board.seq

    async def _begin(self) -> Feed:
        """Start from the snapshot if it is one of this log, else from the first event."""
        board = thaw(await self.snapshots.load(SNAPSHOT), self.code)
        if board is None or not 0 < board.seq <= await self.log.last():
            return self.log.follow(0)
        feed = self.log.follow(board.seq - 1)
        (newest,) = await feed.take(1)
        if newest.envelope.id == board.last_id:
            self.board, self.kept_seq = board, board.seq
            return feed
        log.warning("the snapshot is of another log, starting from the first event")
        await feed.close()
        return self.log.follow(0)

    async def _decide(self, feed: Feed) -> int:
        """Say what is due, all at once; the sequence of the last event said, 0 for none."""
        is_trusted = self.clock.is_trusted()
        alive, is_settled = self.agents.offers(), self.agents.is_settled()
        world = World(self.clock.now(), alive, is_settled, is_trusted)
        self.metrics.looked(self.board, world, feed.behind)
        moves = list(due(self.board, world, self.policy))
        said = [
            await asyncio.gather(*map(self._say, moves[at : at + AT_ONCE_MAX]))
            for at in range(0, len(moves), AT_ONCE_MAX)
        ]
        if time.monotonic() - self.told_at >= TELL_S:
            self.told_at = time.monotonic()
            await self._tell(world)
        return max((seq for seqs in said for seq in seqs), default=0)

    async def _say(self, move: Move) -> int:
        """The sequence of the move's last event, 0 if somebody else moved first."""
        seq = 0
        try:
            for step in steps(move):
                seq = await self._store(step)
                self.metrics.said(step)
        except Conflict as conflict:
            log.debug("%s was moved by another", conflict.agg)
            self.metrics.conflicted()
        return seq

    async def _store(self, step: Move) -> int:
        """The sequence of its last event. Errors: Conflict; Failed."""
        events = [
            New(
                seal(s.fact, s.agg, Stamp(s.id, self.clock.now(), ACTOR, s.corr, s.cause)),
                s.expected,
            )
            for s in step
        ]
        if len(events) == 1:
            return await self.log.append(events[0])
        return await self.log.append_all(events)

    async def _tell(self, world: World) -> None:
        """The forecast of each pool, when it changed and now and then."""
        alive = candidates(self.board, world)
        for gpu in sorted(self.board.pools.keys() | alive.keys()):
            told = forecast(self.board, gpu, alive.get(gpu, []), world, self.policy)
            since, before = self.told.get(gpu, (0.0, b""))
            news = msgspec.json.encode((told.paused, told.free, told.busy, told.run_s, told.jobs))
            if news == before and time.monotonic() - since < REPEAT_S:
                continue
            self.told[gpu] = time.monotonic(), news
            await self.words.tell(subjects.queue(gpu), packed(told))


def packed(told: Forecast) -> bytes:
    """A forecast as it is told, cut from behind until it fits."""
    data = msgspec.json.encode(told)
    while len(data) > FORECAST_BYTES_MAX:
        told = msgspec.structs.replace(told, jobs=told.jobs[: len(told.jobs) * 3 // 4])
        data = msgspec.json.encode(told)
    return data
