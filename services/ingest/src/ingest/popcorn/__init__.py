"""The API of the public client popcorn-cli, translated to and from ours."""

from fastapi import FastAPI

from ingest.http.middleware import NormalizePathMiddleware
from ingest.popcorn.admin import admin_leaderboards_router, admin_router
from ingest.popcorn.dependencies import Dependencies
from ingest.popcorn.exports import exports_router
from ingest.popcorn.own_submissions import own_submissions_router
from ingest.popcorn.profiler import profiler_router
from ingest.popcorn.public import public_router
from ingest.popcorn.submissions import stream_route, submissions_router


def add_popcorn_routes(app: FastAPI, deps: Dependencies) -> None:
    """Add the client's routes to the application; last, because the final route is very wide."""
    app.add_middleware(NormalizePathMiddleware)
    app.router.redirect_slashes = False
    for build_router in (
        public_router,
        submissions_router,
        own_submissions_router,
        profiler_router,
        admin_router,
        admin_leaderboards_router,
        exports_router,
    ):
        app.include_router(build_router(deps))
    app.router.routes.append(stream_route(deps))
