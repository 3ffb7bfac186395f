"""The read API: read models as JSON, with the sequence of the last folded event."""

from fastapi import FastAPI

from ranker.http.access import ReadSources
from ranker.http.archive import archive_router
from ranker.http.cases import cases_router, goals_router
from ranker.http.comparison import comparison_router
from ranker.http.contests import contests_router
from ranker.http.evaluations import evaluations_router
from ranker.http.events import events_router
from ranker.http.labels import labels_router
from ranker.http.leaderboard_cache import LeaderboardCache
from ranker.http.leaderboards import leaderboards_router
from ranker.http.lineage import lineage_router
from ranker.http.moderation import moderation_router
from ranker.http.participants import histories_router, participants_router
from ranker.http.problems import problems_router
from ranker.http.queues import queues_router
from ranker.http.rating import rating_router
from ranker.http.releases import releases_router
from ranker.http.submissions import downloads_router, submissions_router
from ranker.service.progress import ProjectionLagMiddleware
from shared.http import install_error_handlers

ROUTERS = (
    submissions_router,
    events_router,
    cases_router,
    downloads_router,
    comparison_router,
    problems_router,
    leaderboards_router,
    histories_router,
    participants_router,
    contests_router,
    goals_router,
    moderation_router,
    queues_router,
    evaluations_router,
    releases_router,
    archive_router,
    lineage_router,
    labels_router,
    rating_router,
)


def create_app(sources: ReadSources) -> FastAPI:
    """Create the read side of the public API."""
    app = FastAPI(title="Warpboard reads", docs_url=None, redoc_url=None)
    app.add_middleware(LeaderboardCache, progress=sources.progress)
    app.add_middleware(ProjectionLagMiddleware, progress=sources.progress)
    install_error_handlers(app)
    for make_router in ROUTERS:
        app.include_router(make_router(sources))
    return app
