"""Operators' routes for agents and pools."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.domain import agents, pools
from ingest.http import shapes
from ingest.http.bodies import Body, IdInPath, Text, Token, Why, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.machines import Machines
from shared.answers import Documented
from shared.whole import Whole

SIGN_KEY_LENGTH_MAX = 64
EVERY_S_MIN, EVERY_S_MAX = 10, 30 * 86400
RATIO_MAX = 100

TREATMENTS: Mapping[str, Callable[[str], agents.AgentCommand]] = {
    "cordon": agents.Cordon,
    "drain": agents.Drain,
    "release": agents.Release,
    "revoke": agents.Revoke,
}


class Enrollment(Body):
    """The key that an agent will sign with, in base64, and whose machine it is."""

    sign_key: Annotated[str, Field(min_length=1, max_length=SIGN_KEY_LENGTH_MAX)]
    owner: Token
    reason: Text


class CanaryChoice(Body):
    """Which submission runs on every agent how often, and how slow is too slow."""

    submission: Annotated[Whole, Field(ge=1)]
    every_s: Annotated[float, Field(ge=EVERY_S_MIN, le=EVERY_S_MAX)]
    ratio_max: Annotated[float, Field(gt=1, le=RATIO_MAX)]


def machines(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for operators alone."""
    router = APIRouter(prefix="/v1/admin", route_class=Documented)
    _agents(router, ingest.machines, gate)
    _pools(router, ingest.machines, gate)
    return router


def _agents(router: APIRouter, commands: Machines, gate: Gate) -> None:
    operator = gate.operator("admin:operate")

    @router.post("/agents/{agent}/enroll")
    async def enroll(
        agent: IdInPath, body: Enrollment, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Let an agent sign with a key; a later one replaces it."""
        command = agents.Enroll(body.sign_key, body.owner, body.reason)
        return shown(await commands.treat(agent, command, actor))

    @router.post("/agents/{agent}/{act}")
    async def treat(
        agent: IdInPath,
        act: Literal["cordon", "drain", "release", "revoke"],
        body: Why,
        actor: Annotated[str, Depends(operator)],
    ) -> shapes.Made:
        """Give an agent canaries alone, or nothing; let it work again, or never."""
        return shown(await commands.treat(agent, TREATMENTS[act](body.reason), actor))


def _pools(router: APIRouter, commands: Machines, gate: Gate) -> None:
    operator = gate.operator("admin:operate")

    # Not by `{act}`: that would be a way to POST a canary, too.
    @router.post("/pools/{gpu}/pause")
    async def pause(
        gpu: IdInPath, body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Give out no job of a GPU type."""
        return shown(await commands.pool(gpu, pools.Pause(body.reason), actor))

    @router.post("/pools/{gpu}/resume")
    async def resume(
        gpu: IdInPath, body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Give out the jobs of a GPU type again."""
        return shown(await commands.pool(gpu, pools.Resume(body.reason), actor))

    @router.put("/pools/{gpu}/canary")
    async def choose(
        gpu: IdInPath, body: CanaryChoice, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Run a submission on every agent of a pool, again and again."""
        wanted = pools.Canary(gpu, body.every_s, body.ratio_max)
        return shown(await commands.canary(body.submission, wanted, actor))

    @router.delete("/pools/{gpu}/canary")
    async def remove(
        gpu: IdInPath, body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Made:
        """Run no canary any more."""
        return shown(await commands.pool(gpu, pools.RemoveCanary(body.reason), actor))
