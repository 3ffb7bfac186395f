"""Fixtures: doors with and without believed names, logins, and the whole application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from ingest.http.document import read_paths
from tests.ingest.logins import LoginHarness, open_logins
from tests.ingest.ways import Ways, open_ways
from tests.support.documents import Document, watch
from tests.support.door import Door, opened
from tests.support.holders import role, token
from tests.support.memory import MemoryLog

# Opening a door takes 70 ms. Tests that change nothing share one, and its event loop.
shares_a_door = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """The OpenAPI document of ingest's own routes, once a door has built it."""
    return []


def check_responses(door: Door, documents: list[Document]) -> Door:
    """Check every response of a door against the OpenAPI document."""
    if not documents:
        openapi = door.app.openapi()
        reads = read_paths()
        own = {
            path: {
                method: operation
                for method, operation in operations.items()
                if method not in reads[path]
            }
            if path in reads
            else operations
            for path, operations in openapi["paths"].items()
        }
        documents.append(Document(openapi | {"paths": own}))
    watch(door.http, documents[0])
    return door


@pytest.fixture
async def door(documents: list[Document]) -> AsyncIterator[Door]:
    """A door over an empty log in memory, with one problem."""
    async with opened(MemoryLog()) as opened_door:
        yield check_responses(opened_door, documents)


@pytest.fixture
async def strict(documents: list[Document]) -> AsyncIterator[Door]:
    """A door where names are not believed, with the problem copy of the author ann."""
    async with open_strict_door(documents) as door:
        yield door


@asynccontextmanager
async def open_strict_door(documents: list[Document]) -> AsyncIterator[Door]:
    """The same as a context manager."""
    async with opened(MemoryLog(), are_names_believed=False) as door:
        check_responses(door, documents)
        await role(door, "ann", "creator")
        ann = await token(door, "ann", "author", "account")
        answer = await door.publish(headers=ann)
        assert answer.status_code == 201, answer.text
        yield door


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_door(documents: list[Document]) -> AsyncIterator[Door]:
    """A door shared by all tests of a file that change nothing."""
    async with opened(MemoryLog()) as opened_door:
        yield check_responses(opened_door, documents)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_strict(documents: list[Document]) -> AsyncIterator[Door]:
    """A strict door shared by all tests of a file that change nothing."""
    async with open_strict_door(documents) as door:
        yield door


@pytest.fixture
async def ways(postgres_dsn: str) -> AsyncIterator[Ways]:
    """The whole application with every kind of caller."""
    async with open_ways(postgres_dsn) as opened_ways:
        yield opened_ways


@pytest.fixture
async def doorway(postgres_dsn: str) -> AsyncIterator[LoginHarness]:
    """The logins, without participants."""
    async with open_logins(postgres_dsn) as opened_doorway:
        yield opened_doorway


@pytest.fixture
async def browser(doorway: LoginHarness) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without cookies."""
    async with doorway.browser() as opened_browser:
        yield opened_browser


@pytest.fixture
async def program(doorway: LoginHarness) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of a program."""
    async with doorway.browser() as opened_program:
        yield opened_program
