"""The loop: follow the log, fold a batch into Postgres, decide what is due."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ranker.domain.conclusion import Verdict, conclude
from ranker.domain.eligibility import Demand
from ranker.domain.projection import Step, steps
from shared import subjects
from shared.clock import now
from shared.event_log import Conflict, EventLog, New, Recorded
from shared.events import SubmissionFinished
from shared.ids import derived
from shared.wire import Stamp, seal

log = logging.getLogger(__name__)

ACTOR = "service:ranker"
BATCH_MAX = 1000


class Waiting(Protocol):
    """A submission that waits for its decision."""

    @property
    def submission(self) -> str:
        """Its id."""
        ...

    @property
    def version(self) -> int:
        """Its last sequence."""
        ...

    @property
    def verdict(self) -> Verdict:
        """What its run said."""
        ...


class Models(Protocol):
    """Where the read models are kept."""

    async def checkpoint(self) -> int:
        """The last sequence that is folded in."""
        ...

    async def write(self, after: int, last: int, steps: Sequence[Step]) -> None:
        """Fold a batch in, all or nothing, and move the checkpoint with it."""
        ...

    async def undecided(self) -> Sequence[Waiting]:
        """The submissions that wait for a decision."""
        ...


class Metrics(Protocol):
    """What operators watch."""

    def folded(self, batch: Sequence[Recorded], behind: int) -> None:
        """A batch is in Postgres, and so many events still wait."""
        ...

    def decided(self, end: SubmissionFinished) -> None:
        """A submission was ended."""
        ...


class Reads(Protocol):
    """The read models, asked by the names of sql/read.sql."""

    async def rows(self, statement: str, **values: object) -> list[dict[str, Any]]:
        """The rows of one statement. Errors: Failed."""
        ...


class Alive(Protocol):
    """What is said and not kept."""

    @property
    def progress(self) -> Mapping[str, dict[str, Any]]:
        """The newest word on each running submission."""
        ...

    def alive(self) -> dict[str, dict[str, Any]]:
        """The agents heard of lately, with what they offer."""
        ...


@dataclass
class News:
    """Wakes readers who wait for the checkpoint to move."""

    seq: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    def end(self) -> None:
        """Let everybody go who waits: the process ends."""
        self.is_over = True
        self.moved.set()

    def tell(self, seq: int) -> None:
        """The checkpoint moved to `seq`."""
        self.seq = seq
        self.moved.set()
        self.moved = asyncio.Event()

    async def wait(self, within_s: float) -> None:
        """Return when the checkpoint moves, or after a while."""
        try:
            async with asyncio.timeout(within_s):
                await self.moved.wait()
        except TimeoutError:
            return


@dataclass
class Ranker:
    """Projects the log, and ends each submission that has a verdict."""

    log: EventLog
    models: Models
    metrics: Metrics
    news: News
    wanted: Demand

    async def run(self) -> None:
        """Fold and decide for ever. Errors: Gap, Fenced, UnknownEvent stop the process."""
        async for behind in project(self.log, self.models, self.news, self.metrics):
            if behind == 0:
                await self.decide()

    async def decide(self) -> None:
        """End every submission that waits for it; a decision made twice is one event."""
        for waiting in await self.models.undecided():
            end = conclude(waiting.verdict, self.wanted)
            assert end.run is not None, "a conclusion names its run"
            effect = derived(end.run, "SubmissionFinished")
            agg = subjects.submission(waiting.submission)
            stamp = Stamp(effect, now(), ACTOR, waiting.submission, end.run)
            try:
                await self.log.append(New(seal(end, agg, stamp), waiting.version))
            except Conflict:
                log.info("submission %s was ended by another", waiting.submission)
            else:
                self.metrics.decided(end)


async def project(
    event_log: EventLog, models: Models, news: News, metrics: Metrics, until: int | None = None
) -> AsyncIterator[int]:
    """Fold batch after batch; yields how far behind the log it still is after each.

    With `until` it ends once that sequence is folded in.
    """
    done = await models.checkpoint()
    news.tell(done)
    if await event_log.last() <= done:
        yield 0
    feed = event_log.follow(done)
    try:
        while until is None or done < until:
            batch = await feed.take(BATCH_MAX)
            if until is not None:
                batch = [event for event in batch if event.seq <= until]
            await models.write(done, batch[-1].seq, [s for event in batch for s in steps(event)])
            done = batch[-1].seq
            news.tell(done)
            metrics.folded(batch, feed.behind)
            yield feed.behind
    finally:
        await feed.close()
