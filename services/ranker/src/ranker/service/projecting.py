"""Follow the log and fold it, batch after batch; stop before what cannot be folded."""

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from ranker.service.news import News
from ranker.service.ports import Board, Metrics, Models, Unfoldable
from shared.event_log import EventLog, Feed, Recorded
from shared.events import EventSkipped

log = logging.getLogger(__name__)

PROJECTION = "ranker"
BATCH_MAX = 4000
BATCH_BYTES_MAX = 64 * 1024 * 1024


class Folded(NamedTuple):
    """A batch is in: how many events still wait, and which leaderboards may be others.

    Where nobody knows which, at a start and after a stop, `boards` is None.
    """

    behind: int
    boards: set[Board] | None


@dataclass
class Projection:
    """One reading of the log into read models, up to `until` or for ever."""

    log: EventLog
    models: Models
    news: News
    metrics: Metrics
    until: int | None = None
    done: int = 0
    feed: Feed | None = None
    held: list[Recorded] = field(default_factory=list)

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
            batch = await self._take()
            boards = await self._write(batch)
        except Unfoldable as poison:
            await self._stand(poison)
            return Folded(1, None)
        self.news.tell(self.done)
        assert self.feed is not None, "a batch came from a feed"
        behind = self.feed.behind + len(self.held)
        self.metrics.folded(batch, behind)
        return Folded(behind, boards)

    async def _take(self) -> list[Recorded]:
        if self.feed is None:
            self.feed = self.log.follow(self.done)
        try:
            came = self.held or await self.feed.take(BATCH_MAX)
        except msgspec.DecodeError as error:
            # A feed hands over all before it first.
            raise Unfoldable(self.done + 1, str(error)) from error
        if self.until is not None:
            came = [event for event in came if event.seq <= self.until]
        batch, self.held = _bounded(came)
        return batch

    async def _write(self, batch: Sequence[Recorded]) -> set[Board]:
        """Fold a batch in, the events before the first that cannot be folded at least."""
        try:
            boards = await self.models.write(self.done, batch)
        except Unfoldable as error:
            if len(batch) == 1:
                raise Unfoldable(batch[0].seq, error.reason) from error
            half = len(batch) // 2
            return await self._write(batch[:half]) | await self._write(batch[half:])
        self.done = batch[-1].seq
        return boards

    async def _stand(self, poison: Unfoldable) -> None:
        """Wait before an event until an operator says to go on without it."""
        log.error("%s; the projection stands until it is skipped", poison)
        await self._close()
        await self.models.park(poison.seq, poison.reason)
        self.news.tell(self.done)
        self.news.park(poison.seq, poison.reason)
        self.metrics.parked(1)
        await self._skipped(poison)
        await self.models.skip(poison.seq)
        self.done = poison.seq
        self.metrics.parked(0)
        self.news.tell(self.done)

    async def _skipped(self, poison: Unfoldable) -> None:
        """Return when an EventSkipped names the event. Errors: Unfoldable if none will come."""
        after = poison.seq
        while self.until is None or after < self.until:
            feed = self.log.follow(after)
            try:
                while self.until is None or after < self.until:
                    batch = await feed.take(BATCH_MAX)
                    after = batch[-1].seq
                    if any(_skips(event, poison.seq) for event in batch):
                        return
            except msgspec.DecodeError:
                after += 1
            finally:
                await feed.close()
        raise poison

    async def _close(self) -> None:
        self.held = []
        feed, self.feed = self.feed, None
        if feed is not None:
            await feed.close()


def _bounded(came: list[Recorded]) -> tuple[list[Recorded], list[Recorded]]:
    """As many events as one transaction takes, and the rest; at least one."""
    total = 0
    for place, event in enumerate(came):
        total += len(event.body)
        if place and total > BATCH_BYTES_MAX:
            return came[:place], came[place:]
    return came, []


def _skips(event: Recorded, seq: int) -> bool:
    if event.envelope.type != "EventSkipped":
        return False
    fact = event.fact
    assert isinstance(fact, EventSkipped)
    return fact.projection == PROJECTION and fact.seq == seq


def project(
    event_log: EventLog, models: Models, news: News, metrics: Metrics, until: int | None = None
) -> AsyncIterator[Folded]:
    """Fold batch after batch; yields how far behind the log it still is after each.

    With `until` it ends once that sequence is folded in, and waits for nobody's EventSkipped:
    what cannot be folded and was not skipped by then is Unfoldable.
    """
    return Projection(event_log, models, news, metrics, until).run()
