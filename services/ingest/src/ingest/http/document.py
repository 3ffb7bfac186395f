"""The OpenAPI document: what ingest answers itself, the reads it passes on, one shape of error."""

import importlib.resources
import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

from ingest.http.examples import give_examples
from shared.answers import Schemas, schemas
from shared.codes import STATUS
from shared.http import CODES

READS = "reads.json"
JSON, EVENTS = "application/json", "text/event-stream"
ERROR = {
    "type": "object",
    "required": ["detail", "code", "request_id"],
    "properties": {
        "detail": {"type": "string", "description": "One readable sentence."},
        "code": {
            "type": "string",
            "description": "The same for programs.",
            "enum": sorted({*STATUS, *CODES.values(), "unavailable", "bug"}),
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
# Why a request may be refused, by status; `errors` of the body says which field is to blame.
REASONS = {
    "400": "What is asked for cannot be: the code says which value, and the detail how to mend it.",
    "401": "A credential is missing, unknown, expired or revoked.",
    "403": "Who asks may not: a scope is missing, or it is somebody else's.",
    "404": "There is no such thing, or not for who asks.",
    "409": "Not as things stand.",
    "410": "It was good once: begin anew.",
    "413": "It is too large; the detail names the limit.",
    "415": "Archives are not taken.",
    "422": "The request is not as this document says, or contradicts itself.",
    "429": "Too often, or a quota is used up.",
    "503": "Something is away, or an operator stopped it: ask again.",
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
# Reads that are nobody's without a credential.
GUARDED_READS = ("/v1/me/", "/v1/admin/")


def describe(app: FastAPI) -> None:
    """Let an application's document tell of every route of the public API."""
    plain = app.openapi
    known: list[dict[str, Any]] = []

    def whole() -> dict[str, Any]:
        if not known:
            known.append(document(plain(), schemas(app.routes)))
        return known[0]

    app.openapi = whole  # type: ignore[method-assign]


def read_paths() -> dict[str, dict[str, Any]]:
    """The paths of the reads, and what the document says of each; `make docs` writes the file."""
    paths: dict[str, dict[str, Any]] = _reads()["paths"]
    return paths


def _reads() -> dict[str, Any]:
    text = (importlib.resources.files("ingest.http") / READS).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def document(own: dict[str, Any], told: Schemas) -> dict[str, Any]:
    """The document of ingest's own routes, with the reads and the errors that all may answer."""
    reads, known = _reads(), read_paths()
    paths = reads["paths"]
    for path, said in own["paths"].items():
        for method, operation in said.items():
            _say(operation, told.bodies.get((method.upper(), path)))
        paths[path] = paths.get(path, {}) | said
    for route, operation in _operations(paths):
        method, _, path = route.partition(" ")
        is_read = method.lower() in known.get(path, {})
        # FastAPI's own shape of 422 is none of ours.
        operation["responses"].pop("422", None)
        operation["responses"] |= _refusals(OF_READS if is_read else tuple(REASONS))
        is_open = route in OPEN or (is_read and not path.startswith(GUARDED_READS))
        operation["security"] = [{}, *_credentials()] if is_open else _credentials()
    components = own.get("components", {})
    asked = components.get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        asked.pop(name, None)
    parts = [asked, told.shared, reads["components"]["schemas"], {"Error": ERROR}]
    shared = components | {"schemas": _joined(parts), "securitySchemes": SCHEMES}
    found = own | {"paths": dict(sorted(paths.items())), "components": shared}
    give_examples(found)
    return found


def _say(operation: dict[str, Any], body: dict[str, Any] | None) -> None:
    """Let an operation tell of its body, whichever status of success it comes with."""
    if body is None:
        return
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            continue
        if EVENTS in response.get("content", {}):
            response["content"][EVENTS]["x-events"] = body
        else:
            response["content"] = {JSON: {"schema": body}}


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Schemas of several sources; a name means one thing."""
    found: dict[str, Any] = {}
    for part in parts:
        twice = sorted(name for name in part if found.get(name, part[name]) != part[name])
        assert not twice, f"the document has two schemas each of {', '.join(twice)}"
        found |= part
    return found


def _operations(paths: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, said in paths.items():
        for method, operation in said.items():
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
