"""Follows the log, folds it batch by batch and, near its end, decides and announces."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from ranker.domain.fold import decode_event
from ranker.domain.rows import DecodedEvent, LeaderboardKey
from ranker.service.announcements import Announcements, Milestones
from ranker.service.contest_confirmations import ContestConfirmations
from ranker.service.decisions import BatchChange, Decisions, Metrics, ReadModelStore, Unfoldable
from ranker.service.podium_jobs import Confirmations, Duels
from ranker.service.progress import ProjectionProgress
from ranker.service.retimes import Retimes
from shared.clock import now
from shared.event_log import EventSource, Feed, RecordedEvent
from shared.events import EventSkipped, Fact, ProjectionSwitched
from shared.lifecycle import run_until_first
from shared.wire import UnknownEvent, is_genuine

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Fact)

PROJECTION = "ranker"
BATCH_MAX = 16_000
# While a batch is written, the next is decoded in slices; between them Postgres is served.
SLICE = 1000
BATCH_BYTES_MAX = 64 * 1024 * 1024


class FoldedBatch(NamedTuple):
    """A folded batch: its last sequence, how many events are still waiting, and what it changed.

    `change` is None where that is unknown, at a start and after a stop.
    """

    seq: int
    behind: int
    change: BatchChange | None
    batch: Sequence[DecodedEvent] = ()


@dataclass
class Batch:
    """Decoded events, up to the first that cannot be decoded."""

    events: list[DecodedEvent] = field(default_factory=list)
    bytes: int = 0
    unfoldable: Unfoldable | None = None

    @property
    def is_full(self) -> bool:
        """Whether it has enough for one transaction."""
        is_large = len(self.events) >= BATCH_MAX or self.bytes >= BATCH_BYTES_MAX
        return is_large or self.unfoldable is not None

    def add(self, events: Iterable[RecordedEvent]) -> None:
        """Decode and add events."""
        for event in events:
            try:
                self.events.append(decode_event(event))
            except (UnknownEvent, msgspec.MsgspecError) as error:
                self.unfoldable = Unfoldable(event.seq, f"{type(error).__name__}: {error}")
                return
            self.bytes += len(event.body)


# A batch costs about as much as fifty events (two cores, 2026-11). The events of one submission
# arrive one by one and make a batch each: those never wait.
EVERY_S = 0.02
AT_ONCE = 16


@dataclass
class Pace:
    """Allows a burst of batches, then one in each `every_s`."""

    every_s: float = EVERY_S
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.monotonic
    spent_until: float = 0.0

    def pause_s(self) -> float:
        """How long the next batch should wait for more events.

        >>> pace = Pace(every_s=1.0, at_once=2, clock=lambda: 100.0)
        >>> [pace.pause_s() for _ in range(4)]
        [0.0, 0.0, 1.0, 2.0]
        """
        now = self.clock()
        self.spent_until = max(self.spent_until, now) + self.every_s
        return max(0.0, self.spent_until - now - self.at_once * self.every_s)


# How often a reader that waits for events checks what it has written.
CHECK_S = 1.0


async def take_with_checks(
    feed: Feed, most: int, check: Callable[[], Awaitable[None]]
) -> list[RecordedEvent]:
    """Return the next events; while there are none, call `check` once a second.

    Commits are lazy: when Postgres dies it loses the last ones, and only a statement shows that.
    Errors: Gap; those of `check`.
    """
    while True:
        waiting = asyncio.timeout(CHECK_S)
        try:
            # A cancelled take has taken nothing.
            async with waiting:
                return await feed.take(most)
        except TimeoutError:
            if not waiting.expired():
                raise
        await check()


@dataclass
class Projection:
    """Folds the log into read models, up to `until` or for ever.

    `switched` is the newest switch of tables that let it continue after a stop.
    """

    log: EventSource
    models: ReadModelStore
    progress: ProjectionProgress
    metrics: Metrics
    until: int | None = None
    folded_seq: int = 0
    taken: int = 0
    switched: int = 0
    feed: Feed | None = None
    next_batch: Batch = field(default_factory=Batch)
    pace: Pace = field(default_factory=Pace)

    async def run(self) -> AsyncIterator[FoldedBatch]:
        """Fold batch after batch. Raises Gap, Fenced, or Unfoldable if `until` is set."""
        self.folded_seq = await self.models.checkpoint()
        self.progress.advance(self.folded_seq)
        if await self.log.last() <= self.folded_seq:
            yield FoldedBatch(self.folded_seq, 0, None)
        try:
            while self.until is None or self.folded_seq < self.until:
                try:
                    folded = await self._fold()
                except Unfoldable as unfoldable:
                    await self._wait_for_operator(unfoldable)
                    folded = FoldedBatch(self.folded_seq, 1, None)
                yield folded
        finally:
            await self._close()

    async def _fold(self) -> FoldedBatch:
        """Write a batch and meanwhile decode the next one."""
        if self.feed is None:
            self.feed, self.taken = self.log.follow(self.folded_seq), self.folded_seq
        await self._gather(self.feed)
        batch, self.next_batch = self.next_batch, Batch()
        if not batch.events:
            assert batch.unfoldable is not None, "a batch without events has an unfoldable one"
            raise batch.unfoldable
        if self.until is not None:
            self.models.prepare(batch.events)
        writing = asyncio.create_task(self._write(batch.events))
        try:
            self.next_batch.unfoldable = batch.unfoldable
            # The batch is sent before the next one is started.
            await asyncio.sleep(0)
            while self._wants_more(self.feed) and not writing.done():
                await self._take(self.feed, SLICE)
                await asyncio.sleep(0)
            # A rebuild folds the next batch while Postgres is busy with this one.
            if (
                self.until is not None
                and self.next_batch.events
                and not self._wants_more(self.feed)
            ):
                self.models.prepare(self.next_batch.events)
            change = await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        behind = self.feed.behind + len(self.next_batch.events)
        return FoldedBatch(self.folded_seq, behind, change, batch.events)

    async def _gather(self, feed: Feed) -> None:
        """Fill the next batch: the first event and, at high rates, those of the next moment.

        A reader with an end waits until it is full, because large batches cost less per event.
        """
        if not self.next_batch.events and self.next_batch.unfoldable is None:
            await self._take_first(feed)
        while self.until is not None and self._wants_more(feed):
            await self._take(feed)
        pause_s = self.pace.pause_s() if self.until is None else 0.0
        if pause_s and not self.next_batch.is_full:
            await asyncio.sleep(pause_s)
            if feed.behind:
                await self._take(feed)

    def _wants_more(self, feed: Feed) -> bool:
        is_short = self.until is None or self.taken < self.until
        return is_short and feed.behind > 0 and not self.next_batch.is_full

    async def _take_first(self, feed: Feed) -> None:
        """Take the next events; while there are none, check that the tables are as written."""
        if self.until is not None:
            await self._take(feed)
            return
        check = partial(self.models.check_checkpoint, self.folded_seq)
        self._add(await take_with_checks(feed, BATCH_MAX, check))

    async def _take(self, feed: Feed, most: int = BATCH_MAX) -> None:
        self._add(await feed.take(min(most, BATCH_MAX - len(self.next_batch.events))))

    def _add(self, events: Sequence[RecordedEvent]) -> None:
        self.taken = events[-1].seq
        if self.until is not None:
            events = [event for event in events if event.seq <= self.until]
        self.next_batch.add(events)

    async def _write(self, events: Sequence[DecodedEvent]) -> BatchChange:
        """Fold a batch, at least the events before the first that cannot be folded."""
        try:
            change = await self.models.write(self.folded_seq, events)
        except Unfoldable as error:
            if len(events) == 1:
                raise Unfoldable(events[0].event.seq, error.reason) from error
            half = len(events) // 2
            first, second = await self._write(events[:half]), await self._write(events[half:])
            return first.and_then(second)
        self.folded_seq = events[-1].event.seq
        self.progress.advance(self.folded_seq)
        if self.until is None:
            # Readers and operators are informed; not during a replay.
            behind = self.feed.behind + len(self.next_batch.events) if self.feed is not None else 0
            folded = [decoded.event for decoded in events]
            problems = {board.problem for board in change.boards | change.met}
            self.progress.record(folded, behind, problems)
            self.metrics.folded(folded, behind)
        return change

    async def _wait_for_operator(self, unfoldable: Unfoldable) -> None:
        """Wait at an event until an operator skips it or switches to other tables."""
        log.error("%s; the projection is stopped until the event is skipped", unfoldable)
        await self._close()
        await self.models.park(unfoldable.seq, unfoldable.reason)
        self.progress.advance(self.folded_seq)
        self.progress.park(unfoldable.seq, unfoldable.reason)
        self.metrics.parked(1)
        if await self._is_skipped(unfoldable):
            await self.models.skip(unfoldable.seq)
            self.folded_seq = unfoldable.seq
        else:
            self.folded_seq = await self.models.checkpoint()
        self.metrics.parked(0)
        self.progress.advance(self.folded_seq)

    async def _is_skipped(self, unfoldable: Unfoldable) -> bool:
        """True when an EventSkipped names the event, False when the tables were switched.

        Raises Unfoldable if neither will come.
        """
        after = unfoldable.seq
        feed = self.log.follow(after)
        try:
            while self.until is None or after < self.until:
                batch = await feed.take(BATCH_MAX)
                after = batch[-1].seq
                for event in batch:
                    skip = _read_genuine(event, EventSkipped)
                    if skip and (skip.projection, skip.seq) == (PROJECTION, unfoldable.seq):
                        return True
                    is_new = self.until is None and event.seq > self.switched
                    switch = _read_genuine(event, ProjectionSwitched) if is_new else None
                    if switch and switch.name == PROJECTION:
                        self.switched = event.seq
                        return False
        finally:
            await feed.close()
        raise unfoldable

    async def _close(self) -> None:
        self.next_batch = Batch()
        feed, self.feed = self.feed, None
        if feed is not None:
            await feed.close()


def _read_genuine(event: RecordedEvent, kind: type[F]) -> F | None:
    """The fact of an event if it is a genuine one of a class."""
    if event.envelope.type != kind.__name__ or not is_genuine(event.envelope):
        return None
    fact = event.fact
    assert isinstance(fact, kind)
    return fact


def project(
    event_log: EventSource,
    models: ReadModelStore,
    progress: ProjectionProgress,
    metrics: Metrics,
    until: int | None = None,
) -> AsyncIterator[FoldedBatch]:
    """Fold batch after batch; yields after each how far behind the log it is.

    With `until` it ends once that sequence is folded, and does not wait for a later EventSkipped:
    an event that cannot be folded and was not skipped by then raises Unfoldable.
    """
    return Projection(event_log, models, progress, metrics, until).run()


# On a busy platform new events always arrive meanwhile; further behind, ranker only catches up.
CLOSE_TO_END = 500
# Batches that may wait to be announced; then folding waits too.
UNANNOUNCED_MAX = 100


@dataclass
class Ranker:
    """Projects the log; near the log's end it also decides and announces.

    Announcements run beside the projection, so that no submission's end waits for them. `is_near`
    tells whether the last announced batch was near the log's end.
    """

    decisions: Decisions
    announcements: Announcements
    progress: ProjectionProgress
    milestones: Milestones
    duels: Duels
    confirmations: Confirmations
    retimes: Retimes
    contest_confirmations: ContestConfirmations
    is_near: bool = False
    boards: set[LeaderboardKey] | None = None
    met: set[LeaderboardKey] | None = None
    is_end_due: bool = True
    is_draft_due: bool = True

    async def run(self) -> None:
        """Fold, decide and announce for ever. Gap, Fenced and Failed stop it."""
        unannounced: asyncio.Queue[FoldedBatch] = asyncio.Queue(UNANNOUNCED_MAX)
        await run_until_first(
            self._decide(unannounced),
            self._announce(unannounced),
            self._retime(),
            self._verify_winners(),
        )

    async def _decide(self, unannounced: "asyncio.Queue[FoldedBatch]") -> None:
        decisions = self.decisions
        async for folded in project(
            decisions.log, decisions.models, self.progress, decisions.metrics
        ):
            change = folded.change
            decisions.hear(folded.batch)
            self.is_end_due = self.is_end_due or change is None or change.is_end_due
            self.is_draft_due = self.is_draft_due or change is None or change.is_draft_due
            if folded.behind <= CLOSE_TO_END:
                self.is_end_due = self.is_end_due and await decisions.ends()
                self.is_draft_due = self.is_draft_due and await decisions.drafts()
            await unannounced.put(folded)

    async def _announce(self, unannounced: "asyncio.Queue[FoldedBatch]") -> None:
        """Announce what changed, for all the batches that were folded meanwhile at once."""
        while True:
            folded = await unannounced.get()
            self._note(folded)
            while not unannounced.empty():
                folded = unannounced.get_nowait()
                self._note(folded)
            self.is_near = folded.behind <= CLOSE_TO_END
            if self.is_near:
                self.boards = await self.announcements.announce(self.boards)
                await self.duels.judge()
                await self.confirmations.judge()
                self.met = await self.milestones.announce(self.met)
                self.progress.announced_seq = folded.seq

    async def _retime(self) -> None:
        """Let noisy runs be timed again when the time has come, for ever."""
        while True:
            await asyncio.sleep(self.retimes.look_s)
            if self.is_near:
                await self.retimes.look(now())

    async def _verify_winners(self) -> None:
        """Let the runs of a contest's winners be repeated once it has ended, for ever."""
        while True:
            await self.contest_confirmations.wait()
            if self.is_near:
                await self.contest_confirmations.look(now())

    def _note(self, folded: FoldedBatch) -> None:
        """Record which leaderboards and jobs to check once the log's end is near."""
        self.contest_confirmations.hear(folded.batch)
        change = folded.change
        if change is None:
            self.boards, self.met = None, None
            self.duels.forget()
            self.confirmations.forget()
            return
        reordered = self.duels.hear(folded.batch) | self.confirmations.hear(folded.batch)
        if self.boards is not None:
            self.boards |= change.boards | reordered
        if self.met is not None:
            self.met |= change.boards | change.met
