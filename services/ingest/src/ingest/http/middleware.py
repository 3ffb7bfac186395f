"""Middleware: paths, limits on bodies, rates and attempts, idempotency keys, and response ids."""

import hashlib
import logging
import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import msgspec
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import URL, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.http.responses import rate_limit_headers
from ingest.ports import IdempotencyStore, IdempotentRequest, StoredResponse
from shared.clock import new_id, now
from shared.errors import STATUS_BY_CODE, Failed, Refused
from shared.http import (
    announced_body_bytes,
    body_too_large_response,
    error_response,
    failed_response,
    limit_body,
    may_have_secret,
    refused_response,
)

_SLASHES = re.compile(r"/{2,}")

KIB = 1024
# Enough to log in, which needs no credential.
ANONYMOUS_BYTES_MAX = 16 * KIB
# An appeal of 10,000 characters, of which JSON or a form may escape each in 12 bytes.
JSON_BYTES_MAX = 128 * KIB
SUBMISSION_BYTES_MAX = 4 * KIB * KIB
PROBLEM_BYTES_MAX = 16 * KIB * KIB
METHODS = ("POST", "PUT", "PATCH", "DELETE")
# Paths that accept files, always with a credential, and how large these may be. The last ones are
# routes of the public client: profiles, and its submit route with its own mode names.
UPLOADS = (
    (re.compile(r"/v1/(problems|checks|evaluations)/?"), PROBLEM_BYTES_MAX),
    (re.compile(r"/v1/submissions/?"), SUBMISSION_BYTES_MAX),
    (re.compile(r"/profile((/[^/]+){2})?"), SUBMISSION_BYTES_MAX),
    (re.compile(r"(/admin)?/submission(/[^/]+){3}"), SUBMISSION_BYTES_MAX),
    (
        re.compile(r"/(?!v1/)[^/]+/[^/]+/(test|benchmark|leaderboard|profile)", re.IGNORECASE),
        SUBMISSION_BYTES_MAX,
    ),
)

# The forms of the web site with files, which answer with a page, also if their body is too long.
FORMS = re.compile(r"/(problems/[^/]+/submit|create)/?")

UNLIMITED_PATHS = ("/health", "/healthz", "/readyz")
POLL = re.compile(r"/+(?:v1|user)/+submissions/+0*([0-9]{1,16})/*\Z")
# A client that polls every 2 s never has to wait, whatever else it does; this holds for as many
# submissions as one client may follow at once, not for any number of them.
POLLS = "60/minute"
ALL_POLLS = "1920/minute"
REQUEST_ID = "x-request-id"
NO_STORE = "no-store"
IDEMPOTENCY_HEADER = "idempotency-key"
IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}\Z")
API_PREFIX = "/v1/"
EXEMPT_PATHS = ("/v1/submissions", "/v1/problems", "/v1/checks", "/v1/evaluations")
# Stored in place of a response that has a secret, with what to do instead as its body.
SHOWN_ONCE = STATUS_BY_CODE["shown_once"]
RETRY_S = 1.0
_log = logging.getLogger(__name__)


class RequestCaller(Protocol):
    """The caller of a request, as an Idempotency-Key needs it."""

    @property
    def kind(self) -> str:
        """Return `anonymous` for a caller without a valid credential."""

    @property
    def actor(self) -> str:
        """Return the actor for events; an anonymous caller has none."""

    @property
    def scopes(self) -> frozenset[str]:
        """Return what the caller may do."""

    @property
    def problems(self) -> frozenset[str]:
        """Return the problems that the caller is limited to."""


class RequestAuthenticator(Protocol):
    """Tells the middleware who sends a request."""

    def has_session(self, request: Request) -> bool:
        """Return whether a request has the cookie of a live session."""

    def has_credential(self, request: Request) -> bool:
        """Return whether a request has anything that names a caller, valid or not."""

    async def check_credential(self, request: Request) -> None:
        """Raise `Refused` for a request without a valid credential."""

    async def caller(self, request: Request) -> RequestCaller:
        """Return the caller. Raises `Refused` for conflicting credentials."""

    def rate_limit_key(self, request: Request) -> str | None:
        """Return whose rate limit a request counts against; None for no limit."""


class AllowedHostsMiddleware:
    """Answers requests only for the host names of this machine.

    Where names are believed, any web site could otherwise act as anybody: a site whose name
    resolves to this machine has the same origin for the browser, which lets it read every response.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        self.app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it; Source: the ASGI specification."""
        if scope["type"] != "http" or URL(scope=scope).hostname in self._names:
            await self.app(scope, receive, send)
            return
        message = f"this platform believes names, so call it only as {' or '.join(self._names)}"
        await refused_response(Refused("invalid_request", message, "host"))(scope, receive, send)


def normalize_path(path: str) -> str:
    """Return the path used for routing.

    >>> normalize_path("//user//submissions/"), normalize_path("//"), normalize_path("/a")
    ('/user/submissions', '/', '/a')
    """
    return _SLASHES.sub("/", path).rstrip("/") or "/"


class NormalizePathMiddleware:
    """Routes every request by its normalized path."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request. Source: the ASGI specification."""
        if scope["type"] == "http":
            scope = {**scope, "path": normalize_path(scope["path"])}
        await self.app(scope, receive, send)


class BodyLimitMiddleware:
    """Refuses bodies that are too long for their route, and those of unknown clients.

    The rest of a refused body is discarded as it arrives, so that the client can read the response.
    """

    def __init__(self, app: ASGIApp, auth: RequestAuthenticator) -> None:
        self.app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if FORMS.fullmatch(scope["path"]):
            has_session = self._auth.has_session(Request(scope))
            bytes_max = SUBMISSION_BYTES_MAX if has_session else ANONYMOUS_BYTES_MAX
            await self.app(scope, limit_body(receive, bytes_max), send)
            return
        limits = [limit for path, limit in UPLOADS if path.fullmatch(scope["path"])]
        bytes_max = limits[0] if limits else JSON_BYTES_MAX
        announced = announced_body_bytes(scope)
        response: JSONResponse | None = None
        if (announced or 0) > bytes_max:
            response = body_too_large_response(bytes_max)
        elif announced != 0 and scope["method"] in METHODS:
            is_large = announced is None or announced > ANONYMOUS_BYTES_MAX
            refusal = await self._refuse_anonymous(Request(scope)) if limits or is_large else None
            if refusal is not None and announced is None and not limits:
                bytes_max = ANONYMOUS_BYTES_MAX
            else:
                response = refusal
        if response is None:
            await self.app(scope, limit_body(receive, bytes_max), send)
            return
        # The body has not arrived yet; a client that waits for `100 Continue` never sends it.
        if any(name == b"expect" for name, _ in scope["headers"]):
            response.headers["Connection"] = "close"
        await response(scope, receive, send)

    async def _refuse_anonymous(self, request: Request) -> JSONResponse | None:
        """Return the refusal for a client without a valid credential, None for others."""
        try:
            await self._auth.check_credential(request)
        except Refused as refused:
            return refused_response(refused)
        except Failed as failed:
            return failed_response(failed)
        return None


@dataclass(frozen=True)
class RateLimitRules:
    """How often a token and an address may send requests: `600/minute`, "" for no limit."""

    per_token: str = ""
    per_address: str = ""


class RateLimitMiddleware:
    """Refuses clients that send too many requests.

    Each token has its own rate; clients without one share the rate of their address. Rates are
    counted per process, so several ingests behind one name each allow the whole rate.
    """

    def __init__(self, app: ASGIApp, auth: RequestAuthenticator, rates: RateLimitRules) -> None:
        self.app = app
        self._auth = auth
        self._rules = {
            "token": parse(rates.per_token) if rates.per_token else None,
            "address": parse(rates.per_address) if rates.per_address else None,
        }
        self._polls, self._all_polls = parse(POLLS), parse(ALL_POLLS)
        self._window = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it; Source: the ASGI specification."""
        refusal_response = None
        if scope["type"] == "http" and scope["path"] not in UNLIMITED_PATHS:
            refusal_response = self._check_rate(Request(scope))
        await (refusal_response or self.app)(scope, receive, send)

    def _check_rate(self, request: Request) -> ASGIApp | None:
        payer = self._auth.rate_limit_key(request)
        rule = None if payer is None else self._rules[payer.partition(" ")[0]]
        if payer is None or rule is None:
            return None
        if self._window.hit(rule, payer) or self._is_poll(request, payer):
            return None
        wait_s = self._window.get_window_stats(rule, payer).reset_time - time.time()
        reset_s = max(1, round(wait_s))
        headers = rate_limit_headers(rule.amount, 0, reset_s)
        message = f"too many requests: at most {rule}; try again in {reset_s} s"
        refused = Refused("rate_limited", message, retry_after_s=max(1.0, wait_s))
        return refused_response(refused, headers)

    def _is_poll(self, request: Request, payer: str) -> bool:
        """Return whether a request is a poll that is allowed beyond the rate."""
        match = POLL.match(request.url.path) if request.method == "GET" else None
        return (
            match is not None
            and self._window.test(self._all_polls, f"{payer} polls")
            and self._window.hit(self._polls, f"{payer} {int(match[1])}")
            and self._window.hit(self._all_polls, f"{payer} polls")
        )


class ResponseHeadersMiddleware:
    """Gives every response an id, and tells browsers not to store it or guess its type.

    A route may declare that its response can be stored, but the response to a request with a
    credential is stored only if it is the same for everybody (`public`).
    """

    def __init__(self, app: ASGIApp, auth: RequestAuthenticator) -> None:
        self.app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_credential = self._auth.has_credential(Request(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault(REQUEST_ID, new_id())
                headers.setdefault("X-Content-Type-Options", "nosniff")
                declared = headers.get("Cache-Control", NO_STORE)
                if has_credential and not declared.startswith("public"):
                    declared = NO_STORE
                headers["Cache-Control"] = declared
            await send(message)

        await self.app(scope, receive, send_with_headers)


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request. Raises `Refused` (`bad_idempotency_key`)."""
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is not None and not IDEMPOTENCY_KEY.match(key):
        raise Refused("bad_idempotency_key", "Idempotency-Key: 1 to 255 visible ASCII", None)
    return key


class IdempotencyMiddleware:
    """Carries out a request with a key once, and answers repeats with the first response.

    A request that was refused or failed changed nothing, and may be sent again.
    """

    def __init__(self, app: ASGIApp, auth: RequestAuthenticator, repeats: IdempotencyStore) -> None:
        self.app = app
        self._auth = auth
        self._repeats = repeats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or answer it; Source: the ASGI specification."""
        if not _has_key(scope):
            await self.app(scope, receive, send)
            return
        body, request = b"", None
        response: Response | None
        try:
            body = await _read_body(receive)
            request = await self._key_request(Request(scope), body)
            first = None if request is None else await self._repeats.begin(request)
            response = None if request is None or first is None else _replay(request, first)
        except HTTPException as error:
            response = error_response(error.status_code, str(error.detail))
        except Refused as refused:
            response = refused_response(refused)
        except Failed as failed:
            response = failed_response(failed)
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return pending.pop() if pending else await receive()

        if response is not None:
            await response(scope, receive, send)
        elif request is None:
            await self.app(scope, receive_again, send)
        else:
            await self._handle_first(request, scope, receive_again, send)

    async def _key_request(self, request: Request, body: bytes) -> IdempotentRequest | None:
        """Return the request to carry out once; None for anonymous ones: the route refuses."""
        key = idempotency_key(request)
        try:
            caller = await self._auth.caller(request)
        except Refused:
            return None
        if key is None or caller.kind == "anonymous":
            return None
        # Two requests under one key must have the same body and scopes.
        allowed = " ".join([*sorted(caller.scopes), *sorted(caller.problems)])
        request_hash = hashlib.sha256(allowed.encode() + b"\n" + body).hexdigest()
        return IdempotentRequest(caller.actor, request.url.path, key, request_hash, now())

    async def _handle_first(
        self, request: IdempotentRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Carry the request out, and send its response once that is stored."""
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        try:
            await self.app(scope, receive, collect)
        except Exception:
            await self._store_outcome(request, None)
            raise
        body = b"".join(message.get("body", b"") for message in messages)
        status = messages[0]["status"] if messages else 500
        stored = None
        if 200 <= status < 300:
            stored = (status, body)
            if may_have_secret(scope.get("route")):
                stored = (SHOWN_ONCE, _shown_once(request.route, body))
        await self._store_outcome(request, stored)
        for message in messages:
            await send(message)

    async def _store_outcome(
        self, request: IdempotentRequest, stored: tuple[int, bytes] | None
    ) -> None:
        """Store the status and body for repeats of a request; None frees its key."""
        try:
            if stored is not None:
                await self._repeats.keep(request, *stored)
            else:
                await self._repeats.forget(request)
        except Failed as failed:
            # The request is done; a repeat gets `in_progress` until this one counts as lost.
            _log.warning("cannot store the response under an Idempotency-Key: %s", failed)


def _has_key(scope: Scope) -> bool:
    """Return whether this is a request with a key that this middleware handles."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    path = scope["path"]
    has_key = any(name == IDEMPOTENCY_HEADER.encode() for name, _ in scope["headers"])
    return has_key and path.startswith(API_PREFIX) and path.rstrip("/") not in EXEMPT_PATHS


async def _read_body(receive: Receive) -> bytes:
    """Return the body. Raises `HTTPException` for one over the limit or cut short."""
    pieces, is_more = [], True
    while is_more:
        message = await receive()
        if message["type"] != "http.request":
            raise HTTPException(400, "the request was cut short")
        pieces.append(message.get("body", b""))
        is_more = message.get("more_body", False)
    return b"".join(pieces)


class _Created(msgspec.Struct):
    """The only field of a response with a secret that is stored."""

    id: int | str | None = None


def _shown_once(route: str, body: bytes) -> bytes:
    """Return what to do instead of repeating a request whose response may have had a secret."""
    try:
        id_ = msgspec.json.decode(body, type=_Created).id
    except msgspec.DecodeError:
        id_ = None
    remove = "" if id_ is None else f"remove what it made with DELETE {route}/{id_}, and "
    message = (
        "the request under this Idempotency-Key was carried out; its response had a secret, which "
        f"is shown once and not stored: {remove}send the request again with a new key"
    )
    return message.encode()


def _replay(request: IdempotentRequest, first: StoredResponse) -> Response:
    """Return the response to a repeat. Raises `Refused`."""
    if first.request_hash != request.request_hash:
        message = "this Idempotency-Key was used for a different request: choose another key"
        raise Refused("idempotency_key_reused", message)
    if first.status is None:
        message = "the first request under this Idempotency-Key is still in progress: try again"
        raise Refused("in_progress", message, retry_after_s=RETRY_S)
    if first.status == SHOWN_ONCE:
        raise Refused("shown_once", first.body.decode())
    headers = {"Idempotent-Replayed": "true", "Content-Type": "application/json"}
    return Response(first.body, first.status, headers)
