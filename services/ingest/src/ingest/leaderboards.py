"""Leaderboard settings, as authors and operators read and change them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, TypeAlias

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import Field

from ingest.baselines import Baselines
from ingest.decisions import AggregateCommand, DecisionResult, Decisions
from ingest.http.bodies import ReasonRequest, RequestModel, decision_response
from ingest.http.fields import SlugInPath, Text
from ingest.identity.access.feed import AccessFeed
from ingest.identity.caller import Caller, unknown_leaderboard
from ingest.identity.http.authenticator import Authenticator
from ingest.ports import Lookups
from ingest.problems import rules as problems
from ingest.quotas import rules as quotas
from ingest.quotas.rules import EVERYBODY, QUOTAS_MAX
from shared import subjects
from shared.api.fields import Visibility
from shared.api.leaderboards import LeaderboardSettings
from shared.api.queues import DecisionResponse
from shared.blobs import BlobNotFound, BlobStore
from shared.errors import Failed, Refused
from shared.events import LeaderboardArchived, ProblemPublished, QuotaLimitSet
from shared.http import DocumentedRoute
from shared.json_types import Instant
from shared.problems.task_yml import Gpus

Quota = Annotated[str, Field(min_length=1, max_length=100)]
# It is a part of addresses.
ContestName = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9 ._-]{0,63})?$")]


@dataclass(frozen=True)
class LeaderboardChange:
    """The settings to apply to a leaderboard, and whether an operator applies them."""

    slug: str
    change: problems.Change
    quotas: Sequence[QuotaLimitSet] = ()
    is_operator: bool = True

    def limits(self, gpus: Sequence[str]) -> list[AggregateCommand]:
        """Return the quota commands; `gpus` are the leaderboard's GPU types. Raises `Refused`."""
        if not self.quotas:
            return []
        checked = quotas.check_quotas(self.quotas, gpus)
        decider = quotas.operator_decider if self.is_operator else quotas.author_decider
        return [AggregateCommand(subjects.quota(EVERYBODY), decider, checked)]


class _Manifest(msgspec.Struct):
    licence: dict[str, str] = {}


@dataclass(frozen=True)
class Leaderboards:
    """Reads and changes leaderboard settings. Methods may raise `Refused` and `Failed`."""

    decisions: Decisions
    feed: AccessFeed
    lookups: Lookups
    blobs: BlobStore
    baselines: Baselines

    async def settings(self, caller: Caller, slug: str) -> LeaderboardSettings:
        """Return the settings of a leaderboard that the caller may see."""
        access = self.feed.rights()
        leaderboard = access.leaderboard(slug)
        if leaderboard.is_closed and not (caller.is_staff or slug in caller.reader.boards):
            raise unknown_leaderboard(slug, access.open_boards())
        state = await self.decisions.load_state(subjects.problem(slug), problems.problems)
        published = problems.newest_version(slug, state)
        try:
            manifest = await self.blobs.get(published.manifest.digest)
        except BlobNotFound as missing:
            raise Failed(f"the files of the problem are missing: {missing}") from missing
        # No event holds the licences.
        licences = msgspec.json.decode(manifest, type=_Manifest).licence
        everybody = subjects.quota(EVERYBODY)
        limits = await self.decisions.load_state(everybody, quotas.operator_decider)
        return LeaderboardSettings(
            slug=slug,
            title=published.title,
            problem_version=published.number,
            visibility="public" if state.visibility == problems.PUBLIC else "closed",
            deadline_at=state.deadline_at,
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
        state = problems.problems.fold(facts)
        return problems.released_versions(slug, state, problems.versions(facts), at)

    async def with_known_effects(
        self,
        request: LeaderboardChange,
        state: problems.Problem,
        version_gpus: Sequence[str] = (),
    ) -> problems.Change:
        """Return the change with what it would take from whom; `state` is the current problem.

        After a deadline, sources become visible. Once a problem has submissions, only an operator
        may move its deadline forward. `version_gpus` are the GPU types of a version published with
        the change. Raises `Failed`.
        """
        slug, command = request.slug, replace(request.change, at=self.decisions.clock())
        if command.has_deadline is not None and not request.is_operator:
            command = replace(command, is_no_sooner=await self.lookups.is_used(slug))
        gpus_after = command.gpus or state.gpus or version_gpus or state.open_gpus
        kept_gpus = {gpu.lower() for gpu in gpus_after}
        if any(gpu.lower() not in kept_gpus for gpu in state.open_gpus):
            command = replace(command, used=await self.lookups.gpus_used(slug))
        return command

    async def change(self, request: LeaderboardChange, actor: str) -> DecisionResult:
        """Change the settings of a leaderboard. Raises `Refused` and `Failed`."""
        slug = request.slug
        self.feed.rights().leaderboard(slug)
        if request.change.contest is not None and not request.is_operator:
            message = "a contest counts the places on several leaderboards: ask an operator"
            raise Refused("scope_missing", f"{message} (scope admin:problems)", "contest")
        agg = subjects.problem(slug)
        history = await self.decisions.log.history(agg)
        state = problems.problems.fold(event.fact for event in history)
        command = await self.with_known_effects(request, state)
        commands = [
            AggregateCommand(agg, problems.problems, command, history),
            *request.limits(
                problems.canonical_gpus(command.gpus or state.open_gpus, sorted(state.gpus_ever))
            ),
        ]
        return await self.decisions.make_all(commands, actor)

    async def archive(self, slug: str, reason: str, actor: str) -> DecisionResult:
        """Archive a leaderboard: it accepts no more submissions, and its baselines end.

        Raises `Refused` and `Failed`.
        """
        self.feed.rights().leaderboard(slug)
        archived = LeaderboardArchived(reason=reason)
        agg = subjects.problem(slug)
        result = await self.decisions.make(agg, problems.problems, archived, actor)
        # If the process dies here, archiving again cancels the baselines.
        facts = [*(event.fact for event in result.before), *result.facts]
        await self.baselines.cancel_archived(slug, facts)
        return result


class LeaderboardChangeRequest(RequestModel):
    """Changes to a leaderboard; settings that are not sent stay as they are.

    A null deadline removes it. `quotas` are written `ranked=10/day` or `H100.test=60/hour`; `none`
    lifts one. GPU types that are left out accept no more submissions; if they have entries, which
    stay readable, that needs `force`. So does a deadline in the past. If the problem's check ran
    nothing on any of them, that needs `allow_untested`. Only operators choose the `contest`; an
    empty one takes the leaderboard out of its contest.
    """

    visibility: Visibility | None = None
    deadline_at: Instant | None = None
    gpus: Gpus | None = None
    quotas: list[Quota] = Field(default=[], max_length=QUOTAS_MAX)
    contest: ContestName | None = None
    force: bool = False
    allow_untested: bool = False
    reason: Text

    def command(self) -> problems.Change:
        """Return the change. Raises `Refused` if there is none."""
        is_dated = "deadline_at" in self.model_fields_set
        has_contest = self.contest is not None
        if not (self.visibility or is_dated or self.gpus or self.quotas or has_contest):
            message = "send at least one change: visibility, deadline_at, gpus, quotas or contest"
            raise Refused("invalid_request", message, "visibility")
        ends_at = self.deadline_at.astimezone(UTC) if self.deadline_at else None
        has_deadline = ends_at is not None if is_dated else None
        gpus = None if self.gpus is None else tuple(self.gpus)
        return problems.Change(
            self.reason,
            self.visibility,
            has_deadline,
            ends_at,
            gpus=gpus,
            is_forced=self.force,
            allows_untested=self.allow_untested,
            contest=self.contest,
        )


def leaderboards_router(leaderboards: Leaderboards, auth: Authenticator) -> APIRouter:
    """The routes; authors manage their own leaderboards, operators manage all."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    Manager: TypeAlias = Annotated[Caller, Depends(auth.leaderboard_manager())]

    @router.get("/leaderboards/{slug}")
    async def settings(slug: SlugInPath, request: Request) -> LeaderboardSettings:
        """The settings of a leaderboard: visibility, GPU types, quotas, deadline, sources.

        A quota applies to everybody who has no limit of their own.
        """
        caller = await auth.caller(request)
        return await leaderboards.settings(caller, slug.lower())

    @router.put("/admin/leaderboards/{slug}")
    async def change(
        slug: SlugInPath, body: LeaderboardChangeRequest, caller: Manager
    ) -> DecisionResponse:
        """Change the visibility, deadline, GPU types, quotas or contest of a leaderboard."""
        slug = slug.lower()
        limits = [quotas.parse_quota(slug, quota, body.reason) for quota in body.quotas]
        request = LeaderboardChange(slug, body.command(), limits, caller.may("admin:problems"))
        return decision_response(await leaderboards.change(request, caller.actor))

    @router.post("/admin/leaderboards/{slug}/archive")
    async def archive(slug: SlugInPath, body: ReasonRequest, caller: Manager) -> DecisionResponse:
        """Archive a leaderboard: it accepts no more submissions and stays readable."""
        return decision_response(
            await leaderboards.archive(slug.lower(), body.reason, caller.actor)
        )

    return router
