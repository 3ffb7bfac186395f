"""The OpenAPI document: what ingest answers itself, the reads it passes on, one shape of error."""

import importlib.resources
import json
from typing import Any

from fastapi import FastAPI

READS = "reads.json"
BEARER = "bearer"
ERROR = {
    "type": "object",
    "required": ["detail", "code", "request_id"],
    "properties": {
        "detail": {"type": "string", "description": "One readable sentence."},
        "code": {"type": "string", "description": "The same for programs."},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "example": {
        "detail": "there is no submission 1207",
        "code": "unknown_submission",
        "request_id": "01a1fe70-a804-7827-b3a0-39e1f99403c8",
    },
}
REFUSED = {
    "description": "It was refused, or something is away: the body says what and why.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def describe(app: FastAPI) -> None:
    """Let an application's document tell of every route of the public API."""
    plain = app.openapi

    def whole() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(plain())
        return app.openapi_schema

    app.openapi = whole  # type: ignore[method-assign]


def document(own: dict[str, Any]) -> dict[str, Any]:
    """The document of ingest's own routes, with the reads and the errors that all may answer."""
    text = (importlib.resources.files("ingest.http") / READS).read_text(encoding="utf-8")
    paths = json.loads(text)["paths"]
    for path, said in own["paths"].items():
        paths[path] = paths.get(path, {}) | said
    for said in paths.values():
        for operation in said.values():
            # FastAPI's own shape of 422 is none of ours.
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = REFUSED
    components = own.get("components", {})
    schemas = dict(components.get("schemas", {})) | {"Error": ERROR}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemes = {BEARER: {"type": "http", "scheme": "bearer"}}
    shared = components | {"schemas": schemas, "securitySchemes": schemes}
    # Most reads need no token; what needs one answers 401 without.
    security: list[dict[str, Any]] = [{}, {BEARER: []}]
    return own | {"paths": paths, "components": shared, "security": security}
