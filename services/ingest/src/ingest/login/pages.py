"""The web pages: to log in, for an account, to link a CLI id and to approve a device."""

import base64
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from ingest.access.callers import check_scope
from ingest.accounts.tokens import CLI_LIFE_DAYS, CLI_SCOPES, NewToken, TokenDetails
from ingest.http.auth import COOKIE, client_address
from ingest.http.request_models import IdInPath, NumberInPath
from ingest.login.rules import (
    CLI_ID,
    PASSWORD_LENGTH_MIN,
    CliLogin,
    format_code,
    local_path,
    normalize_code,
)
from ingest.login.service import Session
from ingest.login.sign_in import CallbackState
from ingest.login.web import STATE_COOKIE, Form, Web, redirect_to_provider
from shared.errors import STATUS_BY_CODE, Refused
from shared.events import SCOPES

Onward = Annotated[str, Query(alias="next")]
ACCOUNT_PAGE = "/account"
DAYS = (7, 30, 90, 365)
NAME_LENGTH_MAX = 64
LINK_PAGE = "/link"
DEVICE_PAGE = "/device"
CODE_LENGTH_MAX = 20
STATE_LENGTH_MAX = 1024


def add_sign_in_pages(router: APIRouter, web: Web) -> None:
    """The pages to log in and out and to create an account."""
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
    """The page of an account, with its tokens and identities."""

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
        "identities": await web.logins.people.register.identities(account),
        "scopes": [scope for scope in SCOPES if scope in session.caller.scopes],
        "chosen": CLI_SCOPES,
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
        if len(await web.logins.people.register.identities(account)) < 2:
            raise Refused("wrong_state", "this is your only way to log in: link another one first")
        reason = "unlinked on the account's page"
        await web.logins.people.unlink(account, identity, reason, actor)
        return web.redirect(ACCOUNT_PAGE)


def link_question(
    login: CliLogin, acts_as: str, action: str, hidden: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return the values of the page link_confirm.html for a CLI id."""
    ends = login.requested_at + timedelta(days=CLI_LIFE_DAYS)
    return {
        "login": login,
        "acts_as": acts_as,
        "action": action,
        "hidden": hidden,
        "scopes": CLI_SCOPES,
        "grant_ends_at": ends,
    }


def linked_page(request: Request, web: Web, session: Session | None, is_linked: bool) -> Response:
    """Return the page after the confirmation."""
    lines = (
        ["The CLI id is linked: continue in your terminal."]
        if is_linked
        else ["Nothing was linked. The id expires in a few minutes."]
    )
    heading, onward = "Linked" if is_linked else "Not linked", ("/account", "Your tokens")
    values = {"heading": heading, "lines": lines, "onward": onward}
    return web.page(request, "said.html", session, **values)


def add_link_pages(router: APIRouter, web: Web) -> None:
    """The pages to link a CLI id."""

    @router.get(LINK_PAGE)
    async def ask(request: Request) -> Response:
        """Ask for a CLI id."""
        session = await web.require_session(request, LINK_PAGE)
        return web.page(request, "link.html", session)

    @router.post(LINK_PAGE)
    async def preview(request: Request) -> Response:
        """Show who asked for this id, and ask for confirmation."""
        session = await web.require_session(request, LINK_PAGE)
        cli_id = (await web.form(request, session)).text("cli_id")
        try:
            login = await web.logins.cli_ids.preview(cli_id, session.caller.id)
        except Refused as refused:
            status = STATUS_BY_CODE.get(refused.code, 400)
            return web.page(request, "link.html", session, status=status, error=refused.reason)
        values = link_question(
            login, session.caller.name, f"{LINK_PAGE}/answer", [("cli_id", cli_id)]
        )
        return web.page(request, "link_confirm.html", session, **values)

    @router.post(f"{LINK_PAGE}/answer")
    async def answer(request: Request) -> Response:
        """Link the id, or leave it."""
        session = await web.require_session(request, LINK_PAGE)
        form = await web.form(request, session)
        is_linked = form.text("answer") == "yes"
        if is_linked:
            await web.logins.cli_ids.link(form.text("cli_id"), session.caller.id)
        return linked_page(request, web, session, is_linked)


async def _preview_page(request: Request, web: Web, session: Session, code: str) -> Response:
    """Return the confirmation page of a device, or the form again if there is no such device."""
    try:
        login = await web.logins.devices.preview(code, session.caller)
    except Refused as refused:
        status = STATUS_BY_CODE.get(refused.code, 400)
        form_values = {"user_code": code, "status": status, "error": refused.reason}
        return web.page(request, "device.html", session, **form_values)
    confirm_values: dict[str, Any] = {
        "login": login,
        "user_code": format_code(normalize_code(code)),
        "acts_as": session.caller.name,
        "grant_ends_at": login.grant_ends_at,
    }
    return web.page(request, "device_confirm.html", session, **confirm_values)


def add_device_pages(router: APIRouter, web: Web) -> None:
    """The pages to approve a device."""

    @router.get(DEVICE_PAGE)
    async def ask(request: Request) -> Response:
        """Ask for the code that a device shows."""
        session = await web.require_session(request, DEVICE_PAGE)
        return web.page(request, "device.html", session, user_code="")

    @router.get(f"{DEVICE_PAGE}/{{code}}")
    async def ask_about(request: Request, code: str) -> Response:
        """Confirm a device whose code is in the URL."""
        session = await web.require_session(request, f"{DEVICE_PAGE}/{code[:CODE_LENGTH_MAX]}")
        return await _preview_page(request, web, session, code[:CODE_LENGTH_MAX])

    @router.post(DEVICE_PAGE)
    async def preview(request: Request) -> Response:
        """Show the device with this code, and ask for confirmation."""
        session = await web.require_session(request, DEVICE_PAGE)
        form = await web.form(request, session)
        return await _preview_page(request, web, session, form.text("user_code")[:CODE_LENGTH_MAX])

    @router.post(f"{DEVICE_PAGE}/answer")
    async def answer(request: Request) -> Response:
        """Approve or deny the device."""
        session = await web.require_session(request, DEVICE_PAGE)
        form = await web.form(request, session)
        is_let_in = form.text("answer") == "yes"
        await web.logins.devices.answer(form.text("user_code"), session.caller, is_let_in)
        lines = (
            ["The device is connected: go back to it. You may close this page."]
            if is_let_in
            else ["The device was denied. It cannot act for you."]
        )
        values = {"heading": "Connected" if is_let_in else "Denied", "lines": lines}
        onward = ("/account", "Your tokens")
        return web.page(request, "said.html", session, onward=onward, **values)


class ClientState(msgspec.Struct):
    """What the client packed into its state."""

    cli_id: str
    is_reset: bool = False


def unpack_state(text: str) -> ClientState:
    """Return a state as the client packs it: unpadded base64url of JSON. Raises `Refused`.

    >>> unpack_state("eyJjbGlfaWQiOiJhYmNkZWZnaGlqa2xtbm9wIiwiaXNfcmVzZXQiOmZhbHNlfQ")
    ClientState(cli_id='abcdefghijklmnop', is_reset=False)
    """
    try:
        raw = base64.urlsafe_b64decode(text[:STATE_LENGTH_MAX].encode() + b"==")
        state = msgspec.json.decode(raw, type=ClientState)
    except (ValueError, msgspec.DecodeError) as error:
        raise Refused("invalid_request", "the state is not a valid client state") from error
    if not CLI_ID.match(state.cli_id):
        raise Refused("unknown_cli_id", "this CLI id is not known here", "state")
    return state


def add_client_pages(router: APIRouter, web: Web) -> None:
    """The pages of an OAuth login that a third-party client started (http-api.md, section 7).

    It chose the state, so only the provider is trusted; the confirmation keeps a mere visit from
    linking an attacker's id.
    """

    @router.get("/auth/cli/{provider}")
    async def arrive(request: Request, provider: str, code: str = "", state: str = "") -> Response:
        """The provider's callback: ask whether to link the CLI id."""
        web.logins.login_attempts.take(f"cli {client_address(request)}")
        packed = unpack_state(state)
        user = await web.logins.oauth.fetch_user(provider, code)
        account = await web.logins.sign_in.with_provider(provider, user)
        login = await web.logins.cli_ids.preview(packed.cli_id, account)
        ticket = await web.logins.oauth.issue_ticket(provider, packed.cli_id, account)
        hidden = [
            ("cli_id", packed.cli_id),
            ("is_reset", "true" if packed.is_reset else "false"),
            ("ticket", ticket),
        ]
        name = await web.logins.people.name_of(account)
        values = link_question(login, name, f"/auth/cli/{provider}", hidden)
        return web.page(request, "link_confirm.html", None, **values)

    @router.post("/auth/cli/{provider}")
    async def answer(request: Request, provider: str) -> Response:
        """Link the id, or leave it."""
        form = await web.form(request)
        cli_id = form.text("cli_id")
        account = await web.logins.oauth.redeem_ticket(provider, cli_id, form.text("ticket"))
        is_linked = form.text("answer") == "yes"
        if is_linked:
            await web.logins.cli_ids.link(cli_id, account)
        if "application/json" not in request.headers.get("accept", ""):
            return linked_page(request, web, None, is_linked)
        return JSONResponse(
            {
                "status": "ok" if is_linked else "declined",
                "message": "the CLI id is now linked to your account"
                if is_linked
                else "nothing was linked",
                "user_id": account,
                "user_name": await web.logins.people.name_of(account),
                "is_reset": form.text("is_reset") == "true",
            }
        )
