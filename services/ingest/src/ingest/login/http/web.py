"""What all pages have in common: templates, headers, forms, cookies, and errors as pages."""

import hmac
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ingest.domain.callers import check_scope, check_unlimited
from ingest.http.who import COOKIE, whence
from ingest.login.domain import SESSION_S
from ingest.login.http import words
from ingest.login.service import Logins
from ingest.login.service.secret import drawn
from ingest.login.service.sessions import Session
from ingest.service.tokens import csrf
from shared.codes import STATUS
from shared.errors import Failed, Refused

FORM_COOKIE, STATE_COOKIE = "warpboard_form", "warpboard_login"
STATE_S = 600
FORM_BYTES_MAX = 16 * 1024
FORM_FIELDS_MAX = 40
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


_log = logging.getLogger(__name__)


class NotLoggedIn(Exception):  # noqa: N818
    """A page is for those alone who are logged in; `next_path` is where to go on after."""

    def __init__(self, next_path: str) -> None:
        super().__init__(next_path)
        self.next_path = next_path


@dataclass(frozen=True)
class Form:
    """What a form said; of a field that came several times, all."""

    fields: dict[str, list[str]]

    def one(self, name: str) -> str:
        """The text of a field, trimmed; "" if it is not there."""
        return self.fields.get(name, [""])[0].strip()

    def raw(self, name: str) -> str:
        """The text of a field as it was typed, for passwords."""
        return self.fields.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        """The texts of a field that may come several times."""
        return self.fields.get(name, [])


class Web:
    """Makes pages, and reads forms and cookies."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins
        self.style = (files("ingest.login") / "static" / "login.css").read_text(encoding="utf-8")
        self._is_secure = urlsplit(logins.public_url).hostname not in LOCAL_HOSTS
        self._templates = Environment(
            loader=PackageLoader("ingest.login"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )
        self._templates.globals.update(
            in_words=words.in_words,
            is_grave=words.is_grave,
            instant=words.instant,
            day=words.day,
            title_of=words.title_of,
            providers=[(name, one.title) for name, one in logins.journeys.providers.items()],
            is_signup_on=logins.arrivals.is_signup_on,
        )

    async def session(self, request: Request) -> Session | None:
        """Who is logged in with this browser. Errors: Failed."""
        return await self.logins.sessions.find(request.cookies.get(COOKIE, ""))

    async def person(self, request: Request, next_path: str, scope: str = "account") -> Session:
        """Who is logged in and may do this. Errors: NotLoggedIn; Refused; Failed."""
        found = await self.session(request)
        if found is None:
            raise NotLoggedIn(next_path)
        check_scope(found.caller, scope)
        check_unlimited(found.caller)
        return found

    def page(
        self, request: Request, template: str, session: Session | None, **values: Any
    ) -> Response:
        """A page, with what its forms must send back; `status` is 200 unless it is given."""
        seed = session.secret if session else request.cookies.get(FORM_COOKIE) or drawn()
        token = csrf(seed)
        field = Markup('<input type="hidden" name="csrf" value="{}">').format(token)
        person = session.caller.name if session else ""
        shown = {"person": person, "error": "", "notice": "", "csrf": token if session else ""}
        text = self._templates.get_template(template).render(
            shown | values, csrf_field=lambda: field
        )
        answer = HTMLResponse(text, values.get("status", 200), HEADERS)
        if session is None:
            self.bake(answer, FORM_COOKIE, seed, SESSION_S)
        return answer

    async def form(self, request: Request, session: Session | None = None) -> Form:
        """What a form of ours said. Errors: Refused if it is another site's, or too large."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > FORM_BYTES_MAX:
                raise Refused("request_too_large", "this form is too large")
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX)
        except ValueError as error:
            raise Refused("invalid_request", "this is no form of ours") from error
        form = Form({})
        for name, value in pairs:
            form.fields.setdefault(name, []).append(value)
        seed = session.secret if session else request.cookies.get(FORM_COOKIE, "")
        given = form.one("csrf").encode()
        if not seed or not hmac.compare_digest(given, csrf(seed).encode()):
            raise Refused("bad_csrf", "this page was too old: go back, load it again, and send")
        return form

    def go(self, path: str, cookie: tuple[str, str, int] | None = None) -> Response:
        """On to another page of ours, or to a provider; `cookie` is a name, a text, a life."""
        answer = RedirectResponse(path, 303, HEADERS)
        if cookie:
            self.bake(answer, *cookie)
        return answer

    def log_in(self, path: str, secret: str) -> Response:
        """On, as somebody who is logged in."""
        answer = self.go(path, (COOKIE, secret, SESSION_S))
        self.clear(answer, FORM_COOKIE, STATE_COOKIE)
        return answer

    def bake(self, answer: Response, name: str, value: str, life_s: int) -> None:
        """Set a cookie that no script and no other site's form gets."""
        answer.set_cookie(
            name, value, life_s, httponly=True, samesite="lax", secure=self._is_secure
        )

    def clear(self, answer: Response, *names: str) -> None:
        """Let the browser forget cookies."""
        for name in names:
            answer.delete_cookie(name, httponly=True, samesite="lax", secure=self._is_secure)


async def leave(
    request: Request, web: Web, provider: str, next_path: str, session: Session | None
) -> Response:
    """Send a browser to another provider; who is logged in comes back with one more identity.

    Errors: Refused; Failed.
    """
    web.logins.begun.take(f"leave {whence(request)}")
    account = session.caller.id if session else None
    left = await web.logins.journeys.leave(provider, next_path, account)
    return web.go(left.address, (STATE_COOKIE, left.cookie, STATE_S))


def route_class(web: Web) -> type[APIRoute]:
    """Routes whose errors are pages too."""

    class Page(APIRoute):
        """A route of people's."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """The handler, with errors as pages."""
            handler = super().get_route_handler()

            async def answered(request: Request) -> Response:
                try:
                    return await handler(request)
                except NotLoggedIn as stranger:
                    return web.go(f"/login?next={stranger.next_path}")
                except Refused as refused:
                    status = STATUS.get(refused.code, 400)
                    return _error(web, request, status, refused.reason)
                except Failed as failed:
                    _log.warning("a page of logins failed: %s", failed)
                    what = "something behind this page does not answer: try again in a minute"
                    return _error(web, request, 503, what)

            return answered

    return Page


def _error(web: Web, request: Request, status: int, what: str) -> Response:
    values = {"heading": "That did not work", "lines": (), "onward": ("/account", "Go on")}
    answer = web.page(request, "said.html", None, status=status, error=what, **values)
    if status in (429, 503):
        answer.headers["Retry-After"] = "60"
    return answer
