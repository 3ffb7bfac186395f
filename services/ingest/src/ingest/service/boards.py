"""What authors and operators decide about leaderboards: who sees them, and until when."""

from dataclasses import dataclass, replace

from ingest.domain import problems
from ingest.service.decisions import By, Decisions, Made
from ingest.service.gate import AccessFeed
from ingest.service.ports import Lookups
from shared import subjects


@dataclass(frozen=True)
class Boards:
    """The commands about leaderboards."""

    decisions: Decisions
    feed: AccessFeed
    lookups: Lookups

    async def by_author(self, slug: str, command: problems.Change) -> problems.Change:
        """A change as who is no operator may make it. Errors: Failed.

        Once a deadline is over all sources are seen: where there are some, it comes no sooner.
        """
        if command.has_deadline is None:
            return command
        return replace(command, is_no_sooner=await self.lookups.is_used(slug))

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
