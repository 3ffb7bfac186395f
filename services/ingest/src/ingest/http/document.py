"""The OpenAPI document: own routes, forwarded reads, one form of error; and the page /docs."""

import importlib.resources
import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse

from ingest.http.examples import give_examples
from shared.errors import STATUS_BY_CODE
from shared.http import CODE_BY_STATUS
from shared.response_types import Schemas, build_schemas

READS = "reads.json"
JSON, EVENTS = "application/json", "text/event-stream"
ERROR = {
    "type": "object",
    "required": ["detail", "code", "request_id"],
    "properties": {
        "detail": {"type": "string", "description": "One readable sentence."},
        "code": {
            "type": "string",
            "description": "The same, for programs.",
            "enum": sorted({*STATUS_BY_CODE, *CODE_BY_STATUS.values(), "unavailable", "bug"}),
        },
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "error": {"type": "string", "description": "The code once more, for OAuth's clients."},
        "error_description": {"type": "string", "description": "The sentence once more."},
    },
    "additionalProperties": False,
    "example": {
        "detail": "there is no submission 1207",
        "code": "unknown_submission",
        "request_id": "01a1fe70-a804-7827-b3a0-39e1f99403c8",
    },
}
# Why a request may be refused, by status; `errors` in the body names the field.
REASONS = {
    "400": "A value is invalid: the code says which one, and the detail how to fix it.",
    "401": "A credential is missing, unknown, expired or revoked.",
    "403": "Not allowed: a scope is missing, or it belongs to somebody else.",
    "404": "It does not exist, or not for this caller.",
    "409": "It conflicts with the current state.",
    "410": "It has expired: start again.",
    "413": "It is too large; the detail names the limit.",
    "415": "Archives are not accepted.",
    "422": "The request does not match this document, or contradicts itself.",
    "429": "Too many requests, or a quota is used up.",
    "503": "A service is unavailable, or an operator paused it: try again.",
}
OF_READS = ("400", "401", "403", "404", "410", "422", "429", "503")
HEADERS: Mapping[str, Mapping[str, Any]] = {
    "401": {"WWW-Authenticate": {"schema": {"type": "string"}, "example": "Bearer"}},
    "429": {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "example": 2}},
    "503": {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "example": 1}},
}
REQUEST_ID: Mapping[str, Mapping[str, Any]] = {"X-Request-Id": {"schema": {"type": "string"}}}
SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token with the scope that the route needs; `warpboard login` makes one.",
    },
    "cliId": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Popcorn-Cli-Id",
        "description": "A token of a participant as popcorn-cli sends it; never an operator's.",
    },
    "login": {
        "type": "apiKey",
        "in": "cookie",
        "name": "warpboard_session",
        "description": "The web page's login; on anything but GET with the header X-CSRF-Token.",
    },
}
OPEN = (
    *("GET /health", "GET /healthz", "GET /readyz", "GET /auth/init", "GET /v1/intake"),
    "GET /v1/leaderboards/{slug}",
    *("POST /v1/auth/device", "POST /v1/auth/device/token", "GET /leaderboards"),
    *("GET /gpus/{leaderboard}", "GET /runner_queue/{gpu}"),
    *("GET /submissions/{leaderboard}/{gpu}", "GET /submission_count/{leaderboard}/{gpu}"),
)
# Reads that need a credential.
GUARDED_READS = ("/v1/me/", "/v1/admin/")

PAGE_PACKAGE, SWAGGER = "ingest.http", "fastapi_swagger"
CACHE = "public, max-age=3600"
# swagger-ui sets inline styles; everything else comes from this server.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": CACHE,
}


class PublicApi(FastAPI):
    """An application whose OpenAPI document covers every route of the public API."""

    _document: dict[str, Any] | None = None

    def openapi(self) -> dict[str, Any]:
        """Return the document; it is built once, when all routes are added."""
        if self._document is None:
            self._document = document(super().openapi(), build_schemas(self.routes))
        return self._document


def read_paths() -> dict[str, dict[str, Any]]:
    """Return the paths of the reads with their operations; `make docs` writes the file."""
    paths: dict[str, dict[str, Any]] = _reads()["paths"]
    return paths


def _reads() -> dict[str, Any]:
    text = (importlib.resources.files("ingest.http") / READS).read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def document(own: dict[str, Any], response_schemas: Schemas) -> dict[str, Any]:
    """Return the document of ingest's own routes, with the reads and all errors."""
    reads, read_routes = _reads(), read_paths()
    paths = reads["paths"]
    for path, operations in own["paths"].items():
        for method, operation in operations.items():
            _set_response_schema(operation, response_schemas.bodies.get((method.upper(), path)))
        paths[path] = paths.get(path, {}) | operations
    for route, operation in _operations(paths):
        method, _, path = route.partition(" ")
        is_read = method.lower() in read_routes.get(path, {})
        # FastAPI's own form of 422 is never sent.
        operation["responses"].pop("422", None)
        operation["responses"] |= _refusals(OF_READS if is_read else tuple(REASONS))
        is_open = route in OPEN or (is_read and not path.startswith(GUARDED_READS))
        operation["security"] = [{}, *_credentials()] if is_open else _credentials()
    components = own.get("components", {})
    own_schemas = components.get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        own_schemas.pop(name, None)
    schema_sources = [
        own_schemas,
        response_schemas.shared,
        reads["components"]["schemas"],
        {"Error": ERROR},
    ]
    shared = components | {"schemas": _join_schemas(schema_sources), "securitySchemes": SCHEMES}
    combined = own | {"paths": dict(sorted(paths.items())), "components": shared}
    give_examples(combined)
    return combined


def _set_response_schema(operation: dict[str, Any], body: dict[str, Any] | None) -> None:
    """Set the response schema of an operation for every success status."""
    if body is None:
        return
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            continue
        if EVENTS in response.get("content", {}):
            response["content"][EVENTS]["x-events"] = body
        else:
            response["content"] = {JSON: {"schema": body}}


def _join_schemas(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Join schemas of several sources; a name must mean one thing."""
    joined: dict[str, Any] = {}
    for part in parts:
        conflicts = sorted(name for name in part if joined.get(name, part[name]) != part[name])
        assert not conflicts, (
            f"two different schemas in the OpenAPI document: {', '.join(conflicts)}"
        )
        joined |= part
    return joined


def _operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in paths.items():
        for method, operation in operations.items():
            yield f"{method.upper()} {path}", operation


def _credentials() -> list[dict[str, list[str]]]:
    return [{name: []} for name in SCHEMES]


def _refusals(statuses: tuple[str, ...]) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {
        status: {
            "description": REASONS[status],
            "headers": {**REQUEST_ID, **HEADERS.get(status, {})},
            "content": {JSON: {"schema": schema}},
        }
        for status in statuses
    }


def add_docs_page(app: FastAPI) -> None:
    """Add the page and its static files."""
    page_folder = Path(str(files(PAGE_PACKAGE))) / "page"
    swagger_folder = Path(str(files(SWAGGER))) / "resources"

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        """The page."""
        return FileResponse(page_folder / "docs.html", headers=PAGE_HEADERS)

    @app.get("/static/docs.js", include_in_schema=False)
    async def begin() -> FileResponse:
        """The script that starts it."""
        return FileResponse(page_folder / "docs.js", headers=PAGE_HEADERS)

    @app.get("/static/swagger-ui.js", include_in_schema=False)
    async def program() -> FileResponse:
        """The script that renders it."""
        return FileResponse(swagger_folder / "swagger-ui-bundle.js", headers=PAGE_HEADERS)

    @app.get("/static/swagger-ui.css", include_in_schema=False)
    async def style() -> FileResponse:
        """The style sheet."""
        return FileResponse(swagger_folder / "swagger-ui.css", headers=PAGE_HEADERS)
