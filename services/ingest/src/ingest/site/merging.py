"""The page on which a participant merges two accounts of theirs, or undoes it."""

from fastapi import APIRouter, FastAPI, Request, Response

from ingest.http.requests import NameOrAccount
from ingest.identity.login.service import Session
from ingest.identity.login.web import Web, route_class
from ingest.merges.routes import CODE_LENGTH_MAX
from ingest.merges.service import Merges
from shared.api.accounts import MergeCode
from shared.errors import Refused

MERGE = "/account/merge"


def add_merge_pages(app: FastAPI, web: Web, merges: Merges) -> None:
    """Add the routes of the page."""
    router = APIRouter(route_class=route_class(web), include_in_schema=False)
    _add_code(router, web, merges)
    _add_answer(router, web, merges)

    @router.post(f"{MERGE}/{{name}}/undo")
    async def undo(request: Request, name: NameOrAccount) -> Response:
        """Make an account its own again."""
        session, _ = await web.require_form(request, MERGE)
        try:
            await merges.undo(name, session.caller)
        except Refused as refused:
            return await _merge_page(request, web, merges, session, refused)
        return web.redirect(MERGE, "The accounts are separate again.")

    app.include_router(router)


def _add_code(router: APIRouter, web: Web, merges: Merges) -> None:
    @router.get(MERGE)
    async def overview(request: Request) -> Response:
        """The accounts that are part of this one, and how to merge another."""
        session = await web.require_session(request, MERGE)
        return await _merge_page(request, web, merges, session)

    @router.post(f"{MERGE}/code")
    async def offer(request: Request) -> Response:
        """Create a code and show it, once."""
        session, _ = await web.require_form(request, MERGE)
        try:
            offered = await merges.offer(session.caller)
        except Refused as refused:
            return await _merge_page(request, web, merges, session, refused)
        return await _merge_page(request, web, merges, session, offered)


def _add_answer(router: APIRouter, web: Web, merges: Merges) -> None:
    @router.post(MERGE)
    async def preview(request: Request) -> Response:
        """Show what a code would merge, and ask for confirmation."""
        session, form = await web.require_form(request, MERGE)
        code = form.text("code")[:CODE_LENGTH_MAX]
        try:
            question = await merges.preview(code, session.caller)
        except Refused as refused:
            return await _merge_page(request, web, merges, session, refused)
        return web.page(request, "merge_confirm.html", session, question=question, code=code)

    @router.post(f"{MERGE}/answer")
    async def answer(request: Request) -> Response:
        """Merge the account that made the code into this one, or leave it."""
        session, form = await web.require_form(request, MERGE)
        if form.text("answer") != "yes":
            return web.redirect(MERGE)
        try:
            merge = await merges.accept(form.text("code")[:CODE_LENGTH_MAX], session.caller)
        except Refused as refused:
            return await _merge_page(request, web, merges, session, refused)
        return web.redirect(MERGE, f"{merge.participant} is now part of this account.")


async def _merge_page(
    request: Request,
    web: Web,
    merges: Merges,
    session: Session,
    result: Refused | MergeCode | None = None,
) -> Response:
    """Return the page, with the code that was made or the reason of a refusal."""
    error = result if isinstance(result, Refused) else None
    values = {
        "merges": await merges.list_merges(session.caller.id),
        "offered": None if error else result,
    }
    return web.page(request, "merge.html", session, error, **values)
