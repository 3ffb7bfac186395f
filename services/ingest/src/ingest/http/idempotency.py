"""Idempotency-Key: a repeated request is carried out once.

Submissions and problems have their own mechanism in the log.
"""

import hashlib
import json
import logging
import re

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.access.callers import Caller
from ingest.http.auth import Authenticator
from ingest.ports import IdempotencyStore, IdempotentRequest, StoredResponse
from shared.clock import now
from shared.errors import Failed, Refused
from shared.http import error_response, failed_response, refused_response

HEADER = "idempotency-key"
KEY = re.compile(r"[!-~]{1,255}\Z")
PREFIX = "/v1/"
EXEMPT_PATHS = ("/v1/submissions", "/v1/problems")
# Routes whose response contains the text of a token, which is shown once and never stored.
TOKENS = ("/v1/tokens", "/v1/admin/tokens")
SECRET = "token"  # noqa: S105  (a field's name)
AGAIN_S = 1.0
REPLAYED = {"Idempotent-Replayed": "true"}

_log = logging.getLogger(__name__)


def idempotency_key(request: Request) -> str | None:
    """Return the Idempotency-Key of a request. Raises `Refused` (`bad_idempotency_key`)."""
    key = request.headers.get(HEADER)
    if key is not None and not KEY.match(key):
        raise Refused("bad_idempotency_key", "Idempotency-Key: 1 to 255 visible ASCII", None)
    return key


class IdempotencyMiddleware:
    """Carries out a request with a key once, and answers repeats with the first response.

    A request that was refused or failed changed nothing, and may be sent again.
    """

    def __init__(self, app: ASGIApp, auth: Authenticator, repeats: IdempotencyStore) -> None:
        self.app = app
        self._auth = auth
        self._repeats = repeats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or answer it; Source: the ASGI specification."""
        if not _has_key(scope):
            await self.app(scope, receive, send)
            return
        body: bytes = b""
        key_request: IdempotentRequest | None = None
        response: Response | None
        try:
            body = await _read_body(receive)
            key_request = await self._key_request(Request(scope), body)
            response = None if key_request is None else await self._find_replay(key_request)
        except (HTTPException, Refused, Failed) as error:
            response = _refusal(error)
        if response is not None:
            await response(scope, receive, send)
        elif key_request is None:
            await self.app(scope, _replay_body(body, receive), send)
        else:
            await self._handle_first(key_request, scope, _replay_body(body, receive), send)

    async def _key_request(self, request: Request, body: bytes) -> IdempotentRequest | None:
        """Return the request to carry out once; None for anonymous ones: the route refuses."""
        key = idempotency_key(request)
        try:
            caller = await self._auth.caller(request)
        except Refused:
            return None
        if key is None or caller.kind == "anonymous":
            return None
        return IdempotentRequest(caller.actor, request.url.path, key, _hash(caller, body), now())

    async def _find_replay(self, key_request: IdempotentRequest) -> Response | None:
        """Return the response to a repeat, None for a first request.

        Raises `Refused` and `Failed`.
        """
        first_response = await self._repeats.begin(key_request)
        return None if first_response is None else _replay(key_request, first_response)

    async def _handle_first(
        self, key_request: IdempotentRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Carry the request out and send its response once that is stored."""
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        try:
            await self.app(scope, receive, collect)
        except Exception:
            await self._store_outcome(key_request, None)
            raise
        await self._store_outcome(key_request, messages)
        for message in messages:
            await send(message)

    async def _store_outcome(
        self, key_request: IdempotentRequest, messages: list[Message] | None
    ) -> None:
        """Store the response of a request that succeeded, else free its key."""
        status = messages[0]["status"] if messages else 500
        body = b"".join(message.get("body", b"") for message in messages or ())
        try:
            if 200 <= status < 300:
                await self._repeats.keep(
                    key_request, status, _remove_secret(key_request.route, body)
                )
            else:
                await self._repeats.forget(key_request)
        except Failed as failed:
            # The request is done; a repeat gets `in_progress` until this one counts as lost.
            _log.warning("cannot store the response under an Idempotency-Key: %s", failed)


def _has_key(scope: Scope) -> bool:
    """Return whether this is a request with a key that this middleware handles."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    path = scope["path"]
    has_key = any(name == HEADER.encode() for name, _ in scope["headers"])
    return has_key and path.startswith(PREFIX) and path.rstrip("/") not in EXEMPT_PATHS


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


def _refusal(error: HTTPException | Refused | Failed) -> Response:
    if isinstance(error, HTTPException):
        return error_response(error.status_code, str(error.detail))
    return refused_response(error) if isinstance(error, Refused) else failed_response(error)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that returns this body again."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return pending.pop() if pending else await receive()

    return receive_again


def _hash(caller: Caller, body: bytes) -> str:
    """Hash what two requests under one key must share; other scopes are another request."""
    allowed = " ".join([*sorted(caller.scopes), *sorted(caller.problems)])
    return hashlib.sha256(allowed.encode() + b"\n" + body).hexdigest()


def _replay(key_request: IdempotentRequest, first_response: StoredResponse) -> Response:
    """Return the response to a repeat. Raises `Refused`."""
    if first_response.request_hash != key_request.request_hash:
        message = "this Idempotency-Key was used for a different request: choose another key"
        raise Refused("idempotency_key_reused", message)
    if first_response.status is None:
        message = "the first request under this Idempotency-Key is still in progress: try again"
        raise Refused("in_progress", message, retry_after_s=AGAIN_S)
    if key_request.route in TOKENS:
        number = json.loads(first_response.body)["id"]
        message = (
            f"token {number} was created under this Idempotency-Key and its text was shown once: "
            f"revoke it with DELETE {key_request.route}/{number}, and create another with a new key"
        )
        raise Refused("shown_once", message)
    headers = REPLAYED | {"Content-Type": "application/json"}
    return Response(first_response.body, first_response.status, headers)


def _remove_secret(route: str, body: bytes) -> bytes:
    if route not in TOKENS:
        return body
    fields = json.loads(body)
    return bytes(JSONResponse({name: fields[name] for name in fields if name != SECRET}).body)
