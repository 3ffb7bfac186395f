"""The web pages: to log in, for an account, to link a CLI id and to approve a device."""

import base64
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from ingest.http.addresses import client_address
from ingest.http.cookies import SESSION_COOKIE
from ingest.http.requests import Id, Number
from ingest.identity.accounts.service import NewToken
from ingest.identity.caller import check_scope
from ingest.identity.login.cli_ids import CLI_LIFE_DAYS, CLI_SCOPES
from ingest.identity.login.rules import (
    CLI_ID,
    PASSWORD_LENGTH_MIN,
    CliLogin,
    format_code,
    local_path,
    normalize_code,
)
from ingest.identity.login.service import Session
from ingest.identity.login.web import DEVICE_COOKIE, STATE_COOKIE, Form, Web
from shared.errors import Refused
from shared.events import SCOPES

Onward = Annotated[str, Query(alias="next")]
ACCOUNT, LINK, DEVICE = "/account", "/link", "/device"
DAYS = (7, 30, 90, 365)
TOKEN_NAME_LENGTH_MAX = 64
CODE_LENGTH_MAX = 20
STATE_LENGTH_MAX = 1024


def add_sign_in_pages(router: APIRouter, web: Web) -> None:
    """The pages to log in and out and to create an account."""
    _add_login(router, web)
    _add_register(router, web)
    _add_providers(router, web)

    @router.get("/logout")
    async def ask(request: Request) -> Response:
        """Ask whether to log out."""
        session = await web.session(request)
        return web.page(request, "logout.html", session) if session else web.redirect("/login")

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        """End this browser's session."""
        session = await web.session(request)
        if session is not None:
            await web.form(request, session)
            await web.logins.sessions.close(session.secret)
        response = web.redirect("/login")
        web.cookies.clear(response, SESSION_COOKIE)
        return response


def _add_login(router: APIRouter, web: Web) -> None:
    async def login_page(
        request: Request, next_path: str, name: str = "", error: Refused | None = None
    ) -> Response:
        has_passwords = await web.logins.sign_in.has_passwords()
        values = {"next": next_path, "name": name, "has_passwords": has_passwords}
        return web.page(request, "login.html", None, error, **values)

    @router.get("/login")
    async def login(request: Request, onward: Onward = ACCOUNT) -> Response:
        """Ask for a name and a password, or offer other providers."""
        next_path = local_path(onward)
        if await web.session(request):
            return web.redirect(next_path)
        return await login_page(request, next_path)

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        """Log in by name and password."""
        form = await web.form(request)
        name, next_path = form.text("name").lower(), local_path(form.text("next"))
        password, address = form.raw("password"), client_address(request)
        cookie = web.cookies.read(request, DEVICE_COOKIE)
        try:
            account = await web.logins.sign_in.with_password(name, password, address, cookie)
        except Refused as refused:
            return await login_page(request, next_path, name, refused)
        response = await web.log_in(next_path, account)
        web.remember_device(request, response, name)
        return response


def _add_register(router: APIRouter, web: Web) -> None:
    def register_page(
        request: Request, next_path: str, name: str = "", error: Refused | None = None
    ) -> Response:
        values = {"next": next_path, "name": name, "length_min": PASSWORD_LENGTH_MIN}
        return web.page(request, "register.html", None, error, **values)

    @router.get("/register")
    async def ask(request: Request, onward: Onward = ACCOUNT) -> Response:
        """Ask for a name and a password."""
        web.logins.sign_in.check_signup()
        return register_page(request, local_path(onward))

    @router.post("/register")
    async def register(request: Request) -> Response:
        """Create an account and log in."""
        web.logins.sign_in.check_signup()
        form = await web.form(request)
        name, next_path = form.text("name").lower(), local_path(form.text("next"))
        password, address = form.raw("password"), client_address(request)
        try:
            account = await web.logins.sign_in.register(name, password, address)
        except Refused as refused:
            return register_page(request, next_path, name, refused)
        response = await web.log_in(next_path, account)
        web.remember_device(request, response, name)
        return response


def _add_providers(router: APIRouter, web: Web) -> None:
    @router.get("/login/{provider}")
    async def go(request: Request, provider: str, onward: Onward = ACCOUNT) -> Response:
        """Redirect to another provider; a logged-in participant links an identity."""
        session = await web.session(request)
        if session is not None:
            check_scope(session.caller, "account")
        return await web.leave_for_provider(request, provider, local_path(onward), session)

    @router.get("/login/{provider}/callback")
    async def arrive(
        request: Request, provider: str, code: str = "", state: str = "", error: str = ""
    ) -> Response:
        """The provider's callback."""
        if error or not code:
            raise Refused("login_refused", "the login was cancelled at the provider: start again")
        session = await web.session(request)
        current_account = session.caller.account if session else None
        cookie = web.cookies.read(request, STATE_COOKIE)
        account, next_path = await web.logins.oauth.finish(
            provider, code, state, cookie, current_account
        )
        if session and current_account == account:
            return web.redirect(next_path)
        return await web.log_in(next_path, account)


def add_reset_pages(router: APIRouter, web: Web) -> None:
    """The page on which a participant sets a new password, with an operator's link."""
    path, resets = "/reset/{secret}", web.logins.resets

    async def reset_page(request: Request, secret: str, error: Refused | None = None) -> Response:
        web.logins.login_attempts.take(f"reset {client_address(request)}")
        account = await resets.find_account(secret)
        values = {
            "secret": secret,
            "name": await web.logins.people.name_of(account),
            "length_min": PASSWORD_LENGTH_MIN,
        }
        return web.page(request, "reset.html", None, error, **values)

    @router.get(path)
    async def ask(request: Request, secret: str) -> Response:
        """Ask for a new password. Opening the page does not use the link."""
        return await reset_page(request, secret)

    @router.post(path)
    async def reset(request: Request, secret: str) -> Response:
        """Set the new password and end the participant's sessions."""
        form = await web.form(request)
        is_all_revoked = form.text("revoke_tokens") == "yes"
        try:
            name = await resets.use(secret, form.raw("password"), is_all_revoked=is_all_revoked)
        except Refused as refused:
            return await reset_page(request, secret, refused)
        response = web.page(
            request, "reset_done.html", None, name=name, is_all_revoked=is_all_revoked
        )
        web.cookies.clear(response, SESSION_COOKIE)
        # Passwords that were tried before the reset do not delay the login with the new one.
        web.remember_device(request, response, name)
        return response


def add_account_pages(router: APIRouter, web: Web) -> None:
    """The page of an account, with its tokens and identities."""

    @router.get(ACCOUNT)
    async def overview(request: Request) -> Response:
        """The account page."""
        return await _account_page(request, web, await web.require_session(request, ACCOUNT))

    @router.post(f"{ACCOUNT}/tokens")
    async def make(request: Request) -> Response:
        """Create a token and show it, once."""
        session, form = await web.require_form(request, ACCOUNT)
        try:
            new = _requested_token(form, web)
            issued = await web.logins.tokens.issue_own(session.caller, new)
        except Refused as refused:
            values = {
                "token_name": form.text("name")[:TOKEN_NAME_LENGTH_MAX],
                "chosen": form.all("scope"),
            }
            return await _account_page(request, web, session, refused, form_open=True, **values)
        return await _account_page(
            request, web, session, secret=issued.secret, secret_name=new.name
        )

    @router.post(f"{ACCOUNT}/tokens/{{number}}/revoke")
    async def revoke(request: Request, number: Number) -> Response:
        """Revoke a token."""
        session, _ = await web.require_form(request, ACCOUNT)
        account, actor = session.caller.id, session.caller.actor
        await web.logins.tokens.revoke(account, number, "revoked on the account's page", actor)
        return web.redirect(ACCOUNT)

    @router.get(f"{ACCOUNT}/link/{{provider}}")
    async def link(request: Request, provider: str) -> Response:
        """Redirect to another provider to link an identity."""
        web.logins.oauth.provider(provider)
        session = await web.require_session(request, f"{ACCOUNT}/link/{provider}")
        return await web.leave_for_provider(request, provider, ACCOUNT, session)

    @router.post(f"{ACCOUNT}/identities/{{identity}}/unlink")
    async def unlink(request: Request, identity: Id) -> Response:
        """Unlink an identity, unless it is the last one."""
        session, _ = await web.require_form(request, ACCOUNT)
        account, people = session.caller.id, web.logins.people
        await people.check_has_another_identity(account)
        reason = "unlinked on the account's page"
        await people.unlink(account, identity, reason, session.caller.actor)
        return web.redirect(ACCOUNT)


async def _account_page(
    request: Request, web: Web, session: Session, error: Refused | None = None, **extra_values: Any
) -> Response:
    account, scopes = session.caller.id, session.caller.scopes
    at = web.logins.tokens.clock()
    tokens = []
    for token, row in reversed(await web.logins.tokens.list_tokens(account)):
        if token.is_live(at):
            is_this = token.id == session.caller.token
            # The current use of this session's token is stored within a minute.
            row_values = {"is_this": is_this, "last_used_at": at if is_this else row.last_used_at}
            is_all = not token.problems and set(token.scopes) >= scopes
            tokens.append({"token": token, "row": row, "is_all": is_all, **row_values})
    values = {
        "tokens": tokens,
        "identities": await web.logins.people.list_identities(account),
        "scopes": [scope for scope in SCOPES if scope in scopes],
        "chosen": CLI_SCOPES,
        "days_offered": DAYS,
        "token_name": "",
        "form_open": False,
        "secret": "",
        "secret_name": "",
    }
    return web.page(request, "account.html", session, error, **(values | extra_values))


def _requested_token(form: Form, web: Web) -> NewToken:
    """Return the token that the form asks for. Raises `Refused`."""
    name, scopes, days = form.text("name"), form.all("scope"), form.text("days")
    if not name or len(name) > TOKEN_NAME_LENGTH_MAX or not name.isprintable():
        raise Refused(
            "invalid_request", f"a name has 1 to {TOKEN_NAME_LENGTH_MAX} characters", "name"
        )
    if not scopes:
        raise Refused("invalid_request", "choose at least one scope for the token", "scope")
    if days not in map(str, DAYS):
        raise Refused("invalid_request", "choose how long the token is valid", "days")
    ends_at = web.logins.tokens.clock() + timedelta(days=int(days))
    return NewToken("api", name, scopes, ends_at)


def link_question(
    login: CliLogin, acts_as: str, action: str, hidden: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return the values of the page link_confirm.html for a CLI id."""
    return {
        "login": login,
        "acts_as": acts_as,
        "action": action,
        "hidden": hidden,
        "scopes": CLI_SCOPES,
        "grant_ends_at": login.requested_at + timedelta(days=CLI_LIFE_DAYS),
    }


def add_link_pages(router: APIRouter, web: Web) -> None:
    """The pages to link a CLI id."""

    @router.get(LINK)
    async def ask(request: Request) -> Response:
        """Ask for a CLI id."""
        return web.page(request, "link.html", await web.require_session(request, LINK))

    @router.post(LINK)
    async def preview(request: Request) -> Response:
        """Show who asked for this id, and ask for confirmation."""
        session, form = await web.require_form(request, LINK)
        cli_id, caller = form.text("cli_id"), session.caller
        try:
            login = await web.logins.cli_ids.preview(cli_id, caller.id)
        except Refused as refused:
            return web.page(request, "link.html", session, refused)
        values = link_question(login, caller.name, f"{LINK}/answer", [("cli_id", cli_id)])
        return web.page(request, "link_confirm.html", session, **values)

    @router.post(f"{LINK}/answer")
    async def answer(request: Request) -> Response:
        """Link the id, or leave it."""
        session, form = await web.require_form(request, LINK)
        is_linked = form.text("answer") == "yes"
        if is_linked:
            await web.logins.cli_ids.link(form.text("cli_id"), session.caller.id)
        return web.page(request, "linked.html", session, is_linked=is_linked)


def add_device_pages(router: APIRouter, web: Web) -> None:
    """The pages to approve a device."""

    async def confirm_page(request: Request, session: Session, code: str) -> Response:
        """Return the confirmation page of a device, or the form again if there is none."""
        try:
            login = await web.logins.devices.preview(code, session.caller)
        except Refused as refused:
            return web.page(request, "device.html", session, refused, user_code=code)
        code = format_code(normalize_code(code))
        return web.page(request, "device_confirm.html", session, login=login, user_code=code)

    @router.get(DEVICE)
    async def ask(request: Request) -> Response:
        """Ask for the code that a device shows."""
        session = await web.require_session(request, DEVICE)
        return web.page(request, "device.html", session, user_code="")

    @router.get(f"{DEVICE}/{{code}}")
    async def ask_about(request: Request, code: str) -> Response:
        """Confirm a device whose code is in the URL."""
        code = code[:CODE_LENGTH_MAX]
        session = await web.require_session(request, f"{DEVICE}/{code}")
        return await confirm_page(request, session, code)

    @router.post(DEVICE)
    async def preview(request: Request) -> Response:
        """Show the device with this code, and ask for confirmation."""
        session, form = await web.require_form(request, DEVICE)
        return await confirm_page(request, session, form.text("user_code")[:CODE_LENGTH_MAX])

    @router.post(f"{DEVICE}/answer")
    async def answer(request: Request) -> Response:
        """Approve or deny the device."""
        session, form = await web.require_form(request, DEVICE)
        is_let_in = form.text("answer") == "yes"
        await web.logins.devices.answer(form.text("user_code"), session.caller, is_let_in)
        return web.page(request, "connected.html", session, is_let_in=is_let_in)


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
    logins = web.logins

    @router.get("/auth/cli/{provider}")
    async def arrive(request: Request, provider: str, code: str = "", state: str = "") -> Response:
        """The provider's callback: ask whether to link the CLI id."""
        logins.login_attempts.take(f"cli {client_address(request)}")
        packed = unpack_state(state)
        user = await logins.oauth.fetch_user(provider, code)
        account = await logins.sign_in.with_provider(provider, user)
        login = await logins.cli_ids.preview(packed.cli_id, account)
        ticket = await logins.oauth.issue_ticket(provider, packed.cli_id, account)
        is_reset = "true" if packed.is_reset else "false"
        hidden = [("cli_id", packed.cli_id), ("is_reset", is_reset), ("ticket", ticket)]
        name = await logins.people.name_of(account)
        values = link_question(login, name, f"/auth/cli/{provider}", hidden)
        return web.page(request, "link_confirm.html", None, **values)

    @router.post("/auth/cli/{provider}")
    async def answer(request: Request, provider: str) -> Response:
        """Link the id, or leave it."""
        form = await web.form(request)
        cli_id = form.text("cli_id")
        account = await logins.oauth.redeem_ticket(provider, cli_id, form.text("ticket"))
        is_linked = form.text("answer") == "yes"
        if is_linked:
            await logins.cli_ids.link(cli_id, account)
        if "application/json" not in request.headers.get("accept", ""):
            return web.page(request, "linked.html", None, is_linked=is_linked)
        message = "the CLI id is now linked to your account" if is_linked else "nothing was linked"
        return JSONResponse(
            {
                "status": "ok" if is_linked else "declined",
                "message": message,
                "user_id": account,
                "user_name": await logins.people.name_of(account),
                "is_reset": form.text("is_reset") == "true",
            }
        )
