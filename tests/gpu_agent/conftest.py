"""A world for an agent of one test, in which a supervisor is warm already."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness.pool import HarnessPool
from tests.gpu_agent.world import World


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def supervisors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HarnessPool]:
    """Supervisors for the agents of a file, one after the other; the second starts when needed."""
    async with HarnessPool(2, state=str(tmp_path_factory.mktemp("state"))) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="session")
async def world(tmp_path: Path, supervisors: HarnessPool) -> AsyncIterator[World]:
    """A log, blobs and a bus in memory, a folder, and somebody who hears heartbeats and progress.

    A supervisor is warm, though the test before may have ended it with a run.
    """
    async with supervisors.lend():
        created = World(tmp_path / "agent", supervisors)
    listening = [
        asyncio.create_task(created.listen()),
        asyncio.create_task(created.listen_to_progress()),
    ]
    yield created
    for task in listening:
        task.cancel()
    await created.close()
