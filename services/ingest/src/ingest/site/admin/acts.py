"""Operators' acts as forms: each form sends one request to the platform's own HTTP API."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec
from starlette.types import ASGIApp

from ingest.http.middleware import IDEMPOTENCY_HEADER
from ingest.http.requests import TEXT_LENGTH_MAX
from ingest.identity.caller import Caller, check_scope
from ingest.identity.http.credentials import CSRF
from ingest.identity.secrets import csrf_token
from ingest.site.reads import check_response, decode_response
from shared.errors import Refused

# A value in the path of a request: names, ids, numbers and codes need nothing else.
IN_PATH = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
NUMBER = re.compile(r"[0-9]{1,16}(\.[0-9]{1,16})?\Z")
FORM_ID_LENGTH_MAX = 64
WORDS = re.compile(r"[\s,;]+")
T = TypeVar("T")


def may_any(caller: Caller, scopes: Sequence[str]) -> bool:
    """Return whether a caller has one of these scopes."""
    return any(caller.may(scope) for scope in scopes)


def check_any_scope(caller: Caller, scopes: Sequence[str]) -> None:
    """Refuse a caller who has none of these scopes."""
    if not may_any(caller, scopes):
        check_scope(caller, scopes[0])


@dataclass(frozen=True)
class SessionApi:
    """The platform's own HTTP API, called with the login of a page's visitor.

    Its routes check who may do what and validate requests; pages add no rules. `cookie` is the name
    of the session cookie.
    """

    app: ASGIApp
    secret: str
    cookie: str

    async def get(self, path: str, response_type: type[T], **query: object) -> T:
        """Return a response, without the parameters that are None. Raises `Refused`, `Failed`."""
        parameters = {name: value for name, value in query.items() if value is not None}
        url = f"{path}?{urlencode(parameters)}" if parameters else path
        return decode_response(path, await self.send("GET", url), response_type)

    async def send(
        self, method: str, path: str, body: object = None, idempotency_key: str = ""
    ) -> bytes:
        """Send a request and return the body of its response. Raises `Refused` and `Failed`."""
        headers = {IDEMPOTENCY_HEADER: idempotency_key} if idempotency_key else {}
        return await self._send(method, path, headers=headers, json=body)

    async def send_form(
        self, path: str, fields: Mapping[str, object], files: Mapping[str, bytes]
    ) -> bytes:
        """Send a form with files and return the body of its response. Raises as `send`."""
        parts = [("files", (name, data)) for name, data in files.items()]
        return await self._send("POST", path, data=fields, files=parts)

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **content: Any
    ) -> bytes:
        own = {"Cookie": f"{self.cookie}={self.secret}", CSRF: csrf_token(self.secret)}
        url = f"http://localhost{path}"
        request = httpx.Request(method, url, headers={**own, **(headers or {})}, **content)
        response = await httpx.ASGITransport(self.app).handle_async_request(request)
        return check_response(path, response.status_code, await response.aread())


class FormField(NamedTuple):
    """A field of a form; `kind` is text, number, time (in UTC), choice or words (a list)."""

    name: str
    label: str
    help: str = ""
    kind: str = "text"
    choices: Sequence[str] = ()
    default: str = ""
    length_max: int = TEXT_LENGTH_MAX
    is_required: bool = True

    def parse(self, text: str) -> object:
        """Return the JSON value of what was typed; None for nothing. Raises `Refused`."""
        if not text:
            if self.is_required:
                raise Refused("invalid_request", f"{self.label}: fill in this field", self.name)
            return None
        if self.kind == "words":
            return [word for word in WORDS.split(text) if word]
        if self.kind == "time":
            return f"{text}Z"
        if self.kind != "number":
            return text
        if not NUMBER.match(text):
            message = f"{self.label}: {text[:40]!r} is not a number"
            raise Refused("invalid_request", message, self.name)
        return int(text) if text.isdigit() else float(text)


class ActRequest(NamedTuple):
    """The request to the API that carries out an act."""

    method: str
    path: str
    body: Mapping[str, object]

    def idempotency_key(self, form_id: str) -> str:
        """Return the key under which a form is carried out once, however often it is sent.

        The same form with other values is another request.
        """
        digest = hashlib.sha256(msgspec.json.encode(self.body)).hexdigest()
        return f"{form_id[:FORM_ID_LENGTH_MAX]}-{digest}" if form_id else ""


@dataclass(frozen=True)
class Act:
    """A request to the API, and the form for it.

    Fields that the path of the route does not name make its body. `scopes` decide who is offered
    the form (any of them is enough); the route decides who may send it. With a `warning`, the form
    asks for confirmation. `page` is shown afterwards, with `notice`.
    """

    route: str
    scopes: Sequence[str]
    title: str
    button: str
    explanation: str
    page: str
    notice: str
    fields: Sequence[FormField]
    warning: str = ""
    constants: Mapping[str, object] | None = None

    def request(self, values: Mapping[str, str]) -> ActRequest:
        """Return the request for what was typed. Raises `Refused`, naming the field."""
        method, _, template = self.route.partition(" ")
        path, body = template, dict(self.constants or {})
        for field in self.fields:
            text = values.get(field.name, "").strip()
            value, place = field.parse(text), f"{{{field.name}}}"
            if place in template:
                if not IN_PATH.match(text):
                    message = f"{field.label}: use only letters, digits, - and _"
                    raise Refused("invalid_request", message, field.name)
                path = path.replace(place, text)
            elif value is not None:
                body[field.name] = value
        return ActRequest(method, path, body)

    def page_after(self, values: Mapping[str, str]) -> str:
        """Return the path of the page that is shown after the act, or instead of it."""
        path = self.page.format(**{name: quote(text, safe="") for name, text in values.items()})
        return path.rstrip("/")
