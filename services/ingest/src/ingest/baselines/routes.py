"""The route of operators that runs baselines again."""

from typing import Annotated

from fastapi import APIRouter, Depends

from ingest.baselines.service import Baselines
from ingest.http.requests import ReasonRequest, Slug
from ingest.identity.http.authenticator import Authenticator
from shared.api import cases as api
from shared.http import DocumentedRoute


def baselines_router(baselines: Baselines, auth: Authenticator) -> APIRouter:
    """The route, for operators only."""
    router = APIRouter(prefix="/v1/admin", route_class=DocumentedRoute)
    operator = auth.operator("admin:problems")

    @router.post("/problems/{slug}/baselines", status_code=202)
    async def start(
        slug: Slug, body: ReasonRequest, actor: Annotated[str, Depends(operator)]
    ) -> api.Baselines:
        """Run a problem's baselines once more on each of its GPU types, behind everybody else.

        What still waits is not run twice.
        """
        runs = await baselines.run_again(slug.lower(), actor)
        await baselines.decisions.record_action("baselines", slug.lower(), body.reason, actor)
        return api.Baselines(slug=slug.lower(), items=runs)

    return router
