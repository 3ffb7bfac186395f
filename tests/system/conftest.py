"""Platforms for the system tests: one that all share, and one's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import NatsCluster
from tests.support.people import Person
from tests.support.platform import Running
from tests.support.servers import skip_without_nats
from warpboard.processes.services import AGENT_ID


@pytest.fixture
def own_platform(servers: None, tmp_path: Path) -> Iterator[Running]:  # noqa: ARG001
    """A platform for one test, not started yet."""
    running = Running(tmp_path / "home")
    try:
        yield running
    finally:
        running.end()


@pytest.fixture
def ada(platform: Running) -> Iterator[Person]:
    """A participant of the shared platform."""
    with Person(platform.url, "ada") as person:
        yield person


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    """Three servers that wait for their streams."""
    skip_without_nats()
    running = NatsCluster(tmp_path / "cluster", [f"agent-{AGENT_ID}"])
    try:
        running.start()
        yield running
    finally:
        running.stop()
