"""What authors and operators decide about leaderboards: who sees them, and until when."""

from dataclasses import dataclass

from ingest.domain import problems
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from shared import subjects


@dataclass(frozen=True)
class Boards:
    """The commands about leaderboards."""

    decisions: Decisions
    feed: AccessFeed

    async def change(self, slug: str, command: problems.Change, actor: str) -> Made:
        """Let others see a leaderboard, or until another time. Errors: Refused; Failed."""
        return await self._decide(slug, command, actor)

    async def archive(self, slug: str, reason: str, actor: str) -> Made:
        """Let a leaderboard take nothing in any more. Errors: Refused; Failed."""
        return await self._decide(slug, problems.Archive(reason), actor)

    async def _decide(self, slug: str, command: problems.ProblemCommand, actor: str) -> Made:
        self.feed.now().leaderboard(slug)
        agg, by = subjects.problem(slug), By(actor, slug)
        made = await self.decisions.make(agg, problems.problems, command, by)
        await self.feed.reach(made.seq)
        return made
