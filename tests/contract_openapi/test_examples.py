"""The OpenAPI document agrees with itself: its examples are what its schemas say."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.documents import Document
from tests.support.town import Town

pytestmark = [pytest.mark.server, pytest.mark.long]


def examples(said: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every example beside a schema, and every schema with one of its own."""
    if isinstance(said, list):
        for index, one in enumerate(said):
            yield from examples(one, f"{where}/{index}")
    elif isinstance(said, dict):
        if "example" in said and not isinstance(said.get("properties", {}).get("example"), dict):
            yield where, said.get("schema", said), said["example"]
        for key, one in said.items():
            if key != "example":
                yield from examples(one, f"{where}/{key}")


def told(town: Town) -> Any:
    """The document of a platform."""
    return httpx.get(f"{town.url}/v1/openapi.json", timeout=30).json()


def test_each_example_has_its_schema(town: Town) -> None:
    document = Document(told(town))
    found = list(examples(document.said))
    assert len(found) > 300
    wrong = [
        f"{where}: {error.message}"
        for where, schema, example in found
        for error in document.validator(schema).iter_errors(example)
    ]
    assert not wrong, "\n".join(wrong)


def test_each_operation_says_all_of_what_it_answers(town: Town) -> None:
    open_ones = []
    for path, said in told(town)["paths"].items():
        for method, operation in said.items():
            for status, response in operation["responses"].items():
                contents = response.get("content", {})
                if not contents or not all(one.get("schema") for one in contents.values()):
                    open_ones.append(f"{method.upper()} {path}: {status}")
    assert not open_ones, "\n".join(open_ones)
