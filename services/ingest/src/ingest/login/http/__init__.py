"""The ways in, over HTTP: pages for people, JSON for programs."""

from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import PlainTextResponse

from ingest.http.who import Gate
from ingest.login.http.account import account
from ingest.login.http.api import api
from ingest.login.http.cli import cli
from ingest.login.http.device import device
from ingest.login.http.link import link
from ingest.login.http.sign_in import sign_in
from ingest.login.http.web import Web, route_class
from ingest.login.service import Logins

STYLE_S = 3600


def login(app: FastAPI, logins: Logins, gate: Gate) -> None:
    """All of it, on the public application."""
    app.include_router(api(logins, gate))
    web = Web(logins)
    pages = APIRouter(route_class=route_class(web), include_in_schema=False)
    for theme in (sign_in, device, link, account, cli):
        theme(pages, web)
    _style(pages, web)
    app.include_router(pages)


def _style(router: APIRouter, web: Web) -> None:
    @router.get("/static/login.css")
    async def style() -> Response:
        """How all pages look."""
        headers = {"Cache-Control": f"public, max-age={STYLE_S}"}
        return PlainTextResponse(web.style, media_type="text/css", headers=headers)
