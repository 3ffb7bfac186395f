"""The read API: read models as JSON, with the sequence of the last folded event."""

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ranker.http.access import ReadSources
from ranker.http.cases import cases_router, goals_router
from ranker.http.comparison import comparison_router
from ranker.http.events import events_router
from ranker.http.leaderboards import leaderboards_router
from ranker.http.moderation import moderation_router
from ranker.http.participants import histories_router, participants_router
from ranker.http.problems import problems_router
from ranker.http.queues import queues_router
from ranker.http.submissions import downloads_router, submissions_router
from ranker.service.progress import ProjectionProgress
from shared.clock import now
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
    goals_router,
    moderation_router,
    queues_router,
)


class Lag:
    """Adds the age of the shown data to each response."""

    def __init__(self, app: ASGIApp, progress: ProjectionProgress) -> None:
        self.app = app
        self.progress = progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header Warpboard-Projection-Lag in seconds. Source: the ASGI specification."""

        async def send_with_lag(message: Message) -> None:
            if message["type"] == "http.response.start":
                lag = f"{self.progress.lag_s(now()):.3f}".encode()
                message["headers"] = [*message["headers"], (b"warpboard-projection-lag", lag)]
            await send(message)

        await self.app(scope, receive, send_with_lag)


def create_app(sources: ReadSources) -> FastAPI:
    """Create the read side of the public API."""
    app = FastAPI(title="Warpboard reads", docs_url=None, redoc_url=None)
    app.add_middleware(Lag, progress=sources.progress)
    install_error_handlers(app)
    for make_router in ROUTERS:
        app.include_router(make_router(sources))
    return app
