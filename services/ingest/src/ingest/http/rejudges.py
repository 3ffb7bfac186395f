"""Operators' routes for rejudges."""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from ingest.domain import endings
from ingest.http import shapes
from ingest.http.bodies import Body, IdInPath, Text, Token, Why, shown
from ingest.http.who import Gate
from ingest.service import Ingest
from shared.answers import Documented

ENDS: Mapping[str, Callable[[str], endings.Apply | endings.Discard]] = {
    "apply": endings.Apply,
    "discard": endings.Discard,
}

Version = Annotated[int, Field(ge=1)]


class RejudgeWish(Body):
    """Which submissions run again, from and to which version of their problem."""

    problem: Text
    select: Literal["best", "all"]
    reason: Text
    gpu: Token | None = None
    from_version: Version | None = None
    to_version: Version | None = None


def rejudges(ingest: Ingest, gate: Gate) -> APIRouter:
    """The routes, each for operators alone."""
    router, commands = APIRouter(prefix="/v1/admin", route_class=Documented), ingest.rejudges
    operator = gate.operator("admin:problems")

    @router.post("/rejudges", status_code=201)
    async def request(
        body: RejudgeWish, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Requested:
        """Let submissions run again under another version; nothing counts until it is applied."""
        wanted = endings.Selection(
            problem=body.problem.lower(),
            select=body.select,
            reason=body.reason,
            gpu=body.gpu,
            from_version=body.from_version,
            to_version=body.to_version,
        )
        rejudge, fact = await commands.request(wanted, actor)
        return {
            "id": rejudge,
            "count": len(fact.items),
            "from_version": fact.from_number,
            "to_version": fact.to_number,
        }

    @router.post("/rejudges/{id}/{act}")
    async def end(
        id: IdInPath,  # noqa: A002  (the contract's own word)
        act: Literal["apply", "discard"],
        body: Why,
        actor: Annotated[str, Depends(operator)],
    ) -> shapes.Made:
        """Let the results of a rejudge count, or not."""
        return shown(await commands.end(id, ENDS[act](body.reason), actor))

    return router
