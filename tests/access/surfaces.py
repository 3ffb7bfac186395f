"""Every address of ingest that can be read, found from its routes, documents and links.

A new route or query parameter without a value here fails the test that lists them.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import FastAPI

from ingest.http import document
from tests.ingest.ways import leaf_routes

# A link is followed from so many responses for each route and set of query parameters.
LINKS_PER_SHAPE = 4
# A problem of the read side's own tests, whose files are not stored.
UNREADABLE = "/identity"
LINK = re.compile(r"""(?:href|src|action|data-[a-z]+)="(/[^"#]*)""")
# Nothing in these depends on what anybody submitted.
STATIC = (
    *("/static/", "/schemas/", "/cli", "/guide", "/docs", "/favicon", "/v1/openapi.json"),
    *("/llms.txt", "/logout"),
)


class Address(NamedTuple):
    """What is asked for: the template of its route, and the path with its query."""

    template: str
    url: str

    @property
    def shape(self) -> tuple[str, frozenset[str]]:
        """The route and the names of the query parameters."""
        query = parse_qsl(urlsplit(self.url).query)
        return self.template, frozenset(name for name, _ in query)


@dataclass
class Surfaces:
    """The addresses of an application, with values for the parameters of its routes.

    `paths` are the values of a path parameter by its name, or by the template and its name, as
    `/contests/{slug}#slug`; `prefixes` are those in templates with a prefix. `queries` are the
    values of a query parameter.
    """

    app: FastAPI
    paths: Mapping[str, Sequence[str]]
    queries: Mapping[str, Sequence[str]]
    prefixes: dict[str, dict[str, Sequence[str]]] = field(default_factory=dict)
    known: dict[Address, None] = field(default_factory=dict)
    shapes: Counter[tuple[str, frozenset[str]]] = field(default_factory=Counter)
    missing: set[str] = field(default_factory=set)

    def list_all(self) -> list[Address]:
        """Return every address that follows from the routes, and every link found so far.

        Raises AssertionError for a parameter without values.
        """
        for template in sorted(self._templates()):
            for path in self._fill(template):
                self.add(template, path)
                for query in self._queries(template):
                    self.add(template, f"{path}?{query}")
        assert not self.missing, f"give these parameters values: {sorted(self.missing)}"
        return list(self.known)

    def add_all(self, newer: "Surfaces") -> None:
        """Take the values of later surfaces, and what they learned."""
        self.paths = newer.paths
        self.known |= newer.known

    def learn(self, text: str) -> None:
        """Add the links of a page."""
        for link in LINK.findall(text):
            url = urlsplit(unescape(link))
            template = self._match(url.path)
            if template is not None and UNREADABLE not in url.path:
                whole = url.path + (f"?{url.query}" if url.query else "")
                self.learn_address(Address(template, whole))

    def learn_address(self, address: Address) -> None:
        """Add an address, unless there are enough of its shape."""
        if address not in self.known and self.shapes[address.shape] < LINKS_PER_SHAPE:
            self.shapes[address.shape] += 1
            self.known[address] = None

    def add(self, template: str, url: str) -> None:
        """Add an address."""
        self.known[Address(template, url)] = None

    def _templates(self) -> list[str]:
        return [
            route.path
            for route in leaf_routes(self.app.routes)
            if "GET" in (route.methods or ()) and not route.path.startswith(STATIC)
        ]

    def find_template(self, path: str) -> str:
        """Return the template of the route of a path. Raises AssertionError if there is none."""
        template = self._match(path)
        assert template is not None, path
        return template

    def _match(self, path: str) -> str | None:
        for template in self._templates():
            pattern = re.sub(r"\\{\w+(:path)?\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path):
                return template
        return None

    def _values(self, template: str, name: str) -> Sequence[str]:
        if values := self.paths.get(f"{template}#{name}"):
            return values
        for prefix, prefix_values in self.prefixes.get(name, {}).items():
            if template.startswith(prefix):
                return prefix_values
        if name not in self.paths:
            self.missing.add(f"{template}#{name}")
        return self.paths.get(name, ["nothing"])

    def _fill(self, template: str) -> Iterator[str]:
        names = re.findall(r"{(\w+)(?::path)?}", template)
        for values in product(*(self._values(template, name) for name in names)):
            quoted = {name: quote(value) for name, value in zip(names, values, strict=True)}
            yield re.sub(r"{(\w+)(?::path)?}", lambda match: quoted[match[1]], template)  # noqa: B023

    def _queries(self, template: str) -> Iterator[str]:
        """Each query parameter of a route, with each of its values."""
        for name in self._query_names(template):
            if name not in self.queries:
                self.missing.add(f"{template}?{name}")
            for value in self.queries.get(name, ()):
                yield urlencode({name: value})

    def _query_names(self, template: str) -> list[str]:
        operation = self._document().get(template, {}).get("get", {})
        return [
            parameter["name"]
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query"
        ]

    def _document(self) -> Mapping[str, Any]:
        paths: dict[str, Any] = dict(self.app.openapi()["paths"])
        return paths | _read_document()


@cache
def _read_document() -> dict[str, Any]:
    path = Path(document.__file__).parent / document.READS
    paths: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["paths"]
    return paths
