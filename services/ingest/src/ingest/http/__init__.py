"""The routes under /v1: requests in, JSON out, one shape of error."""

from collections.abc import Awaitable, Callable

from fastapi import FastAPI

from ingest.http.accounts import accounts
from ingest.http.appeals import appeals
from ingest.http.baselines import baselines
from ingest.http.boards import boards
from ingest.http.body_limits import BodyLimits
from ingest.http.consents import consents
from ingest.http.duels import duels
from ingest.http.limits import RateLimits, Rates, RequestIds
from ingest.http.machines import machines
from ingest.http.moderation import moderation
from ingest.http.people import people
from ingest.http.platform import platform
from ingest.http.preferences import preferences
from ingest.http.problems import problems
from ingest.http.reads import Streams, reads
from ingest.http.reference import reference
from ingest.http.rejudges import rejudges
from ingest.http.repeats import Once
from ingest.http.shapes import Well
from ingest.http.submissions import submissions
from ingest.http.who import Gate
from ingest.service import Ingest
from ingest.service.ports import Reads, Repeats
from shared.answers import Documented
from shared.errors import Failed
from shared.http import install

THEMES = (
    *(accounts, boards, baselines, people, consents, appeals, machines, moderation),
    *(preferences, rejudges, duels, platform),
)
ABOUT = (
    "Any POST under /v1 may have the header `Idempotency-Key`, 1 to 255 visible ASCII characters: "
    "it is done once, and for 24 hours a repeat is answered as the first request was."
)


def application(
    ingest: Ingest,
    gate: Gate,
    is_well: Callable[[], Awaitable[str]],
    repeats: Repeats,
    rates: Rates | None = None,
) -> FastAPI:
    """The public API but for its reads, which come last: see `last`.

    Where names are believed everybody is on this machine, and nobody asks too often.
    """
    app = FastAPI(
        title="Warpboard",
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
    )
    app.router.route_class = Documented
    app.add_middleware(Once, gate=gate, repeats=repeats)
    app.add_middleware(BodyLimits, gate=gate)
    if rates is not None and not gate.are_names_believed:
        app.add_middleware(RateLimits, gate=gate, rates=rates)
    app.add_middleware(RequestIds)
    install(app)
    submissions(app, ingest, gate)
    problems(app, ingest.authors, gate)
    for theme in THEMES:
        app.include_router(theme(ingest, gate))
    reference(app)
    _health(app, is_well)
    return app


def last(app: FastAPI, gate: Gate, reader: Reads, streams: Streams | None = None) -> None:
    """Let ranker answer the reads, and the document tell of every route."""
    reads(app, reader, gate, streams)


def _health(app: FastAPI, is_well: Callable[[], Awaitable[str]]) -> None:
    @app.get("/health")
    async def health() -> Well:
        """Whether this door may take traffic: the log and the database answer."""
        if ill := await is_well():
            raise Failed(ill)
        return {"status": "ok"}
