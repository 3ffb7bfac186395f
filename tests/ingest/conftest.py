"""One door for every test that asks."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.memory import MemoryLog
from tests.ingest.door import Door, opened
from tests.ingest.holders import role, token
from tests.ingest.logins import Doorway
from tests.ingest.logins import opened as ways_in


@pytest.fixture
async def door(postgres_dsn: str) -> AsyncIterator[Door]:
    """ingest over an empty log in memory, with one problem."""
    async with opened(postgres_dsn, MemoryLog()) as found:
        yield found


@pytest.fixture
async def strict(postgres_dsn: str) -> AsyncIterator[Door]:
    """A door where no name is believed, with the problem copy of the author ann."""
    async with opened(postgres_dsn, MemoryLog(), are_names_believed=False) as door:
        await role(door, "ann", "creator")
        ann = await token(door, "ann", "author", "account")
        answer = await door.publish(headers=ann)
        assert answer.status_code == 201, answer.text
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
