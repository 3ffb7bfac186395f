"""Follow the log and fold it, batch after batch; stop before what cannot be folded."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ranker.domain.batch import Told, tell
from ranker.service.news import News
from ranker.service.pace import Pace
from ranker.service.ports import Change, Metrics, Models, Unfoldable
from shared.event_log import EventLog, Feed, Recorded
from shared.events import EventSkipped, ProjectionSwitched
from shared.wire import UnknownEvent, is_genuine

log = logging.getLogger(__name__)

PROJECTION = "ranker"
BATCH_MAX = 4000
# While a batch is written, the next is decoded in such slices; between them Postgres is answered.
SLICE = 1000
BATCH_BYTES_MAX = 64 * 1024 * 1024


class Folded(NamedTuple):
    """A batch is in: how many events still wait, what it may have moved, and what it was.

    Where nobody knows what moved, at a start and after a stop, `change` is None.
    """

    behind: int
    change: Change | None
    batch: Sequence[Told] = ()


@dataclass
class Batch:
    """Events that are decoded, up to the first that cannot be."""

    told: list[Told] = field(default_factory=list)
    bytes: int = 0
    poison: Unfoldable | None = None

    @property
    def is_full(self) -> bool:
        """Whether one transaction should take no more."""
        is_large = len(self.told) >= BATCH_MAX or self.bytes >= BATCH_BYTES_MAX
        return is_large or self.poison is not None

    def add(self, events: Iterable[Recorded]) -> None:
        """Decode what came."""
        for event in events:
            try:
                self.told.append(tell(event))
            except (UnknownEvent, msgspec.MsgspecError) as error:
                self.poison = Unfoldable(event.seq, f"{type(error).__name__}: {error}")
                return
            self.bytes += len(event.body)


@dataclass
class Projection:
    """One reading of the log into read models, up to `until` or for ever.

    `switched` is the newest switch of tables that made it look again at what it stood before.
    """

    log: EventLog
    models: Models
    news: News
    metrics: Metrics
    until: int | None = None
    done: int = 0
    taken: int = 0
    switched: int = 0
    feed: Feed | None = None
    ahead: Batch = field(default_factory=Batch)
    pace: Pace = field(default_factory=Pace)

    async def run(self) -> AsyncIterator[Folded]:
        """Fold batch after batch. Errors: Gap; Fenced; Unfoldable if `until` says not to wait."""
        self.done = await self.models.checkpoint()
        self.news.tell(self.done)
        if await self.log.last() <= self.done:
            yield Folded(0, None)
        try:
            while self.until is None or self.done < self.until:
                yield await self._turn()
        finally:
            await self._close()

    async def _turn(self) -> Folded:
        try:
            return await self._fold()
        except Unfoldable as poison:
            await self._stand(poison)
            return Folded(1, None)

    async def _fold(self) -> Folded:
        """Write a batch, and meanwhile decode what is to be written after it."""
        if self.feed is None:
            self.feed, self.taken = self.log.follow(self.done), self.done
        await self._gather(self.feed)
        batch, self.ahead = self.ahead, Batch()
        if not batch.told:
            assert batch.poison is not None, "a batch without events has met a bad one"
            raise batch.poison
        if self.until is not None:
            self.models.prepare(batch.told)
        writing = asyncio.create_task(self._write(batch.told))
        try:
            self.ahead.poison = batch.poison
            # The batch goes out before the next one is begun.
            await asyncio.sleep(0)
            while self._wants_more(self.feed) and not writing.done():
                await self._take(self.feed, SLICE)
                await asyncio.sleep(0)
            # A rebuild folds what it will write next while Postgres is busy with this.
            if self.until is not None and self.ahead.told and not self._wants_more(self.feed):
                self.models.prepare(self.ahead.told)
            change = await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        return Folded(self.feed.behind + len(self.ahead.told), change, batch.told)

    async def _gather(self, feed: Feed) -> None:
        """Have the next batch: the first event, and where many come those of the next moment.

        Who reads to an end waits until it is full, for large batches cost less an event.
        """
        if not self.ahead.told and self.ahead.poison is None:
            await self._take(feed)
        while self.until is not None and self._wants_more(feed):
            await self._take(feed)
        pause_s = self.pace.pause_s() if self.until is None else 0.0
        if pause_s and not self.ahead.is_full:
            await asyncio.sleep(pause_s)
            if feed.behind:
                await self._take(feed)

    def _wants_more(self, feed: Feed) -> bool:
        is_short = self.until is None or self.taken < self.until
        return is_short and feed.behind > 0 and not self.ahead.is_full

    async def _take(self, feed: Feed, most: int = BATCH_MAX) -> None:
        came = await feed.take(min(most, BATCH_MAX - len(self.ahead.told)))
        self.taken = came[-1].seq
        if self.until is not None:
            came = [event for event in came if event.seq <= self.until]
        self.ahead.add(came)

    async def _write(self, told: Sequence[Told]) -> Change:
        """Fold a batch in, the events before the first that cannot be folded at least."""
        try:
            change = await self.models.write(self.done, told)
        except Unfoldable as error:
            if len(told) == 1:
                raise Unfoldable(told[0].event.seq, error.reason) from error
            half = len(told) // 2
            first, second = await self._write(told[:half]), await self._write(told[half:])
            return first.and_then(second)
        self.done = told[-1].event.seq
        self.news.tell(self.done)
        if self.until is None:
            self._spread([one.event for one in told])
        return change

    def _spread(self, events: Sequence[Recorded]) -> None:
        """Tell readers and operators of what is folded in; nobody asks a replay."""
        behind = self.feed.behind + len(self.ahead.told) if self.feed is not None else 0
        self.news.hear(events, behind)
        self.metrics.folded(events, behind)

    async def _stand(self, poison: Unfoldable) -> None:
        """Wait before an event until an operator skips it, or puts other tables in place."""
        log.error("%s; the projection stands until it is skipped", poison)
        await self._close()
        await self.models.park(poison.seq, poison.reason)
        self.news.tell(self.done)
        self.news.park(poison.seq, poison.reason)
        self.metrics.parked(1)
        if await self._is_skipped(poison):
            await self.models.skip(poison.seq)
            self.done = poison.seq
        else:
            self.done = await self.models.checkpoint()
        self.metrics.parked(0)
        self.news.tell(self.done)

    async def _is_skipped(self, poison: Unfoldable) -> bool:
        """True when an EventSkipped names the event, False when the tables were switched.

        Errors: Unfoldable if neither will come.
        """
        after = poison.seq
        feed = self.log.follow(after)
        try:
            while self.until is None or after < self.until:
                batch = await feed.take(BATCH_MAX)
                after = batch[-1].seq
                for event in batch:
                    if _skips(event, poison.seq):
                        return True
                    if self.until is None and event.seq > self.switched and _switches(event):
                        self.switched = event.seq
                        return False
        finally:
            await feed.close()
        raise poison

    async def _close(self) -> None:
        self.ahead = Batch()
        feed, self.feed = self.feed, None
        if feed is not None:
            await feed.close()


def _skips(event: Recorded, seq: int) -> bool:
    if event.envelope.type != "EventSkipped" or not is_genuine(event.envelope):
        return False
    fact = event.fact
    assert isinstance(fact, EventSkipped)
    return fact.projection == PROJECTION and fact.seq == seq


def _switches(event: Recorded) -> bool:
    if event.envelope.type != "ProjectionSwitched" or not is_genuine(event.envelope):
        return False
    fact = event.fact
    assert isinstance(fact, ProjectionSwitched)
    return fact.name == PROJECTION


def project(
    event_log: EventLog, models: Models, news: News, metrics: Metrics, until: int | None = None
) -> AsyncIterator[Folded]:
    """Fold batch after batch; yields how far behind the log it still is after each.

    With `until` it ends once that sequence is folded in, and waits for nobody's EventSkipped:
    what cannot be folded and was not skipped by then is Unfoldable.
    """
    return Projection(event_log, models, news, metrics, until).run()
