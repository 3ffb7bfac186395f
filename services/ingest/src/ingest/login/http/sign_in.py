"""Logging in and out: by name and password, by another provider, and making an account."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from ingest.domain.callers import check_scope
from ingest.http.who import COOKIE, whence
from ingest.login.domain import PASSWORD_LENGTH_MIN, local_path
from ingest.login.http.web import STATE_COOKIE, Web, leave
from ingest.login.service.journeys import Back
from shared.codes import STATUS
from shared.errors import Refused

Onward = Annotated[str, Query(alias="next")]
HOME = "/account"


def sign_in(router: APIRouter, web: Web) -> None:
    """The routes."""
    _by_password(router, web)
    _register(router, web)
    _by_provider(router, web)
    _logout(router, web)


def _by_password(router: APIRouter, web: Web) -> None:
    async def shown(
        request: Request, status: int, next_path: str, name: str, error: str
    ) -> Response:
        has_passwords = await web.logins.arrivals.has_passwords()
        values = {"next": next_path, "name": name, "error": error, "has_passwords": has_passwords}
        return web.page(request, "login.html", None, status=status, **values)

    @router.get("/login")
    async def login(request: Request, onward: Onward = HOME) -> Response:
        """Ask for a name and a password, or offer other providers."""
        next_path = local_path(onward)
        if await web.session(request):
            return web.go(next_path)
        return await shown(request, 200, next_path, "", "")

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        """Log in by name and password."""
        form = await web.form(request)
        name, next_path = form.one("name").lower(), local_path(form.one("next"))
        try:
            arrivals = web.logins.arrivals
            account = await arrivals.by_password(name, form.raw("password"), whence(request))
        except Refused as refused:
            status = STATUS.get(refused.code, 400)
            return await shown(request, status, next_path, name, refused.reason)
        return web.log_in(next_path, await web.logins.sessions.open(account))


def _register(router: APIRouter, web: Web) -> None:
    def shown(request: Request, status: int, name: str, error: str) -> Response:
        values = {"name": name, "error": error, "length_min": PASSWORD_LENGTH_MIN}
        return web.page(request, "register.html", None, status=status, **values)

    @router.get("/register")
    async def ask(request: Request) -> Response:
        """Ask for a name and a password."""
        web.logins.arrivals.check_signup()
        return shown(request, 200, "", "")

    @router.post("/register")
    async def register(request: Request) -> Response:
        """Make an account and log in."""
        web.logins.arrivals.check_signup()
        form = await web.form(request)
        name = form.one("name").lower()
        try:
            arrivals = web.logins.arrivals
            account = await arrivals.register(name, form.raw("password"), whence(request))
        except Refused as refused:
            return shown(request, STATUS.get(refused.code, 400), name, refused.reason)
        return web.log_in(HOME, await web.logins.sessions.open(account))


def _by_provider(router: APIRouter, web: Web) -> None:
    @router.get("/login/{provider}")
    async def go(request: Request, provider: str, onward: Onward = HOME) -> Response:
        """Go to another provider; who is logged in comes back with one more identity."""
        session = await web.session(request)
        if session is not None:
            check_scope(session.caller, "account")
        return await leave(request, web, provider, local_path(onward), session)

    @router.get("/login/{provider}/callback")
    async def arrive(
        request: Request, provider: str, code: str = "", state: str = "", error: str = ""
    ) -> Response:
        """Come back from there."""
        if error or not code:
            raise Refused("login_refused", "the login was turned down there: begin again")
        cookie = request.cookies.get(STATE_COOKIE, "")
        session = await web.session(request)
        here = session.caller.account if session else None
        came = await web.logins.journeys.arrive(provider, code, Back(state, cookie), here)
        if session and session.caller.account == came.account:
            return web.go(came.next_path)
        return web.log_in(came.next_path, await web.logins.sessions.open(came.account))


def _logout(router: APIRouter, web: Web) -> None:
    @router.get("/logout")
    async def ask(request: Request) -> Response:
        """Ask whether to log out."""
        session = await web.session(request)
        if session is None:
            return web.go("/login")
        return web.page(request, "logout.html", session)

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        """End this browser's session."""
        session = await web.session(request)
        if session is not None:
            await web.form(request, session)
            await web.logins.sessions.close(session.secret)
        answer = web.go("/login")
        web.clear(answer, COOKIE)
        return answer
