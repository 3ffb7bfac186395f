"""What is answered anywhere in these tests, held against the OpenAPI document."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import httpx
import jsonschema_rs

JSON = "application/json"
REFERENCE = re.compile(r'"#/components/schemas/([^"]+)"')


@dataclass
class Document:
    """An OpenAPI document that answers are held against."""

    said: Mapping[str, Any]
    _validators: dict[tuple[str, str, int], Any] = field(default_factory=dict)

    def check(self, route: tuple[str, str], status: int, media: str, body: bytes) -> None:
        """Fail for a body in JSON that is none of those which the document tells of.

        A route that the document does not have is another test's matter.
        """
        method, path = route
        template = self.template(path.partition("?")[0])
        if template is None or media.partition(";")[0] != JSON:
            return
        key = (method.lower(), template, status)
        if key not in self._validators:
            self._validators[key] = self._validator(*key)
        validator = self._validators[key]
        if validator is None:
            return
        errors = validator.iter_errors(json.loads(body))
        told = [f"{list(error.instance_path)}: {error.message}" for error in errors]
        assert not told, f"{method} {path} is answered {status}, and not as documented: {told[:5]}"

    def template(self, path: str) -> str | None:
        """Which of the document's paths a path is; the one with the fewest names in braces."""
        plain = re.sub("/{2,}", "/", path).rstrip("/") or "/"
        found = [one for one, pattern in self._patterns if pattern.fullmatch(plain)]
        return min(found, key=lambda one: one.count("{"), default=None)

    def schema(self, method: str, template: str, status: int) -> Mapping[str, Any] | None:
        """What is answered with a status as JSON; None if the document does not say."""
        operation = self.said["paths"][template].get(method)
        response = operation and operation["responses"].get(str(status))
        found: Mapping[str, Any] | None = response and response.get("content", {}).get(
            JSON, {}
        ).get("schema")
        return found

    def validator(self, schema: Mapping[str, Any]) -> Any:
        """What finds out whether a value has a schema of the document."""
        whole = {**schema, "components": {"schemas": self._needed(schema)}}
        return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)

    def _needed(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a schema refers to, directly or not: to compile all takes 4 ms each time."""
        found: dict[str, Any] = {}
        waiting = [schema]
        while waiting:
            for name in REFERENCE.findall(json.dumps(waiting.pop())):
                if name not in found:
                    found[name] = self.said["components"]["schemas"][name]
                    waiting.append(found[name])
        return found

    def _validator(self, method: str, template: str, status: int) -> Any | None:
        if self.said["paths"][template].get(method) is None:
            return None
        schema = self.schema(method, template, status)
        where = f"{method.upper()} {template}"
        assert schema is not None, f"{where} is answered {status}, which the document does not say"
        return self.validator(schema)

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        return [
            (one, re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one))))
            for one in self.said["paths"]
        ]


def watch(http: httpx.AsyncClient, document: Document) -> None:
    """Hold all that a client is answered against a document."""

    async def check(answer: httpx.Response) -> None:
        media = answer.headers.get("content-type", "")
        if not media.startswith(JSON):
            return
        await answer.aread()
        request = answer.request
        route = request.method, request.url.path
        document.check(route, answer.status_code, media, answer.content)

    http.event_hooks["response"].append(check)


class Found(NamedTuple):
    """How many requests were made at random, whether all was well, and all that was printed."""

    cases: int
    is_well: bool
    text: str
