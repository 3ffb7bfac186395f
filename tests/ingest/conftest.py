"""One door for every test that asks."""

from collections.abc import AsyncIterator

import pytest

from shared.memory import MemoryLog
from tests.ingest.door import Door, opened


@pytest.fixture
async def door(postgres_dsn: str) -> AsyncIterator[Door]:
    """ingest over an empty log in memory, with one problem."""
    async with opened(postgres_dsn, MemoryLog()) as found:
        yield found
