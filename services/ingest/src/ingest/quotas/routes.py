"""Routes of quotas, and the headers with what is left of them."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field

from ingest.http.requests import Name, RequestModel, Role, Text
from ingest.http.responses import decision_response, quota_headers
from ingest.identity.caller import Caller
from ingest.identity.http.authenticator import Authenticator
from ingest.quotas import rules
from ingest.quotas.service import Quotas
from shared.api.queues import DecisionResponse
from shared.api.quotas import Balances
from shared.errors import Refused
from shared.events import LIMIT_MAX, UNLIMITED, QuotaLimitSet
from shared.http import DocumentedRoute
from shared.json_types import JsonInt

BUCKET_LENGTH_MAX = 200


class QuotaLimitRequest(RequestModel):
    """A quota limit of a participant, of each holder of a role, or of everybody; null lifts it."""

    participant: Name | None = None
    role: Role | None = None
    bucket: Annotated[str, Field(max_length=BUCKET_LENGTH_MAX)]
    limit: Annotated[JsonInt, Field(ge=0, le=LIMIT_MAX)] | None
    window_s: Annotated[float, Field(ge=rules.WINDOW_S_MIN, le=rules.WINDOW_S_MAX)]
    reason: Text


def quotas_router(
    quotas: Quotas,
    choose_gpu: Callable[[Caller, str, str | None], Awaitable[str]],
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
        """What is left of one's quotas; with `problem` and `gpu`, those of one leaderboard."""
        slug, buckets = problem.lower(), []
        if slug:
            gpu_type = await choose_gpu(caller, slug, gpu)
            buckets = [rules.bucket_name(slug, gpu_type, mode) for mode in ("test", "ranked")]
        balances = await quotas.balances(caller, buckets)
        response.headers.update(quota_headers(balances))
        open_submissions = await quotas.open_submissions(caller)
        return Balances(items=balances, open_submissions=open_submissions)

    @router.put("/admin/quota")
    async def limit(
        body: QuotaLimitRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Set the quota limit in a window: of a participant, of a role's holders or of everybody.

        A participant's own limits override those of their roles, which override everybody's.
        """
        limit = UNLIMITED if body.limit is None else body.limit
        command = QuotaLimitSet(
            bucket=body.bucket, limit=limit, window_s=body.window_s, reason=body.reason
        )
        if body.role is None:
            return decision_response(await quotas.limit(body.participant, command, actor))
        if body.participant is not None:
            message = "a limit is for a participant or for a role: send one of them"
            raise Refused("invalid_request", message, "role")
        return decision_response(await quotas.limit_role(body.role, command, actor))

    return router
