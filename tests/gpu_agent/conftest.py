"""A world for an agent of one test, in which the harness is warm already."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness.entry import Harness
from tests.gpu_agent.world import World


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def harness(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Harness]:
    """One harness for the agents of a file, one after the other."""
    async with Harness(state=str(tmp_path_factory.mktemp("state"))) as harness:
        yield harness


@pytest_asyncio.fixture(loop_scope="session")
async def world(tmp_path: Path, harness: Harness) -> AsyncIterator[World]:
    """A log, blobs and a bus in memory, a folder, and somebody who hears heartbeats and progress.

    The harness is warm, though the test before may have ended its supervisor with a run.
    """
    await harness.warm()
    created = World(tmp_path / "agent", harness)
    listening = [
        asyncio.create_task(created.listen()),
        asyncio.create_task(created.listen_to_progress()),
    ]
    yield created
    for task in listening:
        task.cancel()
    await created.close()
