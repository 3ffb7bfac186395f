"""The OpenAPI document: own routes, forwarded reads, errors and examples; and the page /docs."""

import importlib.resources
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse

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

EXAMPLE_REASON = "the kernel returns a result that it kept from another call"
# A name has one meaning (docs/glossary.md), so one example serves everywhere.
FIELDS: dict[str, Any] = {
    "bucket": "identity.H100.ranked",
    "cli_id": "Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "client_id": "warpboard on a laptop",
    "code": "inv_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8s",
    "command": "psql",
    "confirm": False,
    "consent": "What I send in may be read by everybody after the deadline.\n",
    "count": 1,
    "branch": "main",
    "deadline": "2027-01-31T12:00:00Z",
    "deadline_at": "2027-01-31T12:00:00Z",
    "deadline_near": "dm",
    "deny": False,
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "directory": "identity",
    "device_code": "Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "dry_run": True,
    "events": ["submission.ended", "submission.ranked"],
    "every_s": 3600,
    "expires_at": "2027-01-31T12:00:00Z",
    "expires_in_days": 90,
    "file": "def custom_kernel(data):\n    return data\n",
    "filename": "identity.parquet",
    "files": ["lang: py\n"],
    "first": 47,
    "force": False,
    "from_version": 1,
    "gpu": "H100",
    "gpus": ["H100", "A100"],
    "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
    "is_accepted": True,
    "leaderboard": "identity",
    "leaderboard_ids": [46021094017],
    "leaderboards": ["identity"],
    "licence_problem": "MIT",
    "licence_submissions": "Apache-2.0",
    "limit": 20,
    "max_submissions_per_hour": 10,
    "mode_category": "test",
    "mode": "ranked",
    "name": "laptop",
    "note": "tiles of 64 x 64",
    "overtaken": "dm",
    "owner": "lab",
    "participant": "ada",
    "participant_id": "01a1fe70a8047827b3a039e1f99403c8",
    "problem": "identity",
    "problem_set": "autumn",
    "problems": ["identity"],
    "provider": "github",
    "private": True,
    "publish": "after_close",
    "quota": ["ranked=10/day"],
    "quotas": ["ranked=10/day", "H100.test=60/hour"],
    "ranking_by": "geom",
    "ranked_line": "off",
    "ratio_max": 1.05,
    "reason": EXAMPLE_REASON,
    "report": "{}",
    "repository": "ada/kernels",
    "role": "creator",
    "rule": "results are computed again in every call",
    "run_finished": "off",
    "scope": "submit read:own",
    "scopes": ["submit", "read:own"],
    "secret": "a-secret-of-16-characters-or-more",
    "second": 12,
    "select": "best",
    "seq": 1207,
    "sign_key": "MCowBQYDK2VwAyEAZk3v0hQ2mJx9bR7cT5nW1yLqPa8=",
    "slug": "identity",
    "source_visible": "after_close",
    "subject": "4242",
    "submission": 1207,
    "tag": "tiles",
    "target": "the database of the read models",
    "text": "the result is computed again: see line 12",
    "threads": "per_problem",
    "title": "Copy a vector",
    "to_version": 2,
    "unchecked": "the machine that checks is away; checked by hand",
    "until": "2027-01-31T12:00:00Z",
    "until_at": "2027-01-31T12:00:00Z",
    "url": "https://hooks.example.org/warpboard",
    "user_code": "BCDF-GHJK",
    "visibility": "closed",
    "window_s": 3600,
}
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
AT = "2026-11-21T12:00:00Z"
# Values of response fields, where the type says too little.
TOLD: dict[str, Any] = {
    "agent": "gpu-7",
    "artifacts": [{"name": "profile-1207-0.zip", "url": "/jobs/1207/artifacts/0"}],
    "bytes": 2048,
    "code": "ranked",
    "codes": ["inv_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8s"],
    "description": "Copy the input.",
    "detail": "the kernel is wrong for n=64",
    "event": "IntakePaused",
    "file_name": "kernel.py",
    "gpu": "H100",
    "gpu_type": "H100",
    "gpus": ["H100"],
    "gpu_types": ["H100"],
    "id": "01a1fe70a8047827b3a039e1f99403c8",
    "leaderboard": "identity",
    "leaderboard_name": "identity",
    "media": "text/plain",
    "message": "Submission 1207 is running on H100: benchmark 3/7",
    "name": "ada",
    "number": 1207,
    "participant": "ada",
    "problem": "identity",
    "reason": "",
    "score": 0.0000105,
    "score_us": 10.5,
    "slug": "identity",
    "status": "succeeded",
    "submission": "01a1fe70a8047827b3a039e1f99403c8",
    "submission_id": 1207,
    "title": "Identity",
    "token": "wb_Zk3v0hQ2mJx9bR7cT5nW1yLqPa8sDfGe",
    "url": "/v1/submissions/1207/files/log.txt",
    "user_name": "ada",
    "verdict": "passed",
}
PLAIN: dict[str, Any] = {"string": "", "integer": 1, "number": 1.5, "boolean": False, "null": None}
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
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
    credentials: list[dict[str, list[str]]] = [{name: []} for name in SCHEMES]
    for path, operations in paths.items():
        for method, operation in operations.items():
            is_read = method in read_routes.get(path, {})
            # FastAPI's own form of 422 is never sent.
            operation["responses"].pop("422", None)
            operation["responses"] |= _refusals(OF_READS if is_read else tuple(REASONS))
            is_open = f"{method.upper()} {path}" in OPEN or (
                is_read and not path.startswith(GUARDED_READS)
            )
            operation["security"] = [{}, *credentials] if is_open else credentials
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


def give_examples(document: dict[str, Any]) -> None:
    """Add an example to each field of each request body, and to each body and response."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for media, content in operation.get("requestBody", {}).get("content", {}).items():
                schema = _resolve_schema(document, content["schema"])
                fields = schema.get("properties", {})
                example_fields = [name for name in fields if name in FIELDS]
                example = {name: _example(name, fields[name]) for name in example_fields}
                for name, value in example.items():
                    fields[name]["example"] = value
                if media == JSON:
                    content["example"] = example
            _give_response_examples(document, operation)


def _give_response_examples(document: dict[str, Any], operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        content = response.get("content", {}).get(JSON, {})
        if status.startswith("2") and content.get("schema"):
            content["example"] = _response_example(document, "", content["schema"])


def _response_example(document: dict[str, Any], name: str, schema: dict[str, Any]) -> Any:
    """Return an example response for a schema; `name` is the field that has it."""
    schema = _dereference(document, schema)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "anyOf" in schema:
        return _response_example(document, name, schema["anyOf"][0])
    kind = schema.get("type", "object")
    if isinstance(TOLD.get(name), KINDS.get(kind, ())) and "format" not in schema:
        return TOLD[name]
    if kind == "array":
        items = schema.get("prefixItems") or [schema["items"]] * schema.get("minItems", 1)
        return [_response_example(document, name.removesuffix("s"), item) for item in items]
    if kind == "object":
        fields = schema.get("properties", {})
        return {
            key: _response_example(document, key, field_schema)
            for key, field_schema in fields.items()
        }
    return _text(schema) if kind == "string" else PLAIN[kind]


def _text(schema: dict[str, Any]) -> str:
    if schema.get("format") == "date-time":
        return AT
    return DIGEST if "64" in schema.get("pattern", "") else PLAIN["string"]


def _dereference(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    target: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return target


def _resolve_schema(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema itself if it is a reference."""
    name = schema.get("$ref", schema.get("allOf", [{}])[0].get("$ref", ""))
    if not name and "anyOf" in schema:
        return _resolve_schema(document, schema["anyOf"][0])
    if not name:
        return schema
    target: dict[str, Any] = document["components"]["schemas"][name.rpartition("/")[2]]
    return target


def _example(name: str, schema: dict[str, Any]) -> Any:
    kinds = [schema, *schema.get("anyOf", [])]
    is_list = any(kind.get("type") == "array" for kind in kinds)
    value = FIELDS[name]
    return [value] if is_list and not isinstance(value, list) else value


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
