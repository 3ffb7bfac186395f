"""What all pages share: templates, headers, forms, cookies and error pages."""

import hashlib
import hmac
import logging
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, quote, unquote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel, ValidationError

from ingest.http.addresses import client_address
from ingest.http.cookies import SESSION_COOKIE, site_cookies
from ingest.http.middleware import ANONYMOUS_BYTES_MAX, JSON_BYTES_MAX
from ingest.identity.caller import check_scope, check_unlimited
from ingest.identity.login.attempts import DEVICE_S
from ingest.identity.login.rules import SESSION_S
from ingest.identity.login.service import Logins, Session
from ingest.identity.secrets import csrf_token, new_secret
from shared.errors import STATUS_BY_CODE, Failed, Refused

FORM_COOKIE, STATE_COOKIE = "warpboard_form", "warpboard_login"
DEVICE_COOKIE = "warpboard_device"
STATE_S = 600
# A message for the next page, after a form was carried out.
NOTICE_COOKIE = "warpboard_notice"
NOTICE_S = 60
FORM_FIELDS_MAX = 40
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Of pages with scripts, which follow a stream of events or send a form.
SCRIPT_POLICY = f"{POLICY}; script-src 'self'; connect-src 'self'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# A browser asks each time, and gets 304 if it has the page.
REVALIDATED = "private, no-cache"
ETAG_CHARS = 22
TITLES_BY_STATUS = {
    401: "Log in first",
    403: "No access",
    404: "Not found",
    429: "Too many requests",
    503: "Not available at the moment",
}

_log = logging.getLogger(__name__)
Model = TypeVar("Model", bound=BaseModel)


def make_etag(data: bytes) -> str:
    """Return the ETag of a body."""
    return f'"{hashlib.sha256(data).hexdigest()[:ETAG_CHARS]}"'


class NotLoggedIn(Exception):  # noqa: N818
    """A page needs a login; `next_path` is the page to open afterwards."""

    def __init__(self, next_path: str) -> None:
        super().__init__(next_path)
        self.next_path = next_path


class Form(NamedTuple):
    """The fields of a form; a repeated field has several values."""

    fields: Mapping[str, Sequence[str]]

    def text(self, name: str) -> str:
        """Return the text of a field, trimmed; "" if it is missing."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """Return the text of a field as it was typed, for passwords."""
        return self.all(name)[0] if name in self.fields else ""

    def all(self, name: str) -> Sequence[str]:
        """Return all values of a field."""
        return self.fields.get(name, [])


def parse_form(
    model: type[Model], hints: Mapping[str, str] | None = None, /, **fields: object
) -> Model:
    """Return a form as the request that a program would send.

    Raises `Refused` for the first wrong field, with the hint for that field if there is one.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = str(first["loc"][0]) if first["loc"] else ""
        message = (hints or {}).get(field) or f"{field}: {first['msg']}"
        raise Refused("invalid_request", message, field or None) from error


def describe_error(error: Refused | Failed) -> tuple[int, str]:
    """Return the status of a page that shows an error, and its message."""
    if isinstance(error, Refused):
        return STATUS_BY_CODE.get(error.code, 400), error.reason
    return 503, "a service behind this page does not respond: try again in a minute"


def set_retry_after(response: Response, error: Refused | Failed | None) -> None:
    """Say in a header when to try again, if a refusal does."""
    if isinstance(error, Refused) and error.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Return the body of a request. Raises `Refused` if it is too large."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > bytes_max:
            raise Refused("request_too_large", f"the body has more than {bytes_max:,} bytes")
    return body


class Web:
    """Renders pages, and reads forms and cookies."""

    def __init__(self, logins: Logins) -> None:
        self.logins = logins
        self.cookies = site_cookies(logins.public_url)
        self.templates = Environment(
            loader=PackageLoader("ingest", "site/templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )
        static = files("ingest").joinpath("site/static")

        def static_path(name: str) -> str:
            """Return the path of a file; browsers that have another version load this one."""
            digest = hashlib.sha256(static.joinpath(name).read_bytes()).hexdigest()
            return f"/static/{name}?v={digest[:8]}"

        self.templates.globals.update(
            providers=logins.oauth.providers,
            is_signup_on=logins.sign_in.is_signup_on,
            public_url=logins.public_url,
            static_path=cache(static_path),
        )

    async def session(self, request: Request) -> Session | None:
        """Return the session of this browser, or None. Raises `Failed`."""
        return await self.logins.sessions.find(self.cookies.read(request, SESSION_COOKIE))

    async def require_session(self, request: Request, next_path: str) -> Session:
        """Return the session. Raises `NotLoggedIn`, `Refused` and `Failed`."""
        session = await self.session(request)
        if session is None:
            raise NotLoggedIn(next_path)
        check_scope(session.caller, "account")
        check_unlimited(session.caller)
        return session

    async def require_form(self, request: Request, next_path: str) -> tuple[Session, Form]:
        """Return the session, and the form that it sent. Raises as `require_session`."""
        session = await self.require_session(request, next_path)
        return session, await self.form(request, session)

    async def form(self, request: Request, session: Session | None = None) -> Form:
        """Return one of our forms. Raises `Refused` if it is from another site or too large."""
        body = await read_body(request, JSON_BYTES_MAX if session else ANONYMOUS_BYTES_MAX)
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS_MAX)
        except ValueError as error:
            raise Refused("invalid_request", "this form cannot be read") from error
        form = Form(fields)
        if not self.is_own_form(request, session, form.text("csrf")):
            raise Refused("bad_csrf", "this page was out of date: go back, reload it and try again")
        return form

    def is_own_form(self, request: Request, session: Session | None, sent_token: str) -> bool:
        """Return whether a form comes from a page that this browser loaded in this session."""
        seed = session.secret if session else self.cookies.read(request, FORM_COOKIE)
        return bool(seed) and hmac.compare_digest(sent_token.encode(), csrf_token(seed).encode())

    def page(
        self,
        request: Request,
        template: str,
        session: Session | None,
        error: Refused | Failed | None = None,
        **values: Any,
    ) -> Response:
        """Render a page with its form token; an error is shown above its content."""
        form_seed = self.cookies.read(request, FORM_COOKIE)
        seed = session.secret if session else form_seed or new_secret()
        status, message = describe_error(error) if error else (200, "")
        notice = self.read_notice(request)
        common = {
            "person": session.caller.name if session else "",
            "is_staff": session is not None and session.caller.is_staff,
            "is_author": session is not None and session.caller.may("author"),
            "error": message,
            "notice": notice,
            "csrf_token": csrf_token(seed),
        }
        text = self.templates.get_template(template).render(common | values)
        response = HTMLResponse(text, status, HEADERS)
        if notice:
            self.cookies.clear(response, NOTICE_COOKIE)
        set_retry_after(response, error)
        if session is None:
            self.cookies.set(response, FORM_COOKIE, seed, SESSION_S)
        return response

    def public_page(
        self,
        request: Request,
        template: str,
        session: Session | None = None,
        *,
        has_script: bool = False,
        error: Refused | None = None,
        **values: Any,
    ) -> Response:
        """Render a page that needs no login, or return 304 if the browser has it.

        The page with the error of a form has the status of the error. Browsers do not store it, nor
        a page with a notice.
        """
        messages = {"error": error.reason if error else "", "notice": self.read_notice(request)}
        text = self.render_public(request, template, session, **messages, **values)
        policy = SCRIPT_POLICY if has_script else POLICY
        if not any(messages.values()):
            return self.revalidated(request, text.encode(), "text/html", policy)
        status = describe_error(error)[0] if error else 200
        response = HTMLResponse(text, status, HEADERS | {"Content-Security-Policy": policy})
        if messages["notice"]:
            self.cookies.clear(response, NOTICE_COOKIE)
        return response

    def revalidated(
        self,
        request: Request,
        data: bytes,
        media_type: str,
        policy: str = POLICY,
        etag: str | None = None,
    ) -> Response:
        """Return what depends on the visitor, or 304 if the browser has it."""
        etag = etag or make_etag(data)
        headers = HEADERS | {
            "Content-Security-Policy": policy,
            "Cache-Control": REVALIDATED,
            "ETag": etag,
            "Vary": "Cookie",
        }
        # A proxy that compresses a page makes its tag a weak one.
        known = request.headers.get("if-none-match", "").replace("W/", "").split(",")
        if etag in map(str.strip, known):
            return Response(None, 304, headers)
        return Response(data, headers=headers, media_type=media_type)

    async def error_page(self, request: Request, error: Refused | Failed) -> Response:
        """Render an error, with the next step; the header names who is logged in."""
        try:
            session = await self.session(request)
        except Failed:
            session = None
        status, message = describe_error(error)
        values = {
            "heading": TITLES_BY_STATUS.get(status, "This does not work"),
            "status": status,
            "error": message,
            "query": f"?{request.url.query}" if request.url.query else "",
            "is_repeatable": request.method in ("GET", "HEAD"),
        }
        text = self.render_public(request, "error.html", session, **values)
        response = HTMLResponse(text, status, HEADERS)
        if status in (429, 503):
            response.headers["Retry-After"] = "60"
        set_retry_after(response, error)
        return response

    def render_public(
        self, request: Request, template: str, session: Session | None, **values: Any
    ) -> str:
        """Render a page that is shown without a login, too; without one it has no form."""
        common = {
            "person": session.caller.name if session else "",
            "is_staff": session is not None and session.caller.is_staff,
            "is_author": session is not None and session.caller.may("author"),
            "csrf_token": csrf_token(session.secret) if session else "",
            "error": "",
            "notice": "",
            # Never the name of another host, as `//host` would be.
            "path": "/" + quote(request.url.path.lstrip("/")),
        }
        return self.templates.get_template(template).render(common | values)

    def redirect(self, path: str, notice: str = "") -> Response:
        """Redirect to a page or a provider; the next page shows the notice once."""
        response = RedirectResponse(path, 303, HEADERS)
        if notice:
            self.cookies.set(response, NOTICE_COOKIE, quote(notice), NOTICE_S)
        return response

    async def log_in(self, path: str, account: str) -> Response:
        """Open a session, and redirect to a page with its cookie."""
        response = self.redirect(path)
        secret = await self.logins.sessions.open(account)
        self.cookies.set(response, SESSION_COOKIE, secret, SESSION_S)
        self.cookies.clear(response, FORM_COOKIE, STATE_COOKIE)
        return response

    def remember_device(self, request: Request, response: Response, name: str) -> None:
        """Make this browser a known device of a participant, who has just shown who they are."""
        cookie = self.cookies.read(request, DEVICE_COOKIE)
        devices = self.logins.sign_in.devices
        self.cookies.set(response, DEVICE_COOKIE, devices.add(cookie, name), DEVICE_S)

    async def leave_for_provider(
        self, request: Request, provider: str, next_path: str, session: Session | None
    ) -> Response:
        """Redirect the browser to a provider; a logged-in participant links an identity.

        Raises `Refused` and `Failed`.
        """
        self.logins.login_attempts.take(f"leave {client_address(request)}")
        account = session.caller.id if session else None
        address, cookie = await self.logins.oauth.start(provider, next_path, account)
        response = self.redirect(address)
        self.cookies.set(response, STATE_COOKIE, cookie, STATE_S)
        return response

    def read_notice(self, request: Request) -> str:
        """Return the message that a form left for the next page; "" if there is none."""
        return unquote(self.cookies.read(request, NOTICE_COOKIE))


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
                except (Refused, Failed) as error:
                    if isinstance(error, Failed):
                        _log.warning("a page failed: %s", error)
                    return await web.error_page(request, error)
                except RequestValidationError as error:
                    problems = [f"{item['loc'][-1]}: {item['msg']}" for item in error.errors()]
                    refused = Refused("invalid_request", "; ".join(problems))
                    return await web.error_page(request, refused)

            return handle

    return Page
