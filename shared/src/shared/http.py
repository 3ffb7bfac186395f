"""What our HTTP services have in common: one shape of error, one limit, one way to serve."""

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import replace
from typing import Any

import anyio
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.clock import new_id
from shared.codes import STATUS
from shared.errors import Failed, Refused
from shared.file_limit import connections_max, file_limit
from shared.http_connections import HttpLimits, limited_protocol

log = logging.getLogger(__name__)

DRAIN_S = 10
# The public client polls every 5 s on one connection. uvicorn closes an idle one after 5 s by
# default, and a request that crosses the close fails.
KEEP_ALIVE_S = 75
# Whoever takes no piece of a live answer for so long is let go, and may come back.
SLOW_S_MAX = 30.0
CLOSE_S_MAX = 5.0
# Where a request finds the event that says that its process is to end.
STOPPING = "warpboard.stopping"
# When to ask again, in seconds, where a refusal does not know better.
AGAIN_S = {429: "60", 503: "1"}
# What a route leaves in `request.state`, to be said as headers should it be refused.
SAID = "said"
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


class BodyLimit:
    """Refuses a request whose body is over a limit, announced or not."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self.app = app
        self.bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif (announced_bytes(scope) or 0) > self.bytes_max:
            await refuse_large_body(self.bytes_max)(scope, receive, send)
        else:
            await self.app(scope, limit_body(receive, self.bytes_max), send)


def announced_bytes(scope: Scope) -> int | None:
    """Return how long a request's body is by its head; None if the head does not say."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


def refuse_large_body(bytes_max: int) -> JSONResponse:
    """Return the answer to a request whose body is too large."""
    return failure(413, f"the request is over {bytes_max:,} bytes")


def limit_body(receive: Receive, bytes_max: int) -> Receive:
    """Return a `receive` that raises HTTPException once a body is over the limit."""
    received = 0

    async def receive_counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > bytes_max:
            raise HTTPException(413, f"the request is over {bytes_max:,} bytes")
        return message

    return receive_counted


class Live(StreamingResponse):
    """An answer that goes on while things happen, and ends when its process does.

    A slow reader is let go, not waited for: what waits for a reader is one piece. The source of
    the pieces is closed however the answer ends.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        status: int,
        headers: Mapping[str, str],
        slow_s_max: float = SLOW_S_MAX,
    ) -> None:
        super().__init__(pieces, status, headers)
        self.pieces = pieces
        self.slow_s_max = slow_s_max
        self.stopping = asyncio.Event()
        self.coming: asyncio.Future[bytes | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; Source: the ASGI specification."""
        self.stopping = scope.get(STOPPING, self.stopping)
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send piece by piece; an answer that a slow reader cut short has no proper end."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        ended = asyncio.create_task(self.stopping.wait())
        try:
            while (piece := await self._next(ended)) is not None:
                body = {"type": "http.response.body", "body": piece, "more_body": True}
                async with asyncio.timeout(self.slow_s_max):
                    await send(body)
        except TimeoutError:
            log.info("a reader took nothing for %.0f s and is let go", self.slow_s_max)
            return
        finally:
            ended.cancel()
            await self._close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, ended: "asyncio.Task[Any]") -> bytes | None:
        """The next piece; None if there is none, or the process is to end."""
        self.coming = asyncio.ensure_future(anext(self.pieces, None))
        await asyncio.wait({self.coming, ended}, return_when=asyncio.FIRST_COMPLETED)
        return self.coming.result() if self.coming.done() else None

    async def _close(self) -> None:
        """Close the source of the pieces, for which a reader who is gone does not wait.

        Who is cancelled here is cancelled again at each await; what the source itself has to close
        must not be.
        """
        with anyio.CancelScope(shield=True):
            if self.coming is not None and not self.coming.done():
                self.coming.cancel()
                await asyncio.wait({self.coming}, timeout=CLOSE_S_MAX)
            await self.pieces.aclose()


def _answer(
    status: int, code: str, detail: str, errors: list[dict[str, Any]] | None = None
) -> JSONResponse:
    request_id = new_id()
    body: dict[str, Any] = {"detail": detail, "code": code, "request_id": request_id}
    headers = {"X-Request-Id": request_id}
    if errors:
        body["errors"] = errors
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in AGAIN_S:
        headers["Retry-After"] = AGAIN_S[status]
    return JSONResponse(body, status, headers)


def refusal(error: Refused, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """What somebody is told who was refused."""
    errors = [{"field": error.field, "message": error.reason}] if error.field else None
    answer = _answer(STATUS.get(error.code, 400), error.code, error.reason, errors)
    answer.headers.update(headers or {})
    if error.retry_after_s is not None:
        answer.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    return answer


def unavailable(error: Failed) -> JSONResponse:
    """What somebody is told where the world did not work."""
    return _answer(503, "unavailable", str(error))


def failure(status: int, detail: str) -> JSONResponse:
    """What somebody is told whose request cannot even be heard."""
    return _answer(status, CODES.get(status, "invalid_request"), detail)


def install(app: FastAPI) -> None:
    """Give an application the one shape of error: {detail, code, request_id, errors?}."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return refusal(error, getattr(request.state, SAID, {}))

    @app.exception_handler(Failed)
    async def failed(_request: Request, error: Failed) -> JSONResponse:
        return unavailable(error)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        answer = failure(error.status_code, str(error.detail))
        if error.status_code == 405:
            answer.headers["Allow"] = ", ".join(_allowed(request))
        return answer

    @app.exception_handler(ClientDisconnect)
    async def disconnected(_request: Request, _error: ClientDisconnect) -> JSONResponse:
        # Nobody is there to read it.
        return failure(400, "the request broke off")

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [
            {
                "field": ".".join(str(part) for part in one["loc"][1:]) or "body",
                "message": str(one["msg"]),
            }
            for one in error.errors()
        ]
        detail = "; ".join(f"{one['field']}: {one['message']}" for one in errors)
        return _answer(422, "invalid_request", detail, errors)

    @app.exception_handler(Exception)
    async def bug(_request: Request, error: Exception) -> JSONResponse:
        answer = _answer(500, "bug", "something broke here; the request id leads to the log line")
        log.error("request %s broke", answer.headers["x-request-id"], exc_info=error)
        return answer


def _allowed(request: Request) -> list[str]:
    """The methods that a path has, whichever of its routes has them."""
    routes = request.app.router.routes
    return [
        method
        for method in METHODS
        if any(one.matches({**request.scope, "method": method})[0] == Match.FULL for one in routes)
    ]


class Server(uvicorn.Server):
    """uvicorn, with signals left to the service's life."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take no signal."""
        yield


async def serve(
    app: ASGIApp,
    host: str,
    port: int,
    stopping: asyncio.Event,
    limits: HttpLimits | None = None,
) -> None:
    """Answer requests until `stopping`, then finish those in hand within 10 s.

    Without `limits` they are the usual ones. Clients never take more connections than this
    process's limit on open files has room for.
    """
    limits = limits or HttpLimits()
    room = min(limits.connections_max, connections_max(file_limit()))

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, STOPPING: stopping}, receive, send)

    config = uvicorn.Config(
        told,
        http=limited_protocol(replace(limits, connections_max=room)),
        ws="none",
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve())
    ended = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    ended.cancel()
    await serving
    if not stopping.is_set():
        raise Failed(f"nothing can be served on {host}:{port}")
