"""Checks bots against Discord's documents: the OpenAPI document and the gateway's schema."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
from jsonschema_rs import ValidationError

from discord_sim.shapes import Json, Problem

TEXT_MAX = 160
UNIONS = ("anyOf", "oneOf")
CHOICES = ("enum", "const")
NUMBER = re.compile("-?[0-9]+")
JSON = "application/json"
METHODS = ("get", "post", "put", "patch", "delete")
SCHEMAS = "#/components/schemas/"
REFERENCE = re.compile('"#/(?:components/schemas|definitions)/([^"/]+)')
# Fields that discord.py sends although the document does not have them: commands' nsfw, embeds'
# flags, tts on edits, a post's type, partial emojis' animated, whole attachments on edits.
SENT_BY_LIBRARY = frozenset(
    {"nsfw", "flags", "tts", "type", "animated", "size", "url", "proxy_url", "content_type"}
)
# Corrections of the document, according to Discord's other pages or to what every bot sends.
CORRECTIONS: Json = {
    # Ids are accepted as integers too: discord.py numbers its new attachments 0, 1, 2.
    "SnowflakeType": {
        "anyOf": [
            {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"},
            {"type": "integer", "minimum": 0},
        ]
    },
    # Media channels, 16, are on Discord's page on channels; discord.py offers them with forums.
    "ChannelTypes": {"type": "integer", "enum": [*range(6), *range(10, 17)]},
    # Inner errors carry names, not numbers, as Discord's page on error messages shows.
    "InnerErrors": {
        "type": "object",
        "properties": {
            "_errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["code", "message"],
                    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                },
            }
        },
        "additionalProperties": False,
        "required": ["_errors"],
    },
}
SENT_BY_BOT = "SEND"
# The definitions of interactions by type.
KINDS = {2: "CHAT_INPUT", 3: "COMPONENT", 4: "AUTOCOMPLETE", 5: "MODAL"}


def explain_errors(
    errors: Iterable[ValidationError], *, takes_text: bool = False
) -> Iterator[Problem]:
    """Yield the problems at the deepest known paths.

    `takes_text` accepts "5" for 5 as Discord does, although its document does not say so.
    """
    for error in errors:
        members: list[list[ValidationError]] = getattr(error.kind, "context", [])
        rule, value = error.kind.name, error.kind.value
        if rule in UNIONS and members:
            # The property `type` tells which member of a union an object is.
            intended = min(members, key=lambda parts: (sum(map(_is_other_kind, parts)), len(parts)))
            yield from explain_errors(intended, takes_text=takes_text)
        elif not (takes_text and _is_number_as_text(error)):
            rule = rule if isinstance(value, dict | list) else f"{rule}={value}"
            yield Problem(tuple(error.instance_path), _shorten(error.message), rule)


def _is_number_as_text(error: ValidationError) -> bool:
    """Whether the value is an integer as text, as discord.py sends permissions."""
    types: Any = getattr(error.kind, "types", [])
    value = error.instance
    return "integer" in types and isinstance(value, str) and NUMBER.fullmatch(value) is not None


def _is_other_kind(error: ValidationError) -> bool:
    rule, path = error.kind.name, error.instance_path
    # If `type` itself is a union, its own members report the same error again.
    nested: list[list[ValidationError]] = getattr(error.kind, "context", [])
    types: Any = getattr(error.kind, "types", [])
    allows_only_null = rule == "type" and not nested and list(types) == ["null"]
    return allows_only_null or (rule in CHOICES and path[-1:] == ["type"])


def _shorten(text: str) -> str:
    half = TEXT_MAX // 2
    return text if len(text) <= TEXT_MAX else f"{text[:half]} … {text[-half:]}"


@dataclass(frozen=True)
class OperationSchema:
    """An operation of the document."""

    id: str
    method: str
    template: str
    definition: Json
    parameters: list[Json]

    def body(self) -> Json | None:
        """Return the schema of the request body, if there is one."""
        content = self.definition.get("requestBody", {}).get("content", {})
        media = content.get(JSON) or content.get("multipart/form-data") or {}
        schema: Json | None = media.get("schema")
        return schema


@dataclass(frozen=True)
class RequestContent:
    """The parts of a request that the document describes.

    `branch` names the intended member of a union: a union of objects whose fields are all
    optional would accept nearly everything.
    """

    operation: str
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    branch: str | None = None


class OpenApiDocument:
    """The document; its validators are created when they are first needed."""

    def __init__(self, document: Json, *, is_closed: bool = False) -> None:
        self._document = document
        schemas: Json = {**document["components"]["schemas"], **CORRECTIONS}
        if is_closed:
            schemas = {name: _close(schema) for name, schema in schemas.items()}
        self._components: Json = {**document["components"], "schemas": schemas}
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self.operations = {
            operation["operationId"]: OperationSchema(
                operation["operationId"],
                method.upper(),
                template,
                operation,
                [*item.get("parameters", []), *(operation.get("parameters") or [])],
            )
            for template, item in document["paths"].items()
            for method, operation in item.items()
            if method in METHODS
        }

    @classmethod
    def read(cls, path: Path) -> "OpenApiDocument":
        """Read the document from a file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    @cached_property
    def _strict(self) -> "OpenApiDocument":
        return OpenApiDocument(self._document, is_closed=True)

    def find_operation(self, method: str, path: str) -> str | None:
        """Return the operationId of a request, if the document has one."""
        for operation in self.operations.values():
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(operation.template))
            if operation.method == method and re.fullmatch(pattern, path):
                return operation.id
        return None

    def check_request(self, content: RequestContent) -> list[Problem]:
        """Return the problems of a request."""
        operation = self.operations[content.operation]
        problems = [
            problem
            for parameter in operation.parameters
            for problem in self._check_parameter(parameter, content)
        ]
        schema = operation.body()
        if schema is None:
            return problems
        if content.body is None:
            if operation.definition["requestBody"].get("required", False):
                problems.append(Problem((), "a body is required", "required"))
            return problems
        return problems + self.check(_select_branch(schema, content), content.body, takes_text=True)

    def lint_request(self, content: RequestContent) -> set[str]:
        """Return the unknown fields of a body as `operation: field`, but not discord.py's own."""
        schema = self.operations[content.operation].body()
        if schema is None or content.body is None:
            return set()
        problems = self._strict.check(_select_branch(schema, content), content.body)
        messages = [it.message for it in problems if it.rule.startswith("additionalProperties")]
        names = {name for message in messages for name in re.findall(r"'(\w+)'", message)}
        return {f"{content.operation}: {name}" for name in names - SENT_BY_LIBRARY}

    def check_answer(self, operation: str, status: int, body: Any) -> list[Problem]:
        """Return the problems of an answer."""
        responses = self.operations[operation].definition.get("responses", {})
        response = responses.get(str(status)) or responses.get(f"{status // 100}XX")
        if response is None:
            return [Problem((), f"status {status} is not documented for {operation}", "status")]
        if "$ref" in response:
            response = self._components["responses"][response["$ref"].rpartition("/")[2]]
        schema = response.get("content", {}).get(JSON, {}).get("schema")
        if schema is None:
            return [] if body is None else [Problem((), f"{status} has no body", "status")]
        return self.check(schema, body)

    def _check_parameter(self, parameter: Json, content: RequestContent) -> list[Problem]:
        name, location = parameter["name"], parameter["in"]
        values = {"path": content.path, "query": content.query}.get(location, {})
        if name in values:
            value = _parse_value(values[name], parameter["schema"])
            problems = self.check(parameter["schema"], value)
            return [problem.under(location, name) for problem in problems]
        if parameter.get("required") and location != "header":
            return [Problem((location, name), "is required", "required")]
        return []

    def check(self, schema: Json, value: Any, *, takes_text: bool = False) -> list[Problem]:
        """Check a value against a schema, which may refer to schemas of the document."""
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            needed = _find_references(schema, self._components["schemas"])
            complete = {**schema, "components": {"schemas": needed}}
            validator = jsonschema_rs.Draft202012Validator(complete, validate_formats=True)
            self._validators[key] = validator
        return list(explain_errors(self._validators[key].iter_errors(value), takes_text=takes_text))


def _find_references(schema: Json, schemas: Json) -> Json:
    """Return those of the schemas that one needs: a validator of all takes 14 ms to create."""
    needed: Json = {}
    waiting = [schema]
    while waiting:
        for encoded in REFERENCE.findall(json.dumps(waiting.pop())):
            name = unquote(encoded)
            if name not in needed:
                needed[name] = schemas[name]
                waiting.append(needed[name])
    return needed


def _select_branch(schema: Json, content: RequestContent) -> Json:
    return {"$ref": SCHEMAS + content.branch} if content.branch else schema


def _close(schema: Json) -> Json:
    if schema.get("type") == "object" and "properties" in schema and "allOf" not in schema:
        return {"additionalProperties": False, **schema}
    return schema


def _parse_value(raw: str, schema: Json) -> Any:
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    if "boolean" in types and raw.lower() in ("true", "false", "1", "0"):
        return raw.lower() in ("true", "1")
    if {"integer", "number"} & set(types) and re.fullmatch(r"-?\d+", raw):
        return int(raw)
    return raw.split(",") if "array" in types else raw


class GatewaySchema:
    """The schema with its events."""

    def __init__(self, schema: Json) -> None:
        self._definitions: Json = {
            name: {"type": "integer"}
            if "Flags" in name and set(CHOICES) & set(definition)
            else definition
            for name, definition in schema["definitions"].items()
        }
        self._events: Json = self._definitions["Gateway"]["properties"]
        self._validators: dict[str, jsonschema_rs.Draft7Validator] = {}
        self.seen: set[str] = set()
        self.unchecked: set[str] = set()

    @classmethod
    def read(cls, path: Path) -> "GatewaySchema":
        """Read the schema from a file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def check(self, event: str, data: Any) -> list[Problem]:
        """Return the problems of a payload; none for events that the schema does not have."""
        name = KINDS.get(data.get("type"), event) if event == "INTERACTION_CREATE" else event
        if name not in self._events:
            self.unchecked.add(name)
            return []
        self.seen.add(name)
        if name not in self._validators:
            needed = _find_references(self._events[name], self._definitions)
            schema = {**self._events[name], "definitions": needed}
            self._validators[name] = jsonschema_rs.Draft7Validator(schema)
        return list(explain_errors(self._validators[name].iter_errors(data)))


@dataclass(frozen=True)
class Validators:
    """The available documents; the rules in code always apply."""

    document: OpenApiDocument | None = None
    gateway: GatewaySchema | None = None
