"""Pages to link a CLI id and to approve a device.

A third-party client may start an OAuth login itself (http-api.md, section 7). It chose the state,
so only the provider is trusted; the confirmation keeps a mere visit from linking an attacker's id.
"""

import base64
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ingest.accounts.tokens import CLI_LIFE_DAYS, CLI_SCOPES
from ingest.http.auth import client_address
from ingest.login.rules import CLI_ID, CliLogin, format_code, normalize_code
from ingest.login.service import Session
from ingest.login.web import Web
from shared.errors import STATUS_BY_CODE, Refused

LINK_PAGE = "/link"
Hidden = Sequence[tuple[str, str]]

DEVICE_PAGE = "/device"
CODE_LENGTH_MAX = 20

STATE_LENGTH_MAX = 1024


def add_link_pages(router: APIRouter, web: Web) -> None:
    """The routes."""
    _ask_for_id(router, web)
    _answer_link(router, web)


def link_question(login: CliLogin, acts_as: str, action: str, hidden: Hidden) -> dict[str, Any]:
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


def _ask_for_id(router: APIRouter, web: Web) -> None:
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


def _answer_link(router: APIRouter, web: Web) -> None:
    @router.post(f"{LINK_PAGE}/answer")
    async def answer(request: Request) -> Response:
        """Link the id, or leave it."""
        session = await web.require_session(request, LINK_PAGE)
        form = await web.form(request, session)
        is_linked = form.text("answer") == "yes"
        if is_linked:
            await web.logins.cli_ids.link(form.text("cli_id"), session.caller.id)
        return linked_page(request, web, session, is_linked)


def add_device_pages(router: APIRouter, web: Web) -> None:
    """The routes."""
    _ask_for_code(router, web)
    _answer_device(router, web)


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


def _ask_for_code(router: APIRouter, web: Web) -> None:
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


def _answer_device(router: APIRouter, web: Web) -> None:
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
    """The routes."""

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
