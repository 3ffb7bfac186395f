"""Agents and pools, as operators manage them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.agents import rules
from ingest.decisions import CommandContext, DecisionResult, Decisions
from ingest.http.auth import Authenticator
from ingest.http.request_models import (
    IdInPath,
    ReasonRequest,
    RequestModel,
    Text,
    Token,
    decision_response,
)
from ingest.ports import Ports
from ingest.submissions.service import load_submission
from shared import subjects
from shared.api.platform import DecisionResponse
from shared.json_types import JsonInt
from shared.response_types import DocumentedRoute

SIGN_KEY_LENGTH_MAX = 64
EVERY_S_MIN, EVERY_S_MAX = 10, 30 * 86400
RATIO_MAX = 100

TREATMENTS: Mapping[str, Callable[[str], rules.AgentCommand]] = {
    "cordon": rules.Cordon,
    "drain": rules.Drain,
    "release": rules.Release,
    "revoke": rules.Revoke,
}


@dataclass(frozen=True)
class Agents:
    """Manages agents and pools."""

    ports: Ports
    decisions: Decisions

    async def decide_agent(
        self, agent: str, command: rules.AgentCommand, operator: str
    ) -> DecisionResult:
        """Enroll, cordon, drain, release or revoke an agent. Raises `Refused` and `Failed`."""
        agg = subjects.agent(agent)
        return await self.decisions.make(
            agg, rules.agents, command, CommandContext(operator, agent)
        )

    async def decide_pool(
        self, gpu: str, command: rules.PoolCommand, operator: str
    ) -> DecisionResult:
        """Pause or resume a pool, or remove its canary. Raises `Refused` and `Failed`."""
        agg = subjects.pool(gpu)
        return await self.decisions.make(agg, rules.pools, command, CommandContext(operator, gpu))

    async def canary(self, number: int, request: rules.Canary, operator: str) -> DecisionResult:
        """Make a submission the canary of a pool. Raises `Refused` and `Failed`."""
        submission = await load_submission(self.ports, number)
        canary_event = rules.canary(request, submission.id, submission.facts)
        return await self.decide_pool(request.gpu, rules.ChooseCanary(canary_event), operator)


class EnrollmentRequest(RequestModel):
    """The key an agent will sign with, in base64, and the owner of its machine."""

    sign_key: Annotated[str, Field(min_length=1, max_length=SIGN_KEY_LENGTH_MAX)]
    owner: Token
    reason: Text


class CanaryRequest(RequestModel):
    """The submission that runs on every agent, how often, and which ratio is too slow."""

    submission: Annotated[JsonInt, Field(ge=1)]
    every_s: Annotated[float, Field(ge=EVERY_S_MIN, le=EVERY_S_MAX)]
    ratio_max: Annotated[float, Field(gt=1, le=RATIO_MAX)]


def agents_router(agents: Agents, auth: Authenticator) -> APIRouter:
    """The routes, each for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    _agents(router, agents, auth)
    _pools(router, agents, auth)
    return router


def _agents(router: APIRouter, commands: Agents, auth: Authenticator) -> None:
    operator = auth.operator("admin:operate")

    @router.post("/agents/{agent}/enroll")
    async def enroll(
        agent: IdInPath, body: EnrollmentRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Accept signatures of an agent with a key; a later key replaces it."""
        command = rules.Enroll(body.sign_key, body.owner, body.reason)
        return decision_response(await commands.decide_agent(agent, command, actor))

    @router.post("/agents/{agent}/{act}")
    async def treat(
        agent: IdInPath,
        act: Literal["cordon", "drain", "release", "revoke"],
        body: ReasonRequest,
        actor: Annotated[str, Depends(operator)],
    ) -> DecisionResponse:
        """Cordon, drain, release or revoke an agent."""
        return decision_response(
            await commands.decide_agent(agent, TREATMENTS[act](body.reason), actor)
        )


def _pools(router: APIRouter, commands: Agents, auth: Authenticator) -> None:
    operator = auth.operator("admin:operate")

    # No `{act}` here: it would also match POST .../canary.
    @router.post("/pools/{gpu}/pause")
    async def pause(
        gpu: IdInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Stop assigning jobs of a GPU type."""
        return decision_response(await commands.decide_pool(gpu, rules.Pause(body.reason), actor))

    @router.post("/pools/{gpu}/resume")
    async def resume(
        gpu: IdInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Assign jobs of a GPU type again."""
        return decision_response(await commands.decide_pool(gpu, rules.Resume(body.reason), actor))

    @router.put("/pools/{gpu}/canary")
    async def choose(
        gpu: IdInPath, body: CanaryRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Run a submission on every agent of a pool, repeatedly."""
        canary = rules.Canary(gpu, body.every_s, body.ratio_max)
        return decision_response(await commands.canary(body.submission, canary, actor))

    @router.delete("/pools/{gpu}/canary")
    async def remove(
        gpu: IdInPath, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> DecisionResponse:
        """Stop running the canary."""
        return decision_response(
            await commands.decide_pool(gpu, rules.RemoveCanary(body.reason), actor)
        )
