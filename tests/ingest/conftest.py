"""One door for every test that asks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import pytest_asyncio

from ingest.http.document import read_paths
from shared.memory import MemoryLog
from tests.ingest.logins import Doorway
from tests.ingest.logins import opened as ways_in
from tests.support.documents import Document, watch
from tests.support.door import Door, opened
from tests.support.holders import role, token

# To make a door takes 70 ms. Tests that change nothing share one, and the loop it lives in.
shares_a_door = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """The document of ingest's own routes, once a door made it."""
    return []


def watched(door: Door, documents: list[Document]) -> Door:
    """A door that answers nothing but what its document says; the read side behind it is a toy."""
    if not documents:
        said = door.app.openapi()
        reads = read_paths()
        own = {
            path: {method: one for method, one in all_of_it.items() if method not in reads[path]}
            if path in reads
            else all_of_it
            for path, all_of_it in said["paths"].items()
        }
        documents.append(Document(said | {"paths": own}))
    watch(door.http, documents[0])
    return door


@pytest.fixture
async def door(documents: list[Document]) -> AsyncIterator[Door]:
    """ingest over an empty log in memory, with one problem."""
    async with opened(MemoryLog()) as found:
        yield watched(found, documents)


@pytest.fixture
async def strict(documents: list[Document]) -> AsyncIterator[Door]:
    """A door where no name is believed, with the problem copy of the author ann."""
    async with opened_strict(documents) as door:
        yield door


@asynccontextmanager
async def opened_strict(documents: list[Document]) -> AsyncIterator[Door]:
    """The same, for as long as it is needed."""
    async with opened(MemoryLog(), are_names_believed=False) as door:
        watched(door, documents)
        await role(door, "ann", "creator")
        ann = await token(door, "ann", "author", "account")
        answer = await door.publish(headers=ann)
        assert answer.status_code == 201, answer.text
        yield door


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_door(documents: list[Document]) -> AsyncIterator[Door]:
    """A door for all tests of a file that are refused, and so leave nothing behind."""
    async with opened(MemoryLog()) as found:
        yield watched(found, documents)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_strict(documents: list[Document]) -> AsyncIterator[Door]:
    """A strict door for the same."""
    async with opened_strict(documents) as door:
        yield door


@pytest.fixture
async def doorway(postgres_dsn: str) -> AsyncIterator[Doorway]:
    """The ways in, with nobody known."""
    async with ways_in(postgres_dsn) as found:
        yield found


@pytest.fixture
async def browser(doorway: Doorway) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that was never here."""
    async with doorway.browser() as opened_browser:
        yield opened_browser


@pytest.fixture
async def program(doorway: Doorway) -> AsyncIterator[httpx.AsyncClient]:
    """A program somewhere."""
    async with doorway.browser() as opened_program:
        yield opened_program
