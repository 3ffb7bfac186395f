"""The page /docs: the OpenAPI document of the HTTP API, readable without scripts."""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response
from markupsafe import Markup

from ingest.identity.login.web import Web
from ingest.site.formatting import markdown_parser, render_markdown

JSON = "application/json"
EXAMPLE_CHARS_MAX = 88
# How types of JSON Schema are shown; `format` and `contentMediaType` are more exact.
TYPES = {"integer": "integer", "number": "number", "boolean": "true or false", "string": "text"}


class Field(NamedTuple):
    """A parameter, or a field of a request body; `place` says where it is sent."""

    name: str
    place: str
    type: str
    is_required: bool
    description: Markup


class Operation(NamedTuple):
    """A route; `command` calls it, and `example` is a response, "" if it is not JSON."""

    method: str
    path: str
    anchor: str
    summary: str
    description: Markup
    is_open: bool
    fields: Sequence[Field]
    command: Markup
    status: str
    response: str
    example: Markup


class Group(NamedTuple):
    """The routes of a topic."""

    name: str
    anchor: str
    description: str
    operations: Sequence[Operation]


class Refusal(NamedTuple):
    """A status of refusals and failures, and when it is sent."""

    status: str
    reason: str


class Reference(NamedTuple):
    """What the page shows."""

    introduction: Markup
    groups: Sequence[Group]
    refusals: Sequence[Refusal]


def make_reference(document: Mapping[str, Any]) -> Reference:
    """Return an OpenAPI document as it is shown."""
    operations = [
        (operation["tags"][0], _make_operation(document, method, path, operation))
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]
    groups = [
        Group(
            tag["name"],
            _anchor(tag["name"]),
            tag["description"],
            [operation for name, operation in operations if name == tag["name"]],
        )
        for tag in document["tags"]
    ]
    reasons = {
        status: response["description"]
        for item in document["paths"].values()
        for operation in item.values()
        for status, response in operation["responses"].items()
        if status >= "400"
    }
    refusals = [Refusal(status, reason) for status, reason in sorted(reasons.items())]
    return Reference(render_markdown(document["info"]["description"]), groups, refusals)


def _make_operation(
    document: Mapping[str, Any], method: str, path: str, operation: Mapping[str, Any]
) -> Operation:
    fields = [*_parameters(document, operation), *_body_fields(document, operation)]
    status, response = next(iter(sorted(operation["responses"].items())))
    content = response.get("content", {})
    answer = content.get(JSON, {})
    example = _format_json(answer["example"]) if "example" in answer else ""
    command = _command(method.upper(), path, operation, fields)
    return Operation(
        method.upper(),
        path,
        _anchor(f"{method} {path}"),
        operation["summary"],
        _inline(operation.get("description", "")),
        {} in operation["security"],
        fields,
        _text(command),
        status,
        type_text(document, answer["schema"]) if "schema" in answer else ", ".join(content),
        _text(example),
    )


def _format_json(value: object, indent: str = "") -> str:
    """Return JSON on as few lines as fit.

    >>> _format_json({"gpus": ["H100", "B200"]})
    '{"gpus": ["H100", "B200"]}'
    """
    line = json.dumps(value)
    if len(indent) + len(line) <= EXAMPLE_CHARS_MAX or not isinstance(value, dict | list):
        return line
    deeper = f"{indent} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_format_json(it, deeper)}" for key, it in value.items()]
    else:
        parts = [_format_json(it, deeper) for it in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = f",\n{deeper}".join(parts)
    return f"{opening}\n{deeper}{body}\n{indent}{closing}"


def _inline(text: str) -> Markup:
    """Return a description with its code and links."""
    return Markup(markdown_parser().renderInline(text))  # noqa: S704


def _text(text: str) -> Markup:
    """Return the text of an element; references for its quotes would be a tenth of the page."""
    return Markup(html.escape(text, quote=False))  # noqa: S704


def _anchor(text: str) -> str:
    """Return an anchor.

    >>> _anchor("get /v1/problems/{slug}")
    'get-v1-problems-slug'
    """
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")


def type_text(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Return the type of a schema in words.

    >>> type_text({}, {"anyOf": [{"type": "integer"}, {"type": "null"}]})
    'integer, or null'
    >>> type_text({}, {"enum": ["test", "ranked"]})
    'test, ranked'
    """
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        target = document["components"]["schemas"][name]
        return type_text(document, target) if "enum" in target else name
    if "const" in schema or "enum" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    if parts := schema.get("anyOf") or schema.get("allOf"):
        names = [type_text(document, part) for part in parts if part.get("type") != "null"]
        null = ", or null" if len(names) < len(parts) else ""
        return " or ".join(dict.fromkeys(names)) + null
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {type_text(document, schema.get('items', {}))}"
    if kind == "string":
        is_file = "contentMediaType" in schema or schema.get("format") == "binary"
        known = {"date-time": "instant", "binary": "file"}
        return "file" if is_file else known.get(schema.get("format", ""), "text")
    return TYPES.get(kind, str(kind))


def _parameters(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[Field]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "cookie":
            continue
        schema = parameter.get("schema", {})
        description = parameter.get("description") or schema.get("description", "")
        # The path itself shows a text in it that has no description.
        if parameter["in"] == "path" and schema.get("type") == "string" and not description:
            continue
        yield Field(
            parameter["name"],
            parameter["in"],
            type_text(document, schema),
            parameter.get("required", False),
            _inline(description),
        )


def _body_fields(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[Field]:
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        schema = (schema.get("anyOf") or schema.get("allOf") or [schema])[0]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        place = {JSON: "JSON"}.get(media, "form")
        for name, field in schema.get("properties", {}).items():
            kind = type_text(document, field)
            is_required = name in schema.get("required", ())
            yield Field(name, place, kind, is_required, _inline(field.get("description", "")))


def _command(method: str, path: str, operation: Mapping[str, Any], fields: Sequence[Field]) -> str:
    """Return a command of curl that calls a route with its required fields."""
    parts = ["curl"]
    if method not in ("GET", "POST") or (method == "POST" and not operation.get("requestBody")):
        parts.append(f"-X {method}")
    if {} not in operation["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    content = operation.get("requestBody", {}).get("content", {})
    if "example" in content.get(JSON, {}):
        parts.append("-H 'Content-Type: application/json'")
        data = json.dumps(content[JSON]["example"]).replace("'", "'\\''")
        parts.append(f"-d '{data}'")
    for field in fields:
        if field.place == "form" and field.is_required:
            value = "@FILE" if "file" in field.type else field.name.upper()
            parts.append(f"-F {field.name}={value}")
    filled = re.sub(r"\{(\w+)(?::path)?\}", lambda match: match[1].upper(), path)
    query = "&".join(
        f"{field.name}={field.name.upper()}"
        for field in fields
        if field.place == "query" and field.is_required
    )
    parts.append(f'"$URL{filled}?{query}"' if query else f"$URL{filled}")
    return " ".join(parts)


def add_reference_page(app: FastAPI, router: APIRouter, web: Web) -> None:
    """Add the page."""
    load = cache(lambda: make_reference(app.openapi()))

    @router.get("/docs")
    async def reference(request: Request) -> Response:
        """Every route of the HTTP API."""
        session = await web.session(request)
        return web.public_page(
            request, "reference.html", session, has_script=True, reference=load()
        )
