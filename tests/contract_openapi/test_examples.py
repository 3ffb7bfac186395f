"""The OpenAPI document agrees with itself: its examples are what its schemas say."""

from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.documents import Document
from tests.support.door import opened
from tests.support.memory import MemoryLog

pytestmark = pytest.mark.asyncio(loop_scope="module")


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def said() -> Any:
    """The document of the API."""
    async with opened(MemoryLog()) as door:
        return (await door.http.get("/v1/openapi.json")).json()


async def test_each_example_has_its_schema(said: Any) -> None:
    document = Document(said)
    found = list(examples(document.said))
    assert len(found) > 300
    wrong = [
        f"{where}: {error.message}"
        for where, schema, example in found
        for error in document.validator(schema).iter_errors(example)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.feature("N22")
async def test_each_operation_says_all_of_what_it_answers(said: Any) -> None:
    open_ones = []
    for path, operations in said["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                contents = response.get("content", {})
                if not contents or not all(one.get("schema") for one in contents.values()):
                    open_ones.append(f"{method.upper()} {path}: {status}")
    assert not open_ones, "\n".join(open_ones)
