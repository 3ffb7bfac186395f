"""What all HTTP services share: one error format, one body limit, one way to serve.

A route declares the type of its body in its annotation: a type of `shared.api`, a union of such
types, or a TypedDict of the public client's API, which is sent as it is. mypy checks it, the API
document shows it, and `tests/contract_openapi` checks the bodies against the document.
"""

import asyncio
import contextlib
import functools
import inspect
import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, get_args, get_origin

import anyio
import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import Field, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.api.fields import ApiModel
from shared.api.secrets import has_secret
from shared.clock import new_id
from shared.errors import STATUS_BY_CODE, Failed, Refused
from shared.http_connections import HttpLimits, limited_protocol
from shared.lifecycle import connections_max, file_limit
from shared.run_values import RunValue

Body = TypeVar("Body")
Schema = dict[str, Any]

Seconds = Annotated[float, Field(description="Seconds.")]
# An instant that the body already holds as text.
TimestampText = Annotated[
    str,
    WithJsonSchema({"type": "string", "format": "date-time", "description": "An instant, in UTC."}),
]
SubmissionNumber = Annotated[int, Field(description="The number of a submission.", ge=1)]
SCHEMA_REF = "#/components/schemas/{model}"
# The key that names a schema of another service.
SCHEMA_KEY = "x-schema"


class TypedResponse(Response, Generic[Body]):
    """A response with a known body type, for routes that also set headers or a status."""


class DocumentedRoute(APIRoute):
    """A route documented by its annotation, which sends what it returns without validation."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        body = body_type(endpoint)
        if body is not None:
            more["response_model"] = Any
        if _struct_types(body):
            endpoint = _return_builtins(endpoint)
        super().__init__(path, endpoint, **more)


def _return_builtins(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Make an endpoint return plain dicts in place of API types, which FastAPI cannot encode."""
    assert inspect.iscoroutinefunction(endpoint), f"{endpoint.__qualname__} is not async"

    @functools.wraps(endpoint)
    async def respond_with_builtins(*args: Any, **kwargs: Any) -> Any:
        body = await endpoint(*args, **kwargs)
        return body if isinstance(body, Response) else msgspec.to_builtins(body)

    return respond_with_builtins


def _struct_types(body: Any) -> list[type[msgspec.Struct]]:
    """Return the API types that a body, or an item of a list, may have; else an empty list."""
    if get_origin(body) is list:
        body = get_args(body)[0]
    types = list(get_args(body)) or [body]
    are_structs = all(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in types)
    return types if are_structs else []


class Schemas(NamedTuple):
    """The schema of each route's body, by method and path, and the schemas they refer to."""

    bodies: dict[tuple[str, str], Schema]
    shared: dict[str, Schema]


class _UntitledSchema(GenerateJsonSchema):
    """Generates schemas without field titles, which would only repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  (pydantic's own)
        """Return whether a field has a title: never."""
        return False


def body_type(endpoint: Callable[..., Any]) -> Any | None:
    """Return the body type of a route from its annotation; None if it declares none."""
    annotation = endpoint.__annotations__.get("return")
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is TypedResponse:
            return get_args(part)[0]
    is_response = isinstance(annotation, type) and issubclass(annotation, Response)
    return None if is_response else annotation


def may_have_secret(route: object) -> bool:
    """Return whether a route may answer with a secret; true if the type of its body is unknown."""
    if not isinstance(route, APIRoute):
        return True
    is_documented = isinstance(route, DocumentedRoute)
    body = body_type(route.endpoint) if is_documented else route.response_model
    return body is None or has_secret(body)


def iter_routes(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, BaseRoute]]:
    """Yield every route with its method and full path, including routes of nested routers."""
    for route in iter_route_contexts(list(routes)):
        for method in sorted(route.methods or ()):
            yield method, route.path or "", route.original_route


def build_schemas(routes: Iterable[BaseRoute], beside: Iterable[type] = ()) -> Schemas:
    """Build the schemas of the routes' bodies and of other types; no object is open."""
    declared_types = {
        (method, path): body_type(route.endpoint)
        for method, path, route in iter_routes(routes)
        if isinstance(route, DocumentedRoute)
    } | {("", model.__name__): model for model in beside}
    body_types = {key: model for key, model in declared_types.items() if model is not None}
    struct_types = {key: _struct_types(model) for key, model in body_types.items()}
    inputs: list[tuple[tuple[str, str], JsonSchemaMode, TypeAdapter[Any]]] = [
        (key, "serialization", TypeAdapter(model))
        for key, model in body_types.items()
        if not struct_types[key]
    ]
    by_key, defined = TypeAdapter.json_schemas(
        inputs, ref_template=SCHEMA_REF, schema_generator=_UntitledSchema
    )
    all_structs = sorted({kind for kinds in struct_types.values() for kind in kinds}, key=str)
    _, struct_schemas = msgspec.json.schema_components(
        all_structs, ref_template=SCHEMA_REF.format(model="{name}")
    )
    # Every field is always sent, unless its type omits fields that have their default value.
    pending: list[type[msgspec.Struct]] = [ApiModel, RunValue]
    while pending:
        model = pending.pop()
        pending += model.__subclasses__()
        if model.__name__ in struct_schemas and not model.__struct_config__.omit_defaults:
            fields = struct_schemas[model.__name__]
            fields["required"] = list(fields["properties"])
    shared = defined.get("$defs", {}) | struct_schemas
    _forbid_other_fields([*by_key.values(), *shared.values()])
    bodies = {key: schema for (key, _), schema in by_key.items()}
    for key, kinds in struct_types.items():
        references = [{"$ref": SCHEMA_REF.format(model=kind.__name__)} for kind in kinds]
        if kinds:
            schema: Schema = references[0] if len(references) == 1 else {"anyOf": references}
            is_list = get_origin(body_types[key]) is list
            bodies[key] = {"type": "array", "items": schema} if is_list else schema
    return Schemas(bodies, shared)


def _forbid_other_fields(schema: Any) -> None:
    """Forbid additional properties in objects with named fields, so that no field is forgotten."""
    if isinstance(schema, list):
        for item in schema:
            _forbid_other_fields(item)
    elif isinstance(schema, dict):
        if SCHEMA_KEY in schema:
            schema["$ref"] = SCHEMA_REF.format(model=schema.pop(SCHEMA_KEY))
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            _forbid_other_fields(value)


log = logging.getLogger(__name__)

DRAIN_S = 10
# The public client polls every 5 s on one connection. uvicorn closes an idle one after 5 s by
# default, and a request that crosses the close fails.
KEEP_ALIVE_S = 75
# A client that reads no chunk of a live response for this long is disconnected.
SLOW_S_MAX = 30.0
CLOSE_S_MAX = 5.0
# The scope key of the event that is set when the process stops.
STOPPING = "warpboard.stopping"
# The default Retry-After of a status, in seconds.
RETRY_AFTER_S = {429: "60", 503: "1"}
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
CODE_BY_STATUS = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


class BodyLimitMiddleware:
    """Refuses a request whose body is over a limit, whether or not its length is announced."""

    def __init__(self, app: ASGIApp, bytes_max: int) -> None:
        self.app = app
        self.bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it. Source: the ASGI specification."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif (announced_body_bytes(scope) or 0) > self.bytes_max:
            await body_too_large_response(self.bytes_max)(scope, receive, send)
        else:
            await self.app(scope, limit_body(receive, self.bytes_max), send)


def announced_body_bytes(scope: Scope) -> int | None:
    """Return the length of a request's body from its headers; None if they do not tell."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    return int(length) if length.isdigit() else None


def body_too_large_response(bytes_max: int) -> JSONResponse:
    """Return the response to a request whose body is too large."""
    return error_response(413, f"the request is over {bytes_max:,} bytes")


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


class LiveResponse(StreamingResponse):
    """A streaming response that ends when its process stops.

    A slow reader is disconnected; at most one chunk waits for it. The source of the chunks is
    closed however the response ends.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        status: int,
        headers: Mapping[str, str],
        slow_s_max: float = SLOW_S_MAX,
    ) -> None:
        super().__init__(chunks, status, headers)
        self.chunks = chunks
        self.slow_s_max = slow_s_max
        self.stopping = asyncio.Event()
        self.next_chunk: asyncio.Future[bytes | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond. Source: the ASGI specification."""
        self.stopping = scope.get(STOPPING, self.stopping)
        await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send chunk by chunk; a response cut short by a slow reader has no proper end."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        stop_waiter = asyncio.create_task(self.stopping.wait())
        try:
            while (chunk := await self._read_chunk(stop_waiter)) is not None:
                body = {"type": "http.response.body", "body": chunk, "more_body": True}
                async with asyncio.timeout(self.slow_s_max):
                    await send(body)
        except TimeoutError:
            log.info("disconnected a reader that read nothing for %.0f s", self.slow_s_max)
            return
        finally:
            stop_waiter.cancel()
            # A cancelled scope cancels every await again; the source must be able to close.
            with anyio.CancelScope(shield=True):
                if self.next_chunk is not None and not self.next_chunk.done():
                    self.next_chunk.cancel()
                    await asyncio.wait({self.next_chunk}, timeout=CLOSE_S_MAX)
                await self.chunks.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read_chunk(self, stop_waiter: "asyncio.Task[Any]") -> bytes | None:
        """Return the next chunk; None at the end, or when the process stops."""
        self.next_chunk = asyncio.ensure_future(anext(self.chunks, None))
        await asyncio.wait({self.next_chunk, stop_waiter}, return_when=asyncio.FIRST_COMPLETED)
        return self.next_chunk.result() if self.next_chunk.done() else None


def _json_error(
    status: int, code: str, detail: str, errors: list[dict[str, Any]] | None = None
) -> JSONResponse:
    request_id = new_id()
    body: dict[str, Any] = {"detail": detail, "code": code, "request_id": request_id}
    headers = {"X-Request-Id": request_id, "Cache-Control": "no-store"}
    if errors:
        body["errors"] = errors
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if status in RETRY_AFTER_S:
        headers["Retry-After"] = RETRY_AFTER_S[status]
    return JSONResponse(body, status, headers)


def refused_response(error: Refused, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response to a refused request."""
    errors = [{"field": error.field, "message": error.reason}] if error.field else None
    response = _json_error(STATUS_BY_CODE.get(error.code, 400), error.code, error.reason, errors)
    response.headers.update(headers or {})
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    return response


def failed_response(error: Failed) -> JSONResponse:
    """Return the response when something outside did not work."""
    return _json_error(503, "unavailable", str(error))


def error_response(status: int, detail: str) -> JSONResponse:
    """Return the response to a request that no route can handle."""
    return _json_error(status, CODE_BY_STATUS.get(status, "invalid_request"), detail)


def install_error_handlers(app: FastAPI) -> None:
    """Give an application the common error format: {detail, code, request_id, errors?}."""

    @app.exception_handler(Refused)
    async def refused(_request: Request, error: Refused) -> JSONResponse:
        return refused_response(error)

    @app.exception_handler(Failed)
    async def failed(_request: Request, error: Failed) -> JSONResponse:
        return failed_response(error)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        response = error_response(error.status_code, str(error.detail))
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(_allowed_methods(request))
        return response

    @app.exception_handler(ClientDisconnect)
    async def disconnected(_request: Request, _error: ClientDisconnect) -> JSONResponse:
        # Nobody is left to read it.
        return error_response(400, "the client disconnected")

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [
            {
                "field": ".".join(str(part) for part in item["loc"][1:]) or "body",
                "message": _validation_text(item),
            }
            for item in error.errors()
        ]
        detail = "; ".join(f"{item['field']}: {item['message']}" for item in errors)
        return _json_error(422, "invalid_request", detail, errors)

    @app.exception_handler(Exception)
    async def bug(_request: Request, error: Exception) -> JSONResponse:
        response = _json_error(
            500, "bug", "something broke here; the request id leads to the log line"
        )
        log.error("request %s broke", response.headers["x-request-id"], exc_info=error)
        return response


def _validation_text(item: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, without the pattern of a text in one line."""
    pattern = str(item.get("ctx", {}).get("pattern", ""))
    if item["type"] == "string_pattern_mismatch" and r"\x00" in pattern:
        return "control characters and line breaks are not allowed"
    return str(item["msg"])


def _allowed_methods(request: Request) -> list[str]:
    routes = request.app.router.routes
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] == Match.FULL for route in routes
        )
    ]


class Server(uvicorn.Server):
    """A uvicorn server that leaves signals to the service's lifecycle."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture no signal."""
        yield


async def serve(
    app: ASGIApp, host: str, port: int, stopping: asyncio.Event, limits: HttpLimits | None = None
) -> None:
    """Serve requests until `stopping`, then finish those in progress within 10 s.

    `limits` default to the usual ones. Clients never get more connections than this process's limit
    on open files allows.
    """
    limits = limits or HttpLimits()
    connections_limit = min(limits.connections_max, connections_max(file_limit()))

    async def app_with_stopping(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, STOPPING: stopping}, receive, send)

    config = uvicorn.Config(
        app_with_stopping,
        http=limited_protocol(replace(limits, connections_max=connections_limit)),
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
    stop_waiter = asyncio.create_task(stopping.wait())
    await asyncio.wait({serving, stop_waiter}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stop_waiter.cancel()
    await serving
    if not stopping.is_set():
        raise Failed(f"cannot serve on {host}:{port}")
