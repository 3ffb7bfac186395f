"""The loop: follow the log, fold a batch into Postgres, decide and announce what is due."""

from dataclasses import dataclass

from ranker.service.announcing import Announcements
from ranker.service.confirmations import Confirmations
from ranker.service.deciding import Decisions
from ranker.service.duels import Duels
from ranker.service.milestones import Milestones
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
    "Confirmations",
    "Deciding",
    "Decisions",
    "Due",
    "Duels",
    "Folded",
    "Metrics",
    "Milestones",
    "Models",
    "News",
    "Parked",
    "Ranker",
    "Reads",
    "Unfoldable",
    "Waiting",
    "project",
]


# On a busy platform something always came meanwhile; further behind it only catches up.
NEAR = 500


@dataclass
class Ranker:
    """Projects the log; where it is near the log's end it decides and announces."""

    decisions: Decisions
    announcements: Announcements
    news: News
    milestones: Milestones
    duels: Duels
    confirmations: Confirmations
    boards: set[Board] | None = None
    met: set[Board] | None = None
    is_end_due: bool = True
    is_draft_due: bool = True

    async def run(self) -> None:
        """Fold and decide for ever. Errors: Gap, Fenced, Failed stop it."""
        made = self.decisions
        async for folded in project(made.log, made.models, self.news, made.metrics):
            self._note(folded)
            if folded.behind <= NEAR:
                self.is_end_due = self.is_end_due and await made.ends()
                self.is_draft_due = self.is_draft_due and await made.drafts()
                self.boards = await self.announcements.of(self.boards)
                await self.duels.judge()
                await self.confirmations.judge()
                self.met = await self.milestones.of(self.met)

    def _note(self, folded: Folded) -> None:
        """Remember what is to be looked at, once the log's end is near."""
        change = folded.change
        if change is None:
            self.boards, self.met = None, None
            self.is_end_due, self.is_draft_due = True, True
            self.duels.forget()
            self.confirmations.forget()
            return
        self.decisions.hear(folded.batch)
        reordered = self.duels.hear(folded.batch) | self.confirmations.hear(folded.batch)
        self.is_end_due = self.is_end_due or change.is_end_due
        self.is_draft_due = self.is_draft_due or change.is_draft_due
        if self.boards is not None:
            self.boards |= change.boards | reordered
        if self.met is not None:
            self.met |= change.boards | change.met
