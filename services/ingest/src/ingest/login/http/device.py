"""Letting a device act for somebody: the code that it shows, and a question."""

from typing import Any

from fastapi import APIRouter, Request, Response

from ingest.login.domain import plain_code, shown_code
from ingest.login.http.web import Web
from ingest.login.service.sessions import Session
from shared.codes import STATUS
from shared.errors import Refused

PAGE = "/device"
CODE_LENGTH_MAX = 20


def device(router: APIRouter, web: Web) -> None:
    """The routes."""
    _ask(router, web)
    _answer(router, web)


async def _previewed(request: Request, web: Web, session: Session, code: str) -> Response:
    """The question about a device; or its form again, if there is no such device."""
    try:
        login = await web.logins.devices.preview(code, session.caller)
    except Refused as refused:
        status = STATUS.get(refused.code, 400)
        said = {"user_code": code, "status": status, "error": refused.reason}
        return web.page(request, "device.html", session, **said)
    values: dict[str, Any] = {
        "login": login,
        "user_code": shown_code(plain_code(code)),
        "acts_as": session.caller.name,
        "grant_ends_at": login.grant_ends_at,
    }
    return web.page(request, "device_confirm.html", session, **values)


def _ask(router: APIRouter, web: Web) -> None:
    @router.get(PAGE)
    async def ask(request: Request) -> Response:
        """Ask for the code that a device shows."""
        session = await web.person(request, PAGE)
        return web.page(request, "device.html", session, user_code="")

    @router.get(f"{PAGE}/{{code}}")
    async def ask_about(request: Request, code: str) -> Response:
        """Ask about a device whose code came in the address."""
        session = await web.person(request, f"{PAGE}/{code[:CODE_LENGTH_MAX]}")
        return await _previewed(request, web, session, code[:CODE_LENGTH_MAX])

    @router.post(PAGE)
    async def entered(request: Request) -> Response:
        """Show which device shows this code, and ask whether to let it in."""
        session = await web.person(request, PAGE)
        form = await web.form(request, session)
        return await _previewed(request, web, session, form.one("user_code")[:CODE_LENGTH_MAX])


def _answer(router: APIRouter, web: Web) -> None:
    @router.post(f"{PAGE}/answer")
    async def answer(request: Request) -> Response:
        """Let the device in, or turn it away."""
        session = await web.person(request, PAGE)
        form = await web.form(request, session)
        is_let_in = form.one("answer") == "yes"
        await web.logins.devices.answer(form.one("user_code"), session.caller, is_let_in)
        lines = (
            ["The device is connected: go back to it. You may close this page."]
            if is_let_in
            else ["The device was turned away. Nothing acts for you that did not before."]
        )
        values = {"heading": "Connected" if is_let_in else "Turned away", "lines": lines}
        onward = ("/account", "Your tokens")
        return web.page(request, "said.html", session, onward=onward, **values)
