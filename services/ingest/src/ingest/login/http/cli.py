"""The end of a login that a client of one's own OAuth application began: a question, then a link.

Source: http-api.md, section 7. The client chose the state, so nothing here is believed but the
provider's word; the question is what keeps a stranger's id from being linked by a mere visit.
"""

import base64

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ingest.http.who import whence
from ingest.login.domain import CLI_ID
from ingest.login.http.link import linked, question
from ingest.login.http.web import Web
from shared.errors import Refused

STATE_LENGTH_MAX = 1024


class State(msgspec.Struct):
    """What the client packed into its state."""

    cli_id: str
    is_reset: bool = False


def unpacked(text: str) -> State:
    """A state as the client packs it: unpadded base64url of JSON. Errors: Refused.

    >>> unpacked("eyJjbGlfaWQiOiJhYmNkZWZnaGlqa2xtbm9wIiwiaXNfcmVzZXQiOmZhbHNlfQ")
    State(cli_id='abcdefghijklmnop', is_reset=False)
    """
    try:
        raw = base64.urlsafe_b64decode(text[:STATE_LENGTH_MAX].encode() + b"==")
        state = msgspec.json.decode(raw, type=State)
    except (ValueError, msgspec.DecodeError) as error:
        raise Refused("invalid_request", "the state is not what our client sends") from error
    if not CLI_ID.match(state.cli_id):
        raise Refused("unknown_cli_id", "this CLI id is not known here", "state")
    return state


def cli(router: APIRouter, web: Web) -> None:
    """The routes."""

    @router.get("/auth/cli/{provider}")
    async def arrive(request: Request, provider: str, code: str = "", state: str = "") -> Response:
        """Who came back; ask whether they started this."""
        web.logins.begun.take(f"cli {whence(request)}")
        packed = unpacked(state)
        stranger = await web.logins.journeys.vouched(provider, code)
        account = await web.logins.arrivals.by_stranger(provider, stranger)
        found = await web.logins.cli_ids.preview(packed.cli_id, account)
        ticket = await web.logins.journeys.ask(provider, packed.cli_id, account)
        hidden = [
            ("cli_id", packed.cli_id),
            ("is_reset", "true" if packed.is_reset else "false"),
            ("ticket", ticket),
        ]
        name = await web.logins.people.name_of(account)
        asked = question(found, name, f"/auth/cli/{provider}", hidden)
        return web.page(request, "link_confirm.html", None, **asked)

    @router.post("/auth/cli/{provider}")
    async def answer(request: Request, provider: str) -> Response:
        """Link the id, or leave it."""
        form = await web.form(request)
        cli_id = form.one("cli_id")
        account = await web.logins.journeys.answered(provider, cli_id, form.one("ticket"))
        is_linked = form.one("answer") == "yes"
        if is_linked:
            await web.logins.cli_ids.link(cli_id, account)
        if "application/json" not in request.headers.get("accept", ""):
            return linked(request, web, None, is_linked)
        return JSONResponse(
            {
                "status": "ok" if is_linked else "declined",
                "message": "the CLI id acts for you now" if is_linked else "nothing was linked",
                "user_id": account,
                "user_name": await web.logins.people.name_of(account),
                "is_reset": form.one("is_reset") == "true",
            }
        )
