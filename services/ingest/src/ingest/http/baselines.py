"""Operators' route for baselines: run them once more, as after a change of driver or image."""

from typing import Annotated

from fastapi import APIRouter, Depends

from ingest.http import shapes
from ingest.http.bodies import SlugInPath, Why
from ingest.http.who import Gate
from ingest.service import Ingest
from shared.answers import Documented


def baselines(ingest: Ingest, gate: Gate) -> APIRouter:
    """The route, for operators alone."""
    router = APIRouter(prefix="/v1/admin", route_class=Documented)
    operator = gate.operator("admin:problems")

    @router.post("/problems/{slug}/baselines", status_code=202)
    async def run(
        slug: SlugInPath, body: Why, actor: Annotated[str, Depends(operator)]
    ) -> shapes.Baselines:
        """Run a problem's baselines once more on each of its GPU types, behind everybody else.

        What still waits is not run twice.
        """
        found = await ingest.baselines.again(slug.lower(), actor)
        await ingest.operators.acted("baselines", slug.lower(), body.reason, actor)
        return {
            "slug": slug.lower(),
            "items": [
                {
                    "name": one.name,
                    "gpu": one.gpu,
                    "submission": one.submission,
                    "is_new": one.is_new,
                }
                for one in found
            ],
        }

    return router
