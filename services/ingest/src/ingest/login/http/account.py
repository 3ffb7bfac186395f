"""One's own account: tokens, and the ways to log in."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Path, Request, Response

from ingest.login.http.web import Form, Web, leave
from ingest.login.service.sessions import Session
from ingest.service.linking import SCOPES as USUAL_SCOPES
from ingest.service.tokens import Listed, NewToken
from shared.codes import STATUS
from shared.errors import Refused
from shared.events import SCOPES

PAGE = "/account"
DAYS = (7, 30, 90, 365)
NAME_LENGTH_MAX = 64
NumberInPath = Annotated[int, Path(ge=1)]
IdInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Row(NamedTuple):
    """A token as the page shows it; `is_all` says that it may all that its owner may."""

    id: int
    name: str
    prefix: str
    scopes: Sequence[str]
    problems: Sequence[str]
    is_all: bool
    is_this: bool
    last_used_at: datetime | None
    expires_at: datetime | None


def account(router: APIRouter, web: Web) -> None:
    """The routes."""

    @router.get(PAGE)
    async def overview(request: Request) -> Response:
        """Everything about one's own account."""
        session = await web.person(request, PAGE)
        return await _shown(request, web, session)

    _tokens(router, web)
    _identities(router, web)


def _row(one: Listed, session: Session, at: datetime) -> Row:
    token, row, caller = one.token, one.row, session.caller
    is_this = token.id == caller.token
    return Row(
        id=token.number,
        name=row.name,
        prefix=row.prefix,
        scopes=token.scopes,
        problems=token.problems,
        is_all=not token.problems and set(token.scopes) >= caller.scopes,
        is_this=is_this,
        # Its use now is written down in a minute.
        last_used_at=at if is_this else row.last_used_at,
        expires_at=token.expires_at,
    )


async def _shown(request: Request, web: Web, session: Session, **more: Any) -> Response:
    mine = session.caller.id
    at = web.logins.sessions.clock()
    held = [one for one in await web.logins.tokens.listed(mine) if one.token.is_live(at)]
    values = {
        "tokens": [_row(one, session, at) for one in reversed(held)],
        "identities": await web.logins.people.identities(mine),
        "scopes": [scope for scope in SCOPES if scope in session.caller.scopes],
        "chosen": USUAL_SCOPES,
        "days_offered": DAYS,
        "token_name": "",
        "form_open": False,
        "secret": "",
        "secret_name": "",
    }
    return web.page(request, "account.html", session, **(values | more))


def _wanted(form: Form, at: datetime) -> NewToken:
    """The token that the form asks for. Errors: Refused."""
    name, scopes, days = form.one("name"), form.all("scope"), form.one("days")
    if not name or len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise Refused("invalid_request", f"a name has 1 to {NAME_LENGTH_MAX} characters", "name")
    if not scopes:
        raise Refused("invalid_request", "choose what the token may do", "scope")
    if days not in map(str, DAYS):
        raise Refused("invalid_request", "choose for how long the token is good", "days")
    return NewToken("api", name, scopes, at + timedelta(days=int(days)))


def _tokens(router: APIRouter, web: Web) -> None:
    @router.post(f"{PAGE}/tokens")
    async def make(request: Request) -> Response:
        """Make a token and show it, once."""
        session = await web.person(request, PAGE)
        form = await web.form(request, session)
        try:
            new = _wanted(form, web.logins.sessions.clock())
            issued = await web.logins.tokens.mint(session.caller, new)
        except Refused as refused:
            kept = {"token_name": form.one("name")[:NAME_LENGTH_MAX], "chosen": form.all("scope")}
            said = {"status": STATUS.get(refused.code, 400), "error": refused.reason}
            return await _shown(request, web, session, form_open=True, **said, **kept)
        return await _shown(request, web, session, secret=issued.secret, secret_name=new.name)

    @router.post(f"{PAGE}/tokens/{{number}}/revoke")
    async def revoke(request: Request, number: NumberInPath) -> Response:
        """Let a token act for nobody any more."""
        session = await web.person(request, PAGE)
        await web.form(request, session)
        mine, actor = session.caller.id, session.caller.actor
        await web.logins.tokens.revoke(mine, number, "revoked on the account's page", actor)
        return web.go(PAGE)


def _identities(router: APIRouter, web: Web) -> None:
    @router.get(f"{PAGE}/link/{{provider}}")
    async def link(request: Request, provider: str) -> Response:
        """Go to another provider, and come back known there too."""
        web.logins.journeys.provider(provider)
        session = await web.person(request, f"{PAGE}/link/{provider}")
        return await leave(request, web, provider, PAGE, session)

    @router.post(f"{PAGE}/identities/{{identity}}/unlink")
    async def unlink(request: Request, identity: IdInPath) -> Response:
        """Let another provider vouch for this participant no longer, unless it is the last."""
        session = await web.person(request, PAGE)
        await web.form(request, session)
        mine, actor = session.caller.id, session.caller.actor
        if len(await web.logins.people.identities(mine)) < 2:
            raise Refused("wrong_state", "this is your only way to log in: link another one first")
        why = "unlinked on the account's page"
        await web.logins.people.unlink(mine, identity, why, actor)
        return web.go(PAGE)
