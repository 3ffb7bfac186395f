"""Reads and changes leaderboard settings."""

from dataclasses import dataclass
from datetime import datetime

import msgspec

from ingest.decisions import AggregateCommand, DecisionResult, Decisions
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller, unknown_leaderboard
from ingest.ports import Lookups
from ingest.problems import rules as problems
from ingest.problems.commands import LeaderboardChange
from ingest.problems.service import (
    AuthorGuard,
    BaselineRuns,
    add_known_effects,
    quota_commands,
)
from ingest.quotas import rules as quotas
from shared import subjects
from shared.api.leaderboards import LeaderboardSettings
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.events import LeaderboardArchived, ProblemPublished


class _Manifest(msgspec.Struct):
    licence: dict[str, str] = {}


@dataclass(frozen=True)
class Leaderboards:
    """Reads and changes leaderboard settings. Methods may raise `Refused` and `Failed`."""

    decisions: Decisions
    feed: AccessFeed
    lookups: Lookups
    blobs: BlobStore
    baselines: BaselineRuns
    check_author_may_change: AuthorGuard

    async def settings(self, caller: Caller, slug: str) -> LeaderboardSettings:
        """Return the settings of a leaderboard that the caller may see."""
        access = self.feed.rights()
        leaderboard = access.leaderboard(slug)
        if leaderboard.is_closed and not (caller.is_staff or slug in caller.reader.boards):
            raise unknown_leaderboard(slug, access.open_boards())
        state = await self.decisions.load_state(subjects.problem(slug), problems.PROBLEM_DECIDER)
        published = problems.newest_version(slug, state)
        try:
            manifest = await self.blobs.get(published.manifest.digest)
        except BlobNotFound as missing:
            raise Failed(f"the files of the problem are missing: {missing}") from missing
        # No event holds the licences.
        licences = msgspec.json.decode(manifest, type=_Manifest).licence
        everybody = subjects.quota(subjects.EVERYBODY)
        limits = await self.decisions.load_state(everybody, quotas.OPERATOR_DECIDER)
        return LeaderboardSettings(
            slug=slug,
            title=published.title,
            problem_version=published.number,
            visibility="public" if state.visibility == problems.PUBLIC else "closed",
            deadline_at=state.deadline_at,
            has_practice=state.has_practice,
            is_archived=state.is_archived,
            gpus=list(state.open_gpus),
            gpus_closed=sorted(state.gpus_ever.difference(state.open_gpus)),
            quotas=quotas.format_quotas(slug, limits),
            ranking_by=published.ranking_by,
            source_visible=published.source_visible,
            publish=published.publish,
            licence=licences,
            consent=published.consent,
            contest=state.contest,
        )

    async def released_versions(self, slug: str, at: datetime) -> dict[int, ProblemPublished]:
        """Return the versions whose submissions are public.

        Raises `Refused` (`private_only`) and `Failed`.
        """
        history = await self.decisions.log.history(subjects.problem(slug))
        facts = [event.fact for event in history]
        state = problems.PROBLEM_DECIDER.fold(facts)
        return problems.released_versions(slug, state, problems.versions(facts), at)

    async def change(self, request: LeaderboardChange, actor: str) -> DecisionResult:
        """Change the settings of a leaderboard. Raises `Refused` and `Failed`."""
        slug = request.slug
        self.feed.rights().leaderboard(slug)
        aggregate = subjects.problem(slug)
        history = await self.decisions.log.history(aggregate)
        state = problems.PROBLEM_DECIDER.fold(event.fact for event in history)
        change = request.change
        # An author opens a problem that was closed until its start.
        closes = change.gpus is not None or change.visibility not in (None, problems.PUBLIC)
        if state.contest and not request.is_operator and (closes or request.quotas):
            await self.check_author_may_change(slug, state.contest)
        if state.contest and request.change.has_practice is not None:
            message = f"{slug} belongs to the contest {state.contest}, whose last phases say what"
            how = "name `modes` of its `review` or `archive` in contest.yml"
            raise Refused("wrong_state", f"{message} is taken after the close: {how}", "practice")
        at = self.decisions.clock()
        command = await add_known_effects(self.lookups, request, state, at)
        commands = [
            AggregateCommand(aggregate, problems.PROBLEM_DECIDER, command, history),
            *quota_commands(
                request,
                problems.canonical_gpus(command.gpus or state.open_gpus, sorted(state.gpus_ever)),
            ),
        ]
        return await self.decisions.make_all(commands, actor)

    async def archive(
        self, slug: str, reason: str, actor: str, *, is_operator: bool = True
    ) -> DecisionResult:
        """Archive a leaderboard: it accepts no more submissions, and its baselines end.

        Raises `Refused` and `Failed`.
        """
        self.feed.rights().leaderboard(slug)
        archived = LeaderboardArchived(reason=reason)
        aggregate = subjects.problem(slug)
        state = await self.decisions.load_state(aggregate, problems.PROBLEM_DECIDER)
        if state.contest and not is_operator:
            await self.check_author_may_change(slug, state.contest)
        result = await self.decisions.make(aggregate, problems.PROBLEM_DECIDER, archived, actor)
        # If the process dies here, archiving again cancels the baselines.
        facts = [*(event.fact for event in result.before), *result.facts]
        await self.baselines.cancel_archived(slug, facts)
        return result
