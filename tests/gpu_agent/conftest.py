"""A world for an agent of one test."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gpu_agent.world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A log, blobs and a bus in memory, a folder, and somebody who hears the heartbeats."""
    found = World(tmp_path / "agent")
    listening = asyncio.create_task(found.listen())
    yield found
    listening.cancel()
    await found.close()
