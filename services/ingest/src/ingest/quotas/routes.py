"""Routes of quotas, and the headers with what is left of them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Protocol

from fastapi import APIRouter, Depends, Query, Response
from msgspec import structs
from pydantic import Field

from ingest.decisions import DecisionResult
from ingest.http.requests import Name, RequestModel, Role, Slug, Text
from ingest.http.responses import decision_response, quota_headers
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.quotas import rules
from ingest.quotas.service import Quotas
from shared.api.queues import DecisionResponse
from shared.api.quotas import Balance, Balances
from shared.errors import Refused
from shared.events import LIMIT_MAX, UNLIMITED, QuotaLimitSet
from shared.http import DocumentedRoute
from shared.json_types import JsonInt

BUCKET_LENGTH_MAX = 200


class QuotaLimitRequest(RequestModel):
    """A quota limit of a participant, of each holder of a role, or of everybody; null lifts it.

    With `contest`, it is that of its `team`: a team by id or name, or somebody who competes alone.
    It then holds over a whole phase, has no `window_s`, and its bucket is `problem.phase.category`.
    Other limits have a window of a day by default.
    """

    participant: Name | None = None
    role: Role | None = None
    contest: Slug | None = None
    team: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    bucket: Annotated[str, Field(max_length=BUCKET_LENGTH_MAX)]
    limit: Annotated[JsonInt, Field(ge=0, le=LIMIT_MAX)] | None
    window_s: Annotated[float, Field(ge=rules.WINDOW_S_MIN, le=rules.WINDOW_S_MAX)] | None = None
    reason: Text


class ContestQuotas(Protocol):
    """The quotas of contestants in the phases of contests."""

    async def phase_balances(self, caller: Caller, problem: str) -> list[Balance]:
        """Return what a caller has left in current phases, of one problem or, for "", of all."""

    async def limit_team(
        self, slug: str, team: str, command: QuotaLimitSet, operator: str
    ) -> DecisionResult:
        """Set the limit of a contestant in phases of a contest."""


def quotas_router(
    quotas: Quotas,
    choose_gpu: Callable[[Caller, str, str | None], Awaitable[str]],
    contests: ContestQuotas,
    auth: Authenticator,
) -> APIRouter:
    """The routes of participants and operators; `choose_gpu` names a GPU type of a leaderboard."""
    router = APIRouter(prefix="/v1", route_class=DocumentedRoute)
    operator = auth.operator("admin:participants")

    @router.get("/quota")
    async def quota(
        response: Response,
        caller: Annotated[Caller, Depends(auth.participant("read:own"))],
        problem: Annotated[str, Query()] = "",
        gpu: Annotated[str | None, Query()] = None,
    ) -> Balances:
        """What is left of one's quotas; with `problem` and `gpu`, those of one leaderboard.

        In contests, these are also those of the current phase, which a team shares.
        """
        slug, buckets = problem.lower(), []
        if slug:
            gpu_type = await choose_gpu(caller, slug, gpu)
            buckets = [rules.bucket_name(slug, gpu_type, mode) for mode in ("test", "ranked")]
        balances = await quotas.balances(caller, buckets)
        balances += await contests.phase_balances(caller, slug)
        response.headers.update(quota_headers(balances))
        open_submissions = await quotas.open_submissions(caller)
        return Balances(items=balances, open_submissions=open_submissions)

    @router.put("/admin/quota")
    async def limit(
        body: QuotaLimitRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Set the quota limit of a participant, of a role's holders, of everybody or of a team.

        A participant's own limits override those of their roles, which override everybody's. A
        team's own limit in a phase of a contest overrides that of the phase.
        """
        _check_subject(body)
        command = QuotaLimitSet(
            bucket=body.bucket,
            limit=UNLIMITED if body.limit is None else body.limit,
            window_s=rules.DAY_S if body.window_s is None else body.window_s,
            reason=body.reason,
        )
        if body.contest and body.team:
            command = structs.replace(command, window_s=rules.WHOLE_PHASE_S)
            result = await contests.limit_team(body.contest, body.team, command, actor)
        elif body.role:
            result = await quotas.limit_role(body.role, command, actor)
        else:
            result = await quotas.limit(body.participant, command, actor)
        return decision_response(result)

    return router


def _check_subject(body: QuotaLimitRequest) -> None:
    """Check whom a limit is for. Raises `Refused`."""
    if sum(name is not None for name in (body.participant, body.role, body.team)) > 1:
        message = "a limit is for a participant, for a role or for a team: send one of them"
        raise Refused("invalid_request", message, "role")
    if (body.contest is None) != (body.team is None):
        message = "a team is one of a contest: send both `contest` and `team`, or neither"
        raise Refused("invalid_request", message, "team")
    if body.team is not None and body.window_s is not None:
        message = "a team's limit holds over a whole phase: leave window_s out"
        raise Refused("invalid_request", message, "window_s")
