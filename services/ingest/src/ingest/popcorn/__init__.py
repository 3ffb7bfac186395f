"""The API of the public client popcorn-cli, translated to and from ours."""

from fastapi import APIRouter, FastAPI

from ingest.http.middleware import NormalizePathMiddleware
from ingest.popcorn import admin, exports, participant, submissions
from ingest.popcorn.dependencies import Dependencies
from shared.http import DocumentedRoute


def add_popcorn_routes(app: FastAPI, deps: Dependencies) -> None:
    """Add the client's routes to the application; last, because the final route is very wide."""
    app.add_middleware(NormalizePathMiddleware)
    app.router.redirect_slashes = False
    router = APIRouter(route_class=DocumentedRoute)
    for add_routes in (
        participant.add_leaderboard_routes,
        participant.add_health_routes,
        submissions.add_submission_route,
        participant.add_own_submission_routes,
        participant.add_profiler_routes,
        admin.add_intake_routes,
        admin.add_submission_routes,
        admin.add_participant_routes,
        admin.add_rate_limit_routes,
        admin.add_leaderboard_routes,
        admin.add_invite_routes,
        exports.add_export_route,
    ):
        add_routes(router, deps)
    app.include_router(router)
    submissions.add_stream_routes(app, deps)
