"""The HTTP application: middleware, and the routes of every feature."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse

from ingest.agents.routes import agents_router
from ingest.baselines.routes import baselines_router
from ingest.bootstrap import Ingest
from ingest.checks.routes import checks_router
from ingest.consents.routes import consents_router
from ingest.contests.routes import contests_router
from ingest.evaluations.routes import evaluations_router
from ingest.http.document import PublicApi, read_introduction
from ingest.http.middleware import (
    BodyLimitMiddleware,
    IdempotencyMiddleware,
    RateLimitMiddleware,
    RateLimitRules,
    ResponseHeadersMiddleware,
)
from ingest.http.responses import quota_headers
from ingest.identity.accounts.routes import accounts_router, participants_router
from ingest.identity.http.authenticator import Authenticator
from ingest.identity.invites.routes import invites_router
from ingest.identity.login import pages
from ingest.identity.login.routes import login_router
from ingest.identity.login.service import Logins
from ingest.identity.login.web import Web, route_class
from ingest.identity.preferences.routes import preferences_router
from ingest.leaderboards.routes import leaderboards_router
from ingest.merges.routes import merges_router
from ingest.moderation.routes import moderation_router
from ingest.platform.routes import platform_router
from ingest.popcorn import add_popcorn_routes
from ingest.popcorn.dependencies import CAPTURE_OPTIONS, Dependencies
from ingest.ports import IdempotencyStore, ReadProxy
from ingest.problems.routes import problems_router
from ingest.quotas.routes import quotas_router
from ingest.quotas.rules import QuotaExceeded
from ingest.reads.routes import reads_router, search_router
from ingest.reruns.routes import reruns_router
from ingest.site.editor import add_editor_pages
from ingest.site.merging import add_merge_pages
from ingest.site.pages import add_public_pages
from ingest.site.people import add_notification_pages
from ingest.submissions.routes import submissions_router
from ingest.webhooks.routes import webhooks_router
from ingest.webhooks.service import Webhooks
from shared.api.queues import Capabilities, HealthStatus
from shared.errors import Failed
from shared.http import DocumentedRoute, install_error_handlers, refused_response
from shared.version import VERSION

CAPABILITIES = Capabilities(request_capture_options=[*CAPTURE_OPTIONS])


def create_app(
    ingest: Ingest,
    auth: Authenticator,
    is_well: Callable[[], Awaitable[str]],
    repeats: IdempotencyStore,
    rates: RateLimitRules | None = None,
) -> FastAPI:
    """Build the public API without the routes that `add_routes` adds.

    Where names are believed, everybody is on this machine and there are no rate limits.
    """
    app = PublicApi(
        title="Warpboard",
        description=read_introduction(),
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.router.route_class = DocumentedRoute
    app.add_middleware(IdempotencyMiddleware, auth=auth, repeats=repeats)
    app.add_middleware(BodyLimitMiddleware, auth=auth)
    if rates is not None and not auth.config.are_names_believed:
        app.add_middleware(RateLimitMiddleware, auth=auth, rates=rates)
    app.add_middleware(ResponseHeadersMiddleware, auth=auth)
    install_error_handlers(app)

    @app.exception_handler(QuotaExceeded)
    async def quota_exceeded(_request: Request, error: QuotaExceeded) -> JSONResponse:
        return refused_response(error, quota_headers([error.balance]))

    for router in (
        submissions_router(ingest.intake, ingest.submissions, auth),
        evaluations_router(ingest.evaluations, auth),
        quotas_router(ingest.quotas, ingest.intake.choose_gpu, ingest.contests, auth),
        problems_router(ingest.problems, auth),
        checks_router(ingest.checks, auth),
        accounts_router(ingest.people, ingest.tokens, auth),
        leaderboards_router(ingest.boards, auth),
        invites_router(ingest.invites, auth),
        merges_router(ingest.merges, auth),
        baselines_router(ingest.baselines, auth),
        participants_router(ingest.people, ingest.tokens, ingest.moderation.load_ban_appeal, auth),
        consents_router(ingest.consents, auth),
        contests_router(ingest.contests, auth),
        agents_router(ingest.agents, auth),
        # Before `/submissions/{number}/{act}`, which would match a retry, too.
        reruns_router(ingest.reruns, auth),
        moderation_router(ingest.moderation, auth),
        preferences_router(ingest.preferences, auth),
        platform_router(ingest.operators, ingest.account_tables, auth),
    ):
        app.include_router(router)

    @app.get("/health")
    async def health() -> HealthStatus:
        """Whether this service can take traffic: the log and the database answer."""
        if problem := await is_well():
            raise Failed(problem)
        return HealthStatus(status="ok", version=VERSION, capabilities=CAPABILITIES)

    return app


def add_routes(
    app: FastAPI, logins: Logins, webhooks: Webhooks, ranker: ReadProxy, popcorn: Dependencies
) -> None:
    """Add the routes beside the API's own; a test compares them with docs/access.md."""
    auth = popcorn.auth
    web = Web(logins)
    add_login_routes(app, web, auth)
    add_public_pages(app, web, ranker, popcorn.ingest)
    add_editor_pages(app, web, ranker, popcorn.ingest.intake)
    add_notification_pages(app, web, popcorn.ingest.preferences, webhooks)
    add_merge_pages(app, web, popcorn.ingest.merges)
    app.include_router(webhooks_router(webhooks, auth))
    app.include_router(search_router(ranker, auth))
    app.include_router(reads_router(ranker, auth, popcorn.streams, popcorn.downloads))
    add_popcorn_routes(app, popcorn)


def add_login_routes(app: FastAPI, web: Web, auth: Authenticator) -> None:
    """Add all login routes to the application."""
    app.include_router(login_router(web.logins, auth))
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    pages.add_sign_in_pages(router, web)
    pages.add_reset_pages(router, web)
    pages.add_device_pages(router, web)
    pages.add_link_pages(router, web)
    pages.add_account_pages(router, web)
    pages.add_client_pages(router, web)
    app.include_router(router)
