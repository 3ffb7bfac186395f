"""The loop: follow the log, fold a batch into Postgres, decide and announce what is due."""

from dataclasses import dataclass

from ranker.service.announcing import Announcements
from ranker.service.deciding import Decisions
from ranker.service.news import News, Parked
from ranker.service.ports import (
    Alive,
    Board,
    Change,
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
    "Change",
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
    boards: set[Board] | None = None
    is_due: bool = True

    async def run(self) -> None:
        """Fold and decide for ever. Errors: Gap, Fenced, Failed stop it."""
        made = self.decisions
        async for folded in project(made.log, made.models, self.news, made.metrics):
            self._note(folded.change)
            if folded.behind == 0:
                self.is_due = self.is_due and await made.all()
                self.boards = await self.announcements.of(self.boards)

    def _note(self, change: Change | None) -> None:
        """Remember what is to be looked at, once the log's end is reached."""
        if change is None:
            self.boards, self.is_due = None, True
            return
        self.is_due = self.is_due or change.is_due
        if self.boards is not None:
            self.boards |= change.boards
