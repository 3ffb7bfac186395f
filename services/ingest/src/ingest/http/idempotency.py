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

from ingest.http.auth import Authenticator
from ingest.ports import IdempotencyStore, IdempotentRequest, StoredResponse
from shared.clock import now
from shared.errors import Failed, Refused
from shared.http import error_response, failed_response, refused_response

HEADER = "idempotency-key"
KEY = re.compile(r"[!-~]{1,255}\Z")
PREFIX = "/v1/"
EXEMPT_PATHS = ("/v1/submissions", "/v1/problems")
# Routes whose response contains a secret, which is shown once and never stored, and its field.
TOKENS = re.compile(r"/v1/(admin/)?tokens")
SECRETS = (
    (TOKENS, "token"),
    (re.compile(r"/v1/admin/participants/[^/]+/password-reset"), "url"),
)
AGAIN_S = 1.0

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
            await self._store_outcome(request, 500, b"")
            raise
        body = b"".join(message.get("body", b"") for message in messages)
        await self._store_outcome(request, messages[0]["status"] if messages else 500, body)
        for message in messages:
            await send(message)

    async def _store_outcome(self, request: IdempotentRequest, status: int, body: bytes) -> None:
        """Store the response of a request that succeeded, else free its key."""
        is_success = 200 <= status < 300
        secret_field = _secret_field(request.route)
        if is_success and secret_field is not None:
            fields = json.loads(body)
            del fields[secret_field]
            body = bytes(JSONResponse(fields).body)
        try:
            if is_success:
                await self._repeats.keep(request, status, body)
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


def _secret_field(route: str) -> str | None:
    """Return the field of the response that contains a secret, None if there is none."""
    return next((field for path, field in SECRETS if path.fullmatch(route)), None)


def _replay(request: IdempotentRequest, first: StoredResponse) -> Response:
    """Return the response to a repeat. Raises `Refused`."""
    if first.request_hash != request.request_hash:
        message = "this Idempotency-Key was used for a different request: choose another key"
        raise Refused("idempotency_key_reused", message)
    if first.status is None:
        message = "the first request under this Idempotency-Key is still in progress: try again"
        raise Refused("in_progress", message, retry_after_s=AGAIN_S)
    if TOKENS.fullmatch(request.route):
        number = json.loads(first.body)["id"]
        message = (
            f"token {number} was created under this Idempotency-Key and its text was shown once: "
            f"revoke it with DELETE {request.route}/{number}, and create another with a new key"
        )
        raise Refused("shown_once", message)
    if _secret_field(request.route) is not None:
        message = (
            "a link was created under this Idempotency-Key and shown once: "
            "create another with a new key"
        )
        raise Refused("shown_once", message)
    headers = {"Idempotent-Replayed": "true", "Content-Type": "application/json"}
    return Response(first.body, first.status, headers)
