"""Operators' route for duels."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.http import shapes
from ingest.http.bodies import Body, Text, Token, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from shared.answers import Documented
from shared.whole import Whole


class DuelRequest(Body):
    """Which two submissions of one leaderboard are timed in alternation, by their numbers."""

    first: Annotated[Whole, Field(ge=1)]
    second: Annotated[Whole, Field(ge=1)]
    reason: Text
    gpu: Token | None = None


def duels(ingest: Ingest, gate: Gate) -> APIRouter:
    """The route, for operators alone."""
    router = APIRouter(prefix="/v1/admin", route_class=Documented)
    operator = gate.operator("admin:operate")

    @router.post("/duels", status_code=201)
    async def request(body: DuelRequest, actor: Annotated[str, Depends(operator)]) -> shapes.Made:
        """Time two submissions in alternation; the winner stands first where they are tied."""
        numbers = body.first, body.second
        return shown(await ingest.duels.request(numbers, body.gpu, body.reason, actor))

    return router
