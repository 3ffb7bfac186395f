"""Routes of operators that run submissions again."""

from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends

from ingest.http.requests import Id, Number, ReasonRequest
from ingest.http.responses import decision_response
from ingest.identity.http.authenticator import Authenticator
from ingest.reruns.rules import DuelRequest, RejudgeRequest
from ingest.reruns.service import Reruns
from shared import events
from shared.api.moderation import RequestedRejudge
from shared.api.queues import DecisionResponse
from shared.http import DocumentedRoute


def reruns_router(reruns: Reruns, auth: Authenticator) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    _add_retries(router, reruns, auth)
    _add_rejudges(router, reruns, auth)
    _add_duels(router, reruns, auth)
    return router


def _add_retries(router: APIRouter, reruns: Reruns, auth: Authenticator) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:submissions"))]

    @router.post("/submissions/{number}/retry", status_code=201)
    async def retry(number: Number, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Submit a file again for its owner, if the platform failed or its submission is stuck.

        It takes no quota. An open submission is cancelled. `seq` is the number of the new one.
        """
        return decision_response(await reruns.retry(number, body.reason, actor))


def _add_rejudges(router: APIRouter, reruns: Reruns, auth: Authenticator) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:problems"))]

    @router.post("/rejudges", status_code=201)
    async def request(body: RejudgeRequest, actor: Operator) -> RequestedRejudge:
        """Run submissions again under another version; nothing counts until it is applied."""
        return await reruns.request_rejudge(body, actor)

    @router.post("/rejudges/{id}/{act}")
    async def end(
        id: Id,  # noqa: A002  (the contract's own word)
        act: Literal["apply", "discard"],
        body: ReasonRequest,
        actor: Operator,
    ) -> DecisionResponse:
        """Apply or discard the results of a rejudge."""
        command = (events.RejudgeApplied if act == "apply" else events.RejudgeDiscarded)(
            reason=body.reason
        )
        return decision_response(await reruns.end_rejudge(id, command, actor))


def _add_duels(router: APIRouter, reruns: Reruns, auth: Authenticator) -> None:
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:operate"))]

    @router.post("/duels", status_code=201)
    async def request(body: DuelRequest, actor: Operator) -> DecisionResponse:
        """Time two submissions in alternation; the winner ranks first if their scores are tied."""
        return decision_response(await reruns.request_duel(body, actor))
