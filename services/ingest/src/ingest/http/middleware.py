"""Middleware: accepted host names and paths, limits on bodies and rates, and response ids."""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import JSONResponse
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import URL, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.http.auth import Authenticator
from shared.clock import new_id
from shared.errors import Failed, Refused
from shared.http import (
    announced_body_bytes,
    body_too_large_response,
    failed_response,
    limit_body,
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
# Paths that accept files, always with a credential, and how large these may be. The last one is the
# submit route of the public client, with its own mode names.
UPLOADS = (
    (re.compile(r"/v1/problems/?"), PROBLEM_BYTES_MAX),
    (re.compile(r"/v1/submissions/?"), SUBMISSION_BYTES_MAX),
    (re.compile(r"/profile|(/admin)?/submission(/[^/]+){3}"), SUBMISSION_BYTES_MAX),
    (
        re.compile(r"/(?!v1/)[^/]+/[^/]+/(test|benchmark|leaderboard|profile)", re.IGNORECASE),
        SUBMISSION_BYTES_MAX,
    ),
)

# The form of the web site's editor, which answers with a page, also if its body is too long.
EDITOR = re.compile(r"/problems/[^/]+/submit/?")

FREE = ("/health", "/healthz", "/readyz")
POLL = re.compile(r"/+(?:v1|user)/+submissions/+0*([0-9]{1,16})/*\Z")
# A client that polls every 2 s never has to wait, whatever else it does; this holds for as many
# submissions as one client may follow at once, not for any number of them.
POLLS = "60/minute"
ALL_POLLS = "1920/minute"
REQUEST_ID = "x-request-id"


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

    def __init__(self, app: ASGIApp, auth: Authenticator) -> None:
        self.app = app
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if EDITOR.fullmatch(scope["path"]):
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

    def __init__(self, app: ASGIApp, auth: Authenticator, rates: RateLimitRules) -> None:
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
        if scope["type"] == "http" and scope["path"] not in FREE:
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


def rate_limit_headers(limit: int, remaining: int, reset_s: int) -> dict[str, str]:
    """Return the headers that tell a client what is left of a rate or quota."""
    return {
        "RateLimit-Limit": str(limit),
        "RateLimit-Remaining": str(remaining),
        "RateLimit-Reset": str(reset_s),
    }


class RequestIdMiddleware:
    """Gives every response an id, if it has none yet."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request; Source: the ASGI specification."""

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault(REQUEST_ID, new_id())
            await send(message)

        await self.app(scope, receive, send_with_id if scope["type"] == "http" else send)
