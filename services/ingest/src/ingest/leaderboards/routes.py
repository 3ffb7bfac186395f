"""Routes of leaderboard settings."""

from datetime import UTC
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Request
from pydantic import Field

from ingest.http.requests import ReasonRequest, RequestModel, Slug, Text
from ingest.http.responses import decision_response
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.leaderboards.service import Leaderboards
from ingest.problems.commands import Change, LeaderboardChange
from ingest.quotas import rules as quotas
from ingest.quotas.rules import QUOTAS_MAX
from shared.api.fields import Visibility
from shared.api.leaderboards import LeaderboardSettings
from shared.api.queues import DecisionResponse
from shared.errors import Refused
from shared.http import DocumentedRoute
from shared.json_types import Instant
from shared.problems.task_yml import Gpus

Quota = Annotated[str, Field(min_length=1, max_length=100)]


class LeaderboardChangeRequest(RequestModel):
    """Changes to a leaderboard; settings that are not sent stay as they are.

    A null deadline removes it. `quotas` are written `ranked=10/day` or `H100.test=60/hour`; `none`
    lifts one. GPU types that are left out accept no more submissions; if they have entries, which
    stay readable, that needs `force`. So does a deadline in the past. If the problem's check ran
    nothing on any of them, that needs `allow_untested`. The deadline of a problem of a contest is
    that of its `contest.yml`. With `practice` it takes submissions after its deadline, which are
    ranked on a leaderboard of their own.
    """

    visibility: Visibility | None = None
    deadline_at: Instant | None = None
    practice: bool | None = None
    gpus: Gpus | None = None
    quotas: list[Quota] = Field(default=[], max_length=QUOTAS_MAX)
    force: bool = False
    allow_untested: bool = False
    reason: Text

    def command(self) -> Change:
        """Return the change. Raises `Refused` if there is none."""
        is_dated = "deadline_at" in self.model_fields_set
        has_change = is_dated or self.practice is not None
        if not (self.visibility or has_change or self.gpus or self.quotas):
            message = "send at least one change: visibility, deadline_at, practice, gpus or quotas"
            raise Refused("invalid_request", message, "visibility")
        ends_at = self.deadline_at.astimezone(UTC) if self.deadline_at else None
        has_deadline = ends_at is not None if is_dated else None
        gpus = None if self.gpus is None else tuple(self.gpus)
        return Change(
            self.reason,
            self.visibility,
            has_deadline,
            ends_at,
            gpus=gpus,
            has_practice=self.practice,
            is_forced=self.force,
            allows_untested=self.allow_untested,
        )


def leaderboards_router(leaderboards: Leaderboards, auth: Authenticator) -> APIRouter:
    """The routes; authors manage their own leaderboards, operators manage all."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    Manager: TypeAlias = Annotated[Caller, Depends(auth.leaderboard_manager())]

    @router.get("/leaderboards/{slug}")
    async def settings(slug: Slug, request: Request) -> LeaderboardSettings:
        """The settings of a leaderboard: visibility, GPU types, quotas, deadline, sources.

        A quota applies to everybody who has no limit of their own.
        """
        caller = await auth.caller(request)
        return await leaderboards.settings(caller, slug.lower())

    @router.put("/admin/leaderboards/{slug}")
    async def change(
        slug: Slug, body: LeaderboardChangeRequest, caller: Manager
    ) -> DecisionResponse:
        """Change the visibility, deadline, practice, GPU types or quotas of a leaderboard."""
        slug = slug.lower()
        limits = [quotas.parse_quota(slug, quota, body.reason) for quota in body.quotas]
        request = LeaderboardChange(slug, body.command(), limits, caller.may("admin:problems"))
        return decision_response(await leaderboards.change(request, caller.actor))

    @router.post("/admin/leaderboards/{slug}/archive")
    async def archive(slug: Slug, body: ReasonRequest, caller: Manager) -> DecisionResponse:
        """Archive a leaderboard: it accepts no more submissions and stays readable."""
        is_operator = caller.may("admin:problems")
        result = await leaderboards.archive(
            slug.lower(), body.reason, caller.actor, is_operator=is_operator
        )
        return decision_response(result)

    return router
