"""The loop: follow the log, fold a batch into Postgres, decide and announce what is due."""

from dataclasses import dataclass

from ranker.service.announcing import Announcements
from ranker.service.deciding import Decisions
from ranker.service.news import News, Parked
from ranker.service.ports import (
    Alive,
    Board,
    Deciding,
    Due,
    Metrics,
    Models,
    Reads,
    Unfoldable,
    Waiting,
)
from ranker.service.projecting import Folded, project

__all__ = [
    "Alive",
    "Announcements",
    "Board",
    "Deciding",
    "Decisions",
    "Due",
    "Folded",
    "Metrics",
    "Models",
    "News",
    "Parked",
    "Ranker",
    "Reads",
    "Unfoldable",
    "Waiting",
    "project",
]


@dataclass
class Ranker:
    """Projects the log; where it is at the log's end it decides and announces."""

    decisions: Decisions
    announcements: Announcements
    news: News
    due: set[Board] | None = None

    async def run(self) -> None:
        """Fold and decide for ever. Errors: Gap, Fenced, Failed stop it."""
        made = self.decisions
        async for folded in project(made.log, made.models, self.news, made.metrics):
            if folded.boards is None or self.due is None:
                self.due = None
            else:
                self.due |= folded.boards
            if folded.behind == 0:
                await made.all()
                self.due = await self.announcements.of(self.due)
