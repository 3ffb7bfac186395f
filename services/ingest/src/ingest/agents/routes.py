"""Routes of operators about agents and pools."""

from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.agents.rules import TREATMENTS
from ingest.agents.service import AgentCommands
from ingest.http.requests import Id, ReasonRequest, RequestModel, Text
from ingest.http.responses import decision_response
from ingest.identity.http.authenticator import Authenticator
from shared import events
from shared.api.queues import DecisionResponse
from shared.http import DocumentedRoute
from shared.json_types import JsonInt

SIGN_KEY_LENGTH_MAX = 64
EVERY_S_MIN, EVERY_S_MAX = 10, 30 * 86400
RATIO_MAX = 100


class EnrollmentRequest(RequestModel):
    """The key an agent will sign with, in base64, and the owner of its machine."""

    sign_key: Annotated[str, Field(min_length=1, max_length=SIGN_KEY_LENGTH_MAX)]
    owner: Id
    reason: Text


class CanaryRequest(RequestModel):
    """The submission that runs on every agent, how often, and which ratio is too slow."""

    submission: Annotated[JsonInt, Field(ge=1)]
    every_s: Annotated[float, Field(ge=EVERY_S_MIN, le=EVERY_S_MAX)]
    ratio_max: Annotated[float, Field(gt=1, le=RATIO_MAX)]


def agents_router(agents: AgentCommands, auth: Authenticator) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    Operator: TypeAlias = Annotated[str, Depends(auth.operator("admin:operate"))]

    @router.post("/agents/{agent}/enroll")
    async def enroll(agent: Id, body: EnrollmentRequest, actor: Operator) -> DecisionResponse:
        """Accept signatures of an agent with a key; a later key replaces it."""
        command = events.AgentEnrolled(**body.model_dump())
        return decision_response(await agents.change_agent(agent, command, actor))

    @router.post("/agents/{agent}/{act}")
    async def treat(
        agent: Id,
        act: Literal["cordon", "drain", "quarantine", "release", "revoke"],
        body: ReasonRequest,
        actor: Operator,
    ) -> DecisionResponse:
        """Cordon, drain, quarantine, release or revoke an agent."""
        command = TREATMENTS[act](reason=body.reason)
        return decision_response(await agents.change_agent(agent, command, actor))

    # No `{act}` here: it would also match POST .../canary.
    @router.post("/pools/{gpu}/pause")
    async def pause(gpu: Id, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Stop assigning jobs of a GPU type."""
        return decision_response(
            await agents.change_pool(gpu, events.PoolPaused(reason=body.reason), actor)
        )

    @router.post("/pools/{gpu}/resume")
    async def resume(gpu: Id, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Assign jobs of a GPU type again."""
        return decision_response(
            await agents.change_pool(gpu, events.PoolResumed(reason=body.reason), actor)
        )

    @router.put("/pools/{gpu}/canary")
    async def choose(gpu: Id, body: CanaryRequest, actor: Operator) -> DecisionResponse:
        """Run a submission on every agent of a pool, repeatedly."""
        result = await agents.choose_canary(
            gpu, body.submission, body.every_s, body.ratio_max, actor
        )
        return decision_response(result)

    @router.delete("/pools/{gpu}/canary")
    async def remove(gpu: Id, body: ReasonRequest, actor: Operator) -> DecisionResponse:
        """Stop running the canary."""
        return decision_response(
            await agents.change_pool(gpu, events.CanaryRemoved(reason=body.reason), actor)
        )

    return router
