"""Linking a CLI id: paste it, and answer a question."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Request, Response

from ingest.login.domain import CliLogin
from ingest.login.http.web import Web
from ingest.login.service.sessions import Session
from ingest.service.linking import LIFE_DAYS, SCOPES
from shared.codes import STATUS
from shared.errors import Refused

PAGE = "/link"
Hidden = Sequence[tuple[str, str]]


def link(router: APIRouter, web: Web) -> None:
    """The routes."""
    _ask(router, web)
    _answer(router, web)


def question(login: CliLogin, acts_as: str, action: str, hidden: Hidden) -> dict[str, Any]:
    """What the page link_confirm.html shows of a CLI id, and sends back."""
    ends = login.requested_at + timedelta(days=LIFE_DAYS)
    return {
        "login": login,
        "acts_as": acts_as,
        "action": action,
        "hidden": hidden,
        "scopes": SCOPES,
        "grant_ends_at": ends,
    }


def linked(request: Request, web: Web, session: Session | None, is_linked: bool) -> Response:
    """What is said once the question was answered."""
    lines = (
        ["The CLI id acts for you now: go on in your terminal."]
        if is_linked
        else ["Nothing was linked. The id is worth nothing, and is forgotten in a few minutes."]
    )
    heading, onward = "Linked" if is_linked else "Not linked", ("/account", "Your tokens")
    values = {"heading": heading, "lines": lines, "onward": onward}
    return web.page(request, "said.html", session, **values)


def _ask(router: APIRouter, web: Web) -> None:
    @router.get(PAGE)
    async def ask(request: Request) -> Response:
        """Ask for a CLI id."""
        session = await web.person(request, PAGE)
        return web.page(request, "link.html", session)

    @router.post(PAGE)
    async def pasted(request: Request) -> Response:
        """Show who asked for this id, and ask whether to link it."""
        session = await web.person(request, PAGE)
        cli_id = (await web.form(request, session)).one("cli_id")
        try:
            found = await web.logins.cli_ids.preview(cli_id, session.caller.id)
        except Refused as refused:
            status = STATUS.get(refused.code, 400)
            return web.page(request, "link.html", session, status=status, error=refused.reason)
        asked = question(found, session.caller.name, f"{PAGE}/answer", [("cli_id", cli_id)])
        return web.page(request, "link_confirm.html", session, **asked)


def _answer(router: APIRouter, web: Web) -> None:
    @router.post(f"{PAGE}/answer")
    async def answer(request: Request) -> Response:
        """Link the id, or leave it."""
        session = await web.person(request, PAGE)
        form = await web.form(request, session)
        is_linked = form.one("answer") == "yes"
        if is_linked:
            await web.logins.cli_ids.link(form.one("cli_id"), session.caller.id)
        return linked(request, web, session, is_linked)
