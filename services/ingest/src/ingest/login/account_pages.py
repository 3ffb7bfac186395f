"""Pages to log in and out, to create an account, and for its tokens and identities."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Query, Request, Response

from ingest.access.callers import check_scope
from ingest.accounts.tokens import CLI_SCOPES as USUAL_SCOPES
from ingest.accounts.tokens import NewToken, TokenDetails
from ingest.http.auth import COOKIE, client_address
from ingest.login.rules import PASSWORD_LENGTH_MIN, local_path
from ingest.login.service import Session
from ingest.login.sign_in import CallbackState
from ingest.login.web import STATE_COOKIE, Form, Web, redirect_to_provider
from shared.errors import STATUS_BY_CODE, Refused
from shared.events import SCOPES

Onward = Annotated[str, Query(alias="next")]
ACCOUNT_PAGE = "/account"
DAYS = (7, 30, 90, 365)
NAME_LENGTH_MAX = 64
NumberInPath = Annotated[int, Path(ge=1)]
IdInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


def add_sign_in_pages(router: APIRouter, web: Web) -> None:
    """The routes."""
    _by_password(router, web)
    _register(router, web)
    _by_provider(router, web)
    _logout(router, web)


def _by_password(router: APIRouter, web: Web) -> None:
    async def login_page(
        request: Request, status: int, next_path: str, name: str, error: str
    ) -> Response:
        has_passwords = await web.logins.sign_in.has_passwords()
        values = {"next": next_path, "name": name, "error": error, "has_passwords": has_passwords}
        return web.page(request, "login.html", None, status=status, **values)

    @router.get("/login")
    async def login(request: Request, onward: Onward = ACCOUNT_PAGE) -> Response:
        """Ask for a name and a password, or offer other providers."""
        next_path = local_path(onward)
        if await web.session(request):
            return web.redirect(next_path)
        return await login_page(request, 200, next_path, "", "")

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        """Log in by name and password."""
        form = await web.form(request)
        name, next_path = form.text("name").lower(), local_path(form.text("next"))
        try:
            sign_in = web.logins.sign_in
            account = await sign_in.with_password(
                name, form.raw("password"), client_address(request)
            )
        except Refused as refused:
            status = STATUS_BY_CODE.get(refused.code, 400)
            return await login_page(request, status, next_path, name, refused.reason)
        return web.log_in(next_path, await web.logins.sessions.open(account))


def _register(router: APIRouter, web: Web) -> None:
    def register_page(request: Request, status: int, name: str, error: str) -> Response:
        values = {"name": name, "error": error, "length_min": PASSWORD_LENGTH_MIN}
        return web.page(request, "register.html", None, status=status, **values)

    @router.get("/register")
    async def ask(request: Request) -> Response:
        """Ask for a name and a password."""
        web.logins.sign_in.check_signup()
        return register_page(request, 200, "", "")

    @router.post("/register")
    async def register(request: Request) -> Response:
        """Create an account and log in."""
        web.logins.sign_in.check_signup()
        form = await web.form(request)
        name = form.text("name").lower()
        try:
            sign_in = web.logins.sign_in
            account = await sign_in.register(name, form.raw("password"), client_address(request))
        except Refused as refused:
            return register_page(
                request, STATUS_BY_CODE.get(refused.code, 400), name, refused.reason
            )
        return web.log_in(ACCOUNT_PAGE, await web.logins.sessions.open(account))


def _by_provider(router: APIRouter, web: Web) -> None:
    @router.get("/login/{provider}")
    async def go(request: Request, provider: str, onward: Onward = ACCOUNT_PAGE) -> Response:
        """Redirect to another provider; a logged-in participant links an identity."""
        session = await web.session(request)
        if session is not None:
            check_scope(session.caller, "account")
        return await redirect_to_provider(request, web, provider, local_path(onward), session)

    @router.get("/login/{provider}/callback")
    async def arrive(
        request: Request, provider: str, code: str = "", state: str = "", error: str = ""
    ) -> Response:
        """The provider's callback."""
        if error or not code:
            raise Refused("login_refused", "the login was cancelled at the provider: start again")
        cookie = request.cookies.get(STATE_COOKIE, "")
        session = await web.session(request)
        current_account = session.caller.account if session else None
        login = await web.logins.oauth.finish(
            provider, code, CallbackState(state, cookie), current_account
        )
        if session and session.caller.account == login.account:
            return web.redirect(login.next_path)
        return web.log_in(login.next_path, await web.logins.sessions.open(login.account))


def _logout(router: APIRouter, web: Web) -> None:
    @router.get("/logout")
    async def ask(request: Request) -> Response:
        """Ask whether to log out."""
        session = await web.session(request)
        if session is None:
            return web.redirect("/login")
        return web.page(request, "logout.html", session)

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        """End this browser's session."""
        session = await web.session(request)
        if session is not None:
            await web.form(request, session)
            await web.logins.sessions.close(session.secret)
        answer = web.redirect("/login")
        web.clear(answer, COOKIE)
        return answer


class Row(NamedTuple):
    """A token as the page shows it; `is_all` says that it has all scopes of its owner."""

    id: int
    name: str
    prefix: str
    scopes: Sequence[str]
    problems: Sequence[str]
    is_all: bool
    is_this: bool
    last_used_at: datetime | None
    expires_at: datetime | None


def add_account_pages(router: APIRouter, web: Web) -> None:
    """The routes."""

    @router.get(ACCOUNT_PAGE)
    async def overview(request: Request) -> Response:
        """The account page."""
        session = await web.require_session(request, ACCOUNT_PAGE)
        return await _account_page(request, web, session)

    _tokens(router, web)
    _identities(router, web)


def _token_row(details: TokenDetails, session: Session, at: datetime) -> Row:
    token, row, caller = details.token, details.row, session.caller
    is_this = token.id == caller.token
    return Row(
        id=token.number,
        name=row.name,
        prefix=row.prefix,
        scopes=token.scopes,
        problems=token.problems,
        is_all=not token.problems and set(token.scopes) >= caller.scopes,
        is_this=is_this,
        # Its current use is stored within a minute.
        last_used_at=at if is_this else row.last_used_at,
        expires_at=token.expires_at,
    )


async def _account_page(
    request: Request, web: Web, session: Session, **extra_values: Any
) -> Response:
    account = session.caller.id
    at = web.logins.sessions.clock()
    live_tokens = [
        details
        for details in await web.logins.tokens.list_tokens(account)
        if details.token.is_live(at)
    ]
    values = {
        "tokens": [_token_row(details, session, at) for details in reversed(live_tokens)],
        "identities": await web.logins.people.identities(account),
        "scopes": [scope for scope in SCOPES if scope in session.caller.scopes],
        "chosen": USUAL_SCOPES,
        "days_offered": DAYS,
        "token_name": "",
        "form_open": False,
        "secret": "",
        "secret_name": "",
    }
    return web.page(request, "account.html", session, **(values | extra_values))


def _requested_token(form: Form, at: datetime) -> NewToken:
    """Return the token that the form asks for. Raises `Refused`."""
    name, scopes, days = form.text("name"), form.all("scope"), form.text("days")
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise Refused("invalid_request", f"a name has 1 to {NAME_LENGTH_MAX} characters", "name")
    if not scopes:
        raise Refused("invalid_request", "choose at least one scope for the token", "scope")
    if days not in map(str, DAYS):
        raise Refused("invalid_request", "choose how long the token is valid", "days")
    return NewToken("api", name, scopes, at + timedelta(days=int(days)))


def _tokens(router: APIRouter, web: Web) -> None:
    @router.post(f"{ACCOUNT_PAGE}/tokens")
    async def make(request: Request) -> Response:
        """Create a token and show it, once."""
        session = await web.require_session(request, ACCOUNT_PAGE)
        form = await web.form(request, session)
        try:
            new = _requested_token(form, web.logins.sessions.clock())
            issued = await web.logins.tokens.issue_own(session.caller, new)
        except Refused as refused:
            form_values = {
                "token_name": form.text("name")[:NAME_LENGTH_MAX],
                "chosen": form.all("scope"),
            }
            error_values = {
                "status": STATUS_BY_CODE.get(refused.code, 400),
                "error": refused.reason,
            }
            return await _account_page(
                request, web, session, form_open=True, **error_values, **form_values
            )
        return await _account_page(
            request, web, session, secret=issued.secret, secret_name=new.name
        )

    @router.post(f"{ACCOUNT_PAGE}/tokens/{{number}}/revoke")
    async def revoke(request: Request, number: NumberInPath) -> Response:
        """Revoke a token."""
        session = await web.require_session(request, ACCOUNT_PAGE)
        await web.form(request, session)
        account, actor = session.caller.id, session.caller.actor
        await web.logins.tokens.revoke(account, number, "revoked on the account's page", actor)
        return web.redirect(ACCOUNT_PAGE)


def _identities(router: APIRouter, web: Web) -> None:
    @router.get(f"{ACCOUNT_PAGE}/link/{{provider}}")
    async def link(request: Request, provider: str) -> Response:
        """Redirect to another provider to link an identity."""
        web.logins.oauth.provider(provider)
        session = await web.require_session(request, f"{ACCOUNT_PAGE}/link/{provider}")
        return await redirect_to_provider(request, web, provider, ACCOUNT_PAGE, session)

    @router.post(f"{ACCOUNT_PAGE}/identities/{{identity}}/unlink")
    async def unlink(request: Request, identity: IdInPath) -> Response:
        """Unlink an identity, unless it is the last one."""
        session = await web.require_session(request, ACCOUNT_PAGE)
        await web.form(request, session)
        account, actor = session.caller.id, session.caller.actor
        if len(await web.logins.people.identities(account)) < 2:
            raise Refused("wrong_state", "this is your only way to log in: link another one first")
        reason = "unlinked on the account's page"
        await web.logins.people.unlink(account, identity, reason, actor)
        return web.redirect(ACCOUNT_PAGE)
