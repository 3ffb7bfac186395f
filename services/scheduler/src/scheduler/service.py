"""The process manager: fold the log, and when live, say what is due."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.domain.board import Board, evolve
from scheduler.domain.rules import Move, Offer, World, due
from shared.clock import now
from shared.event_log import Conflict, EventLog, Feed, New
from shared.wire import Stamp, seal

log = logging.getLogger(__name__)

ACTOR = "service:scheduler"


class Agents(Protocol):
    """Who is alive."""

    def offers(self) -> dict[str, Offer]:
        """The agents that are alive, by name."""
        ...

    def is_settled(self) -> bool:
        """Whether an agent that is missing is gone, not merely unheard."""
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


@dataclass
class Scheduler:
    """Follows the log, and appends what is due; it may be killed at any point and started again."""

    log: EventLog
    agents: Agents
    metrics: Metrics
    tick_s: float = 0.5
    board: Board = field(default_factory=Board)

    async def run(self) -> None:
        """Fold and decide for ever. Errors: Gap and UnknownEvent stop the process.

        While it catches up it decides nothing, and what it said itself must have come back
        through the feed before it looks again.
        """
        feed = self.log.follow(0)
        awaited = await self.log.last()
        taking = asyncio.create_task(feed.take())
        try:
            while True:
                await asyncio.wait({taking}, timeout=self.tick_s)
                if taking.done():
                    for event in taking.result():
                        self.board = evolve(self.board, event)
                    taking = asyncio.create_task(feed.take())
                if self.board.seq >= awaited:
                    awaited = max(awaited, await self._decide(feed))
        finally:
            taking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await taking
            await feed.close()

    async def _decide(self, feed: Feed) -> int:
        """Say what is due; the sequence of the last event said, 0 for none."""
        world = World(now(), self.agents.offers(), self.agents.is_settled())
        self.metrics.looked(self.board, world, feed.behind)
        return max([await self._say(move) for move in list(due(self.board, world))], default=0)

    async def _say(self, move: Move) -> int:
        """The sequence of the move's last event, 0 if somebody else moved first."""
        events = [
            New(seal(s.fact, s.agg, Stamp(s.id, now(), ACTOR, s.corr, s.cause)), s.expected)
            for s in move
        ]
        try:
            append = self.log.append(events[0]) if len(events) == 1 else self.log.append_all(events)
            seq = await append
        except Conflict as conflict:
            log.info("%s was moved by another", conflict.agg)
            self.metrics.conflicted()
            return 0
        self.metrics.said(move)
        return seq
