"""Requests that come twice under one Idempotency-Key, and are done once.

Submissions and problems have their own way, in the log: by the key, and by what is published.
"""

import hashlib
import json
import logging
import re

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.domain.callers import Caller
from ingest.http.who import Gate
from ingest.service.ports import Asked, Kept, Repeats
from shared.clock import now
from shared.errors import Failed, Refused
from shared.http import failure, refusal, unavailable

HEADER = "idempotency-key"
KEY = re.compile(r"[!-~]{1,255}\Z")
PREFIX = "/v1/"
OWN_WAY = ("/v1/submissions", "/v1/problems")
# Whose answer holds the text of a token, which is shown once and kept nowhere.
TOKENS = ("/v1/tokens", "/v1/admin/tokens")
SECRET = "token"  # noqa: S105  (a field's name)
AGAIN_S = 1.0
REPLAYED = {"Idempotent-Replayed": "true"}

_log = logging.getLogger(__name__)


def idempotency_key(request: Request) -> str | None:
    """The key under which a request may come twice. Errors: Refused `bad_idempotency_key`."""
    key = request.headers.get(HEADER)
    if key is not None and not KEY.match(key):
        raise Refused("bad_idempotency_key", "Idempotency-Key: 1 to 255 visible ASCII", None)
    return key


class Once:
    """Does what is asked for under a key once, and answers repeats as it did the first time.

    A request that was refused or failed has done nothing, and may come again.
    """

    def __init__(self, app: ASGIApp, gate: Gate, repeats: Repeats) -> None:
        self.app = app
        self._gate = gate
        self._repeats = repeats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it; Source: the ASGI specification."""
        if not _is_asked(scope):
            await self.app(scope, receive, send)
            return
        body: bytes = b""
        asked: Asked | None = None
        answer: Response | None
        try:
            body = await _whole(receive)
            asked = await self._asked(Request(scope), body)
            answer = await self._repeated(asked)
        except (HTTPException, Refused, Failed) as error:
            answer = _refusal(error)
        if answer is not None:
            await answer(scope, receive, send)
        elif asked is None:
            await self.app(scope, _said(body, receive), send)
        else:
            await self._first(asked, scope, _said(body, receive), send)

    async def _asked(self, request: Request, body: bytes) -> Asked | None:
        """What is to be done once; None for who is nobody, whom the route itself turns away."""
        key = idempotency_key(request)
        try:
            caller = await self._gate.caller(request)
        except Refused:
            return None
        if key is None or caller.kind == "anonymous":
            return None
        return Asked(caller.actor, request.url.path, key, _hash(caller, body), now())

    async def _repeated(self, asked: Asked | None) -> Response | None:
        """The answer to a repeat; None for what is to be done now. Errors: Refused; Failed."""
        kept = None if asked is None else await self._repeats.begin(asked)
        return None if asked is None or kept is None else _again(asked, kept)

    async def _first(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it be done; its answer is sent once it is kept."""
        said: list[Message] = []

        async def heard(message: Message) -> None:
            said.append(message)

        try:
            await self.app(scope, receive, heard)
        except Exception:
            await self._settle(asked, None)
            raise
        await self._settle(asked, said)
        for message in said:
            await send(message)

    async def _settle(self, asked: Asked, said: list[Message] | None) -> None:
        """Keep an answer to what was done, and free the key of what was not."""
        status = said[0]["status"] if said else 500
        body = b"".join(one.get("body", b"") for one in said or ())
        try:
            if 200 <= status < 300:
                await self._repeats.keep(asked, status, _without_secret(asked.route, body))
            else:
                await self._repeats.forget(asked)
        except Failed as failed:
            # It is done, or was refused; a repeat waits until this one counts as lost.
            _log.warning("an answer under an Idempotency-Key is not kept: %s", failed)


def _is_asked(scope: Scope) -> bool:
    """Whether this is a request that may come twice under a key."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    path = scope["path"]
    has_key = any(name == HEADER.encode() for name, _ in scope["headers"])
    return has_key and path.startswith(PREFIX) and path.rstrip("/") not in OWN_WAY


async def _whole(receive: Receive) -> bytes:
    """A request's body. Errors: HTTPException for one over the limit, and for one cut short."""
    pieces, is_more = [], True
    while is_more:
        message = await receive()
        if message["type"] != "http.request":
            raise HTTPException(400, "the request broke off")
        pieces.append(message.get("body", b""))
        is_more = message.get("more_body", False)
    return b"".join(pieces)


def _refusal(error: HTTPException | Refused | Failed) -> Response:
    if isinstance(error, HTTPException):
        return failure(error.status_code, str(error.detail))
    return refusal(error) if isinstance(error, Refused) else unavailable(error)


def _said(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read again."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return whole.pop() if whole else await receive()

    return received


def _hash(caller: Caller, body: bytes) -> str:
    """What two requests under one key have in common; who may less is not told what was done."""
    allowed = " ".join([*sorted(caller.scopes), *sorted(caller.problems)])
    return hashlib.sha256(allowed.encode() + b"\n" + body).hexdigest()


def _again(asked: Asked, kept: Kept) -> Response:
    """The answer to a repeat. Errors: Refused."""
    if kept.request_hash != asked.request_hash:
        what = "this Idempotency-Key came with another request before: send another key"
        raise Refused("idempotency_key_reused", what)
    if kept.status is None:
        what = "the first request under this Idempotency-Key is still being handled: ask again"
        raise Refused("in_progress", what, retry_after_s=AGAIN_S)
    if asked.route in TOKENS:
        number = json.loads(kept.body)["id"]
        what = (
            f"token {number} was made under this Idempotency-Key, and its text was shown then "
            f"alone: revoke it with DELETE {asked.route}/{number}, and make another under a new key"
        )
        raise Refused("shown_once", what)
    headers = REPLAYED | {"Content-Type": "application/json"}
    return Response(kept.body, kept.status, headers)


def _without_secret(route: str, body: bytes) -> bytes:
    if route not in TOKENS:
        return body
    said = json.loads(body)
    return bytes(JSONResponse({name: said[name] for name in said if name != SECRET}).body)
