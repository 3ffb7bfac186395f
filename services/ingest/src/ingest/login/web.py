"""What all login pages share: templates, texts, headers, forms, cookies and error pages."""

import hmac
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ingest.access.callers import check_scope, check_unlimited
from ingest.accounts.tokens import csrf_token
from ingest.http.auth import COOKIE, client_address
from ingest.login.rules import SESSION_S
from ingest.login.secrets import new_secret
from ingest.login.service import Logins, Session
from shared.errors import STATUS_BY_CODE, Failed, Refused

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

SCOPE_WORDS = {
    "submit": "submit tests and benchmarks",
    "submit:ranked": "submit for the leaderboards",
    "profile": "profile kernels",
    "read:own": "read what you submitted",
    "delete:own": "withdraw and delete what you submitted",
    "join": "join closed leaderboards with an invite",
    "account": "manage your account and its tokens",
    "webhooks": "manage your webhooks",
    "author": "publish problems as you",
    "admin:submissions": "moderate everybody's submissions",
    "admin:participants": "ban participants and change their quotas",
    "admin:problems": "change everybody's problems and leaderboards",
    "admin:operate": "operate the platform",
    "admin": "do everything an operator can",
}
TITLES = {"web": "Name and password", "github": "GitHub", "discord": "Discord"}
# Scopes that give so many rights that they are shown in red.
GRAVE = frozenset(
    (
        *("account", "admin", "admin:submissions"),
        *("admin:participants", "admin:problems", "admin:operate"),
    )
)


class NotLoggedIn(Exception):  # noqa: N818
    """A page needs a login; `next_path` is the page to open afterwards."""

    def __init__(self, next_path: str) -> None:
        super().__init__(next_path)
        self.next_path = next_path


@dataclass(frozen=True)
class Form:
    """The fields of a form; a repeated field has several values."""

    fields: dict[str, list[str]]

    def text(self, name: str) -> str:
        """Return the text of a field, trimmed; "" if it is missing."""
        return self.fields.get(name, [""])[0].strip()

    def raw(self, name: str) -> str:
        """Return the text of a field as it was typed, for passwords."""
        return self.fields.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self.fields.get(name, [])


class Web:
    """Renders pages, and reads forms and cookies."""

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
            in_words=lambda scope: SCOPE_WORDS.get(scope, scope),
            is_grave=GRAVE.__contains__,
            instant=instant,
            day=day,
            title_of=lambda provider: TITLES.get(provider, provider),
            providers=[(name, provider.title) for name, provider in logins.oauth.providers.items()],
            is_signup_on=logins.sign_in.is_signup_on,
        )

    async def session(self, request: Request) -> Session | None:
        """Return the session of this browser, or None. Raises `Failed`."""
        return await self.logins.sessions.find(request.cookies.get(COOKIE, ""))

    async def require_session(
        self, request: Request, next_path: str, scope: str = "account"
    ) -> Session:
        """Return the session if it has this scope. Raises `NotLoggedIn`, `Refused` and `Failed`."""
        session = await self.session(request)
        if session is None:
            raise NotLoggedIn(next_path)
        check_scope(session.caller, scope)
        check_unlimited(session.caller)
        return session

    def page(
        self, request: Request, template: str, session: Session | None, **values: Any
    ) -> Response:
        """Render a page with its form token; `status` is 200 unless it is in `values`."""
        seed = session.secret if session else request.cookies.get(FORM_COOKIE) or new_secret()
        token = csrf_token(seed)
        field = Markup('<input type="hidden" name="csrf" value="{}">').format(token)
        person = session.caller.name if session else ""
        common_values = {
            "person": person,
            "error": "",
            "notice": "",
            "csrf": token if session else "",
        }
        text = self._templates.get_template(template).render(
            common_values | values, csrf_field=lambda: field
        )
        response = HTMLResponse(text, values.get("status", 200), HEADERS)
        if session is None:
            self.set_cookie(response, FORM_COOKIE, seed, SESSION_S)
        return response

    async def form(self, request: Request, session: Session | None = None) -> Form:
        """Return one of our forms. Raises `Refused` if it is from another site or too large."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > FORM_BYTES_MAX:
                raise Refused("request_too_large", "this form is too large")
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX)
        except ValueError as error:
            raise Refused("invalid_request", "this form cannot be read") from error
        form = Form({})
        for name, value in pairs:
            form.fields.setdefault(name, []).append(value)
        seed = session.secret if session else request.cookies.get(FORM_COOKIE, "")
        sent_token = form.text("csrf").encode()
        if not seed or not hmac.compare_digest(sent_token, csrf_token(seed).encode()):
            raise Refused("bad_csrf", "this page was out of date: go back, reload it and try again")
        return form

    def redirect(self, path: str, cookie: tuple[str, str, int] | None = None) -> Response:
        """Redirect to a page or a provider; `cookie` is a name, a value and a lifetime."""
        response = RedirectResponse(path, 303, HEADERS)
        if cookie:
            self.set_cookie(response, *cookie)
        return response

    def log_in(self, path: str, secret: str) -> Response:
        """Redirect with a new session cookie."""
        response = self.redirect(path, (COOKIE, secret, SESSION_S))
        self.clear(response, FORM_COOKIE, STATE_COOKIE)
        return response

    def set_cookie(self, response: Response, name: str, value: str, life_s: int) -> None:
        """Set a cookie that scripts and forms of other sites cannot use."""
        response.set_cookie(
            name, value, life_s, httponly=True, samesite="lax", secure=self._is_secure
        )

    def clear(self, response: Response, *names: str) -> None:
        """Delete cookies."""
        for name in names:
            response.delete_cookie(name, httponly=True, samesite="lax", secure=self._is_secure)


async def redirect_to_provider(
    request: Request, web: Web, provider: str, next_path: str, session: Session | None
) -> Response:
    """Redirect the browser to a provider; a logged-in participant links an identity.

    Raises `Refused` and `Failed`.
    """
    web.logins.login_attempts.take(f"leave {client_address(request)}")
    account = session.caller.id if session else None
    redirect = await web.logins.oauth.start(provider, next_path, account)
    return web.redirect(redirect.address, (STATE_COOKIE, redirect.cookie, STATE_S))


def route_class(web: Web) -> type[APIRoute]:
    """Return a route class whose errors are rendered as pages."""

    class Page(APIRoute):
        """A route that renders a page."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Return the handler, with errors as pages."""
            handler = super().get_route_handler()

            async def handle(request: Request) -> Response:
                try:
                    return await handler(request)
                except NotLoggedIn as redirect:
                    return web.redirect(f"/login?next={redirect.next_path}")
                except Refused as refused:
                    status = STATUS_BY_CODE.get(refused.code, 400)
                    return _error_page(web, request, status, refused.reason)
                except Failed as failed:
                    _log.warning("a login page failed: %s", failed)
                    message = "a service behind this page does not respond: try again in a minute"
                    return _error_page(web, request, 503, message)

            return handle

    return Page


def _error_page(web: Web, request: Request, status: int, message: str) -> Response:
    values = {"heading": "Something went wrong", "lines": (), "onward": ("/account", "Continue")}
    response = web.page(request, "said.html", None, status=status, error=message, **values)
    if status in (429, 503):
        response.headers["Retry-After"] = "60"
    return response


def instant(at: datetime) -> str:
    """Return a time as pages show it.

    >>> instant(datetime.fromisoformat("2026-01-02T03:04:05+00:00"))
    '2026-01-02 03:04 UTC'
    """
    return f"{at:%Y-%m-%d %H:%M} UTC"


def day(at: datetime) -> str:
    """Return the day of a time.

    >>> day(datetime.fromisoformat("2026-01-02T03:04:05+00:00"))
    '2026-01-02'
    """
    return f"{at:%Y-%m-%d}"
