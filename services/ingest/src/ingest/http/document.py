"""The OpenAPI document: own routes, forwarded reads, errors and examples.

`introduction.md` is the text at the top. `reads.json` has the reads, which ranker answers;
`document.json` has the tags, the errors, the credentials, and the examples: a name has one meaning
(docs/glossary.md), so one example serves everywhere.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import FastAPI

from shared.api.evaluations import EvaluationRequest
from shared.errors import STATUS_BY_CODE
from shared.http import CODE_BY_STATUS, Schemas, build_schemas

# Types of the API in which routes read their bodies.
READ_TYPES = (EvaluationRequest,)
READS = "reads.json"
JSON, EVENTS = "application/json", "text/event-stream"
OF_READS = ("400", "401", "403", "404", "410", "422", "429", "503")
OPEN = (
    *("GET /health", "GET /healthz", "GET /readyz", "GET /auth/init", "GET /v1/intake"),
    *("GET /v1/leaderboards/{slug}", "POST /v1/archive/search"),
    *("GET /v1/contests", "GET /v1/contests/{slug}", "GET /v1/contests/{slug}/contestants"),
    *("POST /v1/auth/device", "POST /v1/auth/device/token", "GET /leaderboards"),
    *("GET /gpus/{leaderboard}", "GET /runner_queue/{gpu}"),
    *("GET /submissions/{leaderboard}/{gpu}", "GET /submission_count/{leaderboard}/{gpu}"),
)
# Reads that need a credential.
GUARDED_READS = ("/v1/me/", "/v1/admin/")
# Examples of values by the type, the format or the pattern of their schema.
PLAIN: dict[str, Any] = {"string": "", "integer": 1, "number": 1.5, "boolean": False, "null": None}
AT = "2026-11-21T12:00:00Z"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
}


class PublicApi(FastAPI):
    """An application whose OpenAPI document covers every route of the public API."""

    def openapi(self) -> dict[str, Any]:
        """Return the document; it is built once, when all routes are added."""
        if self.openapi_schema is None:
            own = super().openapi()
            self.openapi_schema = _build_document(own, build_schemas(self.routes, READ_TYPES))
        return self.openapi_schema


def read_paths() -> dict[str, dict[str, Any]]:
    """Return the paths of the reads with their operations; `make docs` writes the file."""
    paths: dict[str, dict[str, Any]] = _load(READS)["paths"]
    return paths


def error_schema() -> dict[str, Any]:
    """Return the schema of the body of every refusal and failure."""
    schema: dict[str, Any] = _load("document.json")["error"]
    codes = {*STATUS_BY_CODE, *CODE_BY_STATUS.values(), "unavailable", "bug"}
    schema["properties"]["code"]["enum"] = sorted(codes)
    return schema


def read_introduction() -> str:
    """Return the text at the top of the document, as Markdown."""
    return (files("ingest.http") / "introduction.md").read_text(encoding="utf-8")


def _load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((files("ingest.http") / name).read_text(encoding="utf-8"))
    return document


def _build_document(own: dict[str, Any], response_schemas: Schemas) -> dict[str, Any]:
    """Return the document of ingest's own routes, with the reads and all errors."""
    reads, fixed = _load(READS), _load("document.json")
    read_operations = {(path, method) for path, item in reads["paths"].items() for method in item}
    paths = reads["paths"]
    for path, operations in own["paths"].items():
        for method, operation in operations.items():
            if body := response_schemas.bodies.get((method.upper(), path)):
                _set_response_schema(operation, body)
        paths[path] = paths.get(path, {}) | operations
    credentials: list[dict[str, list[str]]] = [{name: []} for name in fixed["security_schemes"]]
    for path, operations in paths.items():
        for method, operation in operations.items():
            is_read = (path, method) in read_operations
            # FastAPI's own form of 422 is never sent.
            operation["responses"].pop("422", None)
            operation["responses"] |= _refusals(fixed, OF_READS if is_read else fixed["reasons"])
            is_open = f"{method.upper()} {path}" in OPEN or (
                is_read and not path.startswith(GUARDED_READS)
            )
            operation["security"] = [{}, *credentials] if is_open else credentials
            operation["tags"] = [_find_tag(fixed["tags"], path)]
            _set_summary(operation)
    components = own.get("components", {})
    own_schemas = components.get("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        own_schemas.pop(name, None)
    schemas: dict[str, Any] = {"Error": error_schema()}
    for source in (own_schemas, response_schemas.shared, reads["components"]["schemas"]):
        conflicts = sorted(
            name for name in source if schemas.get(name, source[name]) != source[name]
        )
        assert not conflicts, f"two different schemas of the same name: {', '.join(conflicts)}"
        schemas |= source
    shared = components | {"schemas": schemas, "securitySchemes": fixed["security_schemes"]}
    tags = [{key: tag[key] for key in ("name", "description")} for tag in fixed["tags"]]
    document = own | {"tags": tags, "paths": dict(sorted(paths.items())), "components": shared}
    _add_examples(document, fixed)
    return document


def _find_tag(tags: list[dict[str, Any]], path: str) -> str:
    """Return the tag of a route: the one with the longest path that the route begins with."""
    lengths = {
        len(prefix): tag["name"]
        for tag in tags
        for prefix in tag["paths"]
        if f"{path}/".startswith(f"{prefix.rstrip('/')}/")
    }
    return str(lengths[max(lengths)])


def _set_summary(operation: dict[str, Any]) -> None:
    """Move the first sentence of the description to the summary."""
    text = " ".join(operation.pop("description", "").split())
    sentence, _, more = text.partition(". ")
    operation["summary"] = sentence.removesuffix(".")
    if more:
        operation["description"] = more


def _set_response_schema(operation: dict[str, Any], body: dict[str, Any]) -> None:
    """Set the response schema of an operation for every success status."""
    for status, response in operation["responses"].items():
        if not status.startswith("2"):
            continue
        if EVENTS in response.get("content", {}):
            response["content"][EVENTS]["x-events"] = body
        else:
            response["content"] = {JSON: {"schema": body}}


def _refusals(fixed: dict[str, Any], statuses: Iterable[str]) -> dict[str, Any]:
    request_id = {"X-Request-Id": {"schema": {"type": "string"}}}
    return {
        status: {
            "description": fixed["reasons"][status],
            "headers": request_id | fixed["headers"].get(status, {}),
            "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status in statuses
    }


def _fit_example(field: Mapping[str, Any], value: Any) -> Any:
    """Return the example of a name as a value of one of the fields that have it.

    >>> _fit_example({"type": "array"}, "H100"), _fit_example({"type": "string"}, 0.02)
    (['H100'], '0.02')
    """
    kinds = {kind.get("type") for kind in (field, *field.get("anyOf", ()))}
    if "array" in kinds and not isinstance(value, list):
        value = list(value.values()) if isinstance(value, dict) else [value]
    if "string" in kinds and isinstance(value, float):
        value = str(value)
    return value if value in field.get("enum", [value]) else field["enum"][0]


def _add_examples(document: dict[str, Any], fixed: dict[str, Any]) -> None:
    """Add an example to each field of each request body, and to each body and response."""
    values = fixed["request_examples"]
    for operation in [each for item in document["paths"].values() for each in item.values()]:
        for media, content in operation.get("requestBody", {}).get("content", {}).items():
            body = content["schema"]
            body = _dereference(document, (body.get("allOf") or body.get("anyOf") or [body])[0])
            fields = {name: field for name, field in body["properties"].items() if name in values}
            for name, field in fields.items():
                field["example"] = _fit_example(field, values[name])
            if media == JSON:
                content["example"] = {name: field["example"] for name, field in fields.items()}
        for status, response in operation["responses"].items():
            content = response.get("content", {}).get(JSON, {})
            if status.startswith("2") and content.get("schema"):
                example = _ResponseExample(document, fixed["response_examples"])
                content["example"] = example.value("", content["schema"])


class _ResponseExample(NamedTuple):
    """Makes examples of responses; `values` are those of fields whose type says too little."""

    document: dict[str, Any]
    values: dict[str, Any]

    def value(self, name: str, schema: dict[str, Any]) -> Any:
        """Return an example for a schema; `name` is the field that has it."""
        schema = _dereference(self.document, schema)
        if "const" in schema or "enum" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        if "anyOf" in schema:
            return self.value(name, schema["anyOf"][0])
        kind = schema.get("type", "object")
        if isinstance(self.values.get(name), KINDS.get(kind, ())) and "format" not in schema:
            return self.values[name]
        if kind == "array":
            items = schema.get("prefixItems") or [schema["items"]] * schema.get("minItems", 1)
            return [self.value(name.removesuffix("s"), item) for item in items]
        if kind == "object":
            fields = schema.get("properties", {})
            return {key: self.value(key, field) for key, field in fields.items()}
        text = DIGEST if "64" in schema.get("pattern", "") else PLAIN[kind]
        return AT if schema.get("format") == "date-time" else text


def _dereference(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    target: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return target
