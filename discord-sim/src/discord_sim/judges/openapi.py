"""Requests and answers against Discord's own OpenAPI document."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema_rs

from discord_sim.errors import Problem
from discord_sim.judges.explain import problems
from discord_sim.shapes import Json

JSON = "application/json"
METHODS = ("get", "post", "put", "patch", "delete")
SCHEMAS = "#/components/schemas/"

# What discord.py itself sends and the document does not have: commands' nsfw, embeds' flags, tts
# where no message is new, a post's type, partial emojis' animated, whole attachments on edits.
SENT_BY_LIBRARY = frozenset(
    {"nsfw", "flags", "tts", "type", "animated", "size", "url", "proxy_url", "content_type"}
)

# Where the document errs, by Discord's other words or by what every bot sends.
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


@dataclass(frozen=True)
class Described:
    """An operation as the document has it."""

    id: str
    method: str
    template: str
    said: Json
    parameters: list[Json]

    def body(self) -> Json | None:
        """The schema of what is sent, if anything is."""
        content = self.said.get("requestBody", {}).get("content", {})
        media = content.get(JSON) or content.get("multipart/form-data") or {}
        schema: Json | None = media.get("schema")
        return schema


@dataclass(frozen=True)
class Asked:
    """A request, as far as the document speaks of it.

    `branch` names the member of a union that is meant: a union of objects whose fields are all
    optional would let nearly everything pass.
    """

    operation: str
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    branch: str | None = None


class Document:
    """The document, read once; its validators are made when they are first needed."""

    def __init__(self, said: Json, *, is_closed: bool = False) -> None:
        """A document with our corrections; closed, its objects allow no field they do not name."""
        self._said = said
        schemas: Json = {**said["components"]["schemas"], **CORRECTIONS}
        if is_closed:
            schemas = {name: _closed(schema) for name, schema in schemas.items()}
        self._components: Json = {**said["components"], "schemas": schemas}
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self.operations = {one.id: one for one in _operations(said)}

    @classmethod
    def read(cls, path: Path) -> "Document":
        """The document in a file."""
        return cls(json.loads(path.read_text(encoding="utf-8")))

    @cached_property
    def _strict(self) -> "Document":
        return Document(self._said, is_closed=True)

    def knows(self, method: str, path: str) -> str | None:
        """The operationId of a request, if there is such a thing."""
        for one in self.operations.values():
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.template))
            if one.method == method and re.fullmatch(pattern, path):
                return one.id
        return None

    def check_request(self, asked: Asked) -> list[Problem]:
        """What is wrong with a request."""
        operation = self.operations[asked.operation]
        found = [one for said in operation.parameters for one in self._parameter(said, asked)]
        schema = operation.body()
        if schema is None:
            return found
        if asked.body is None:
            is_needed = operation.said["requestBody"].get("required", False)
            return [*found, *([Problem((), "a body is required", "required")] if is_needed else [])]
        return found + self.check(_branch(schema, asked), asked.body, takes_text=True)

    def lint_request(self, asked: Asked) -> set[str]:
        """Fields of a body that the document does not know, each as `operation: field`.

        Those that discord.py itself sends are left out.
        """
        schema = self.operations[asked.operation].body()
        if schema is None or asked.body is None:
            return set()
        found = self._strict.check(_branch(schema, asked), asked.body)
        unknown = [one for one in found if one.rule.startswith("additionalProperties")]
        names = {name for one in unknown for name in re.findall(r"'(\w+)'", one.message)}
        return {f"{asked.operation}: {name}" for name in names - SENT_BY_LIBRARY}

    def check_answer(self, operation: str, status: int, body: Any) -> list[Problem]:
        """What is wrong with an answer."""
        responses = self.operations[operation].said.get("responses", {})
        said = responses.get(str(status)) or responses.get(f"{status // 100}XX")
        if said is None:
            return [Problem((), f"status {status} is not documented for {operation}", "status")]
        if "$ref" in said:
            said = self._components["responses"][said["$ref"].rpartition("/")[2]]
        schema = said.get("content", {}).get(JSON, {}).get("schema")
        if schema is None:
            return [] if body is None else [Problem((), f"{status} has no body", "status")]
        return self.check(schema, body)

    def _parameter(self, said: Json, asked: Asked) -> list[Problem]:
        name, where = said["name"], said["in"]
        source = {"path": asked.path, "query": asked.query}.get(where, {})
        if name in source:
            value = _read(source[name], said["schema"])
            return [one.under(where, name) for one in self.check(said["schema"], value)]
        if said.get("required") and where != "header":
            return [Problem((where, name), "is required", "required")]
        return []

    def check(self, schema: Json, value: Any, *, takes_text: bool = False) -> list[Problem]:
        """What is wrong with a value of a schema, which may refer to the document's."""
        key = json.dumps(schema, sort_keys=True)
        if key not in self._validators:
            whole = {**schema, "components": self._components}
            made = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
            self._validators[key] = made
        return problems(self._validators[key].iter_errors(value), takes_text=takes_text)


def _operations(said: Json) -> list[Described]:
    return [
        Described(
            operation["operationId"],
            method.upper(),
            template,
            operation,
            [*item.get("parameters", []), *(operation.get("parameters") or [])],
        )
        for template, item in said["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def _branch(schema: Json, asked: Asked) -> Json:
    return {"$ref": SCHEMAS + asked.branch} if asked.branch else schema


def _closed(schema: Json) -> Json:
    if schema.get("type") == "object" and "properties" in schema and "allOf" not in schema:
        return {"additionalProperties": False, **schema}
    return schema


def _read(raw: str, schema: Json) -> Any:
    """A parameter's text as the value that it stands for."""
    types = schema.get("type")
    types = types if isinstance(types, list) else [types]
    if "boolean" in types and raw.lower() in ("true", "false", "1", "0"):
        return raw.lower() in ("true", "1")
    if {"integer", "number"} & set(types) and re.fullmatch(r"-?\d+", raw):
        return int(raw)
    return raw.split(",") if "array" in types else raw
