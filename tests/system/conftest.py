"""Platforms for the system tests: one that all share, and one's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import Failed
from shared.servers import nats, postgresql
from shared.servers.cluster import NatsCluster
from tests.system.people import Person, add_problem
from tests.system.running import ROOT, Running


def _need_servers() -> None:
    try:
        nats.binary()
        postgresql.binaries()
    except Failed as failed:
        pytest.skip(str(failed))


@pytest.fixture(scope="session")
def servers() -> None:
    """Skips where there is no nats-server or no Postgres."""
    _need_servers()


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A platform with the problem identity, shared by all tests that leave it running."""
    _need_servers()
    running = Running(tmp_path_factory.mktemp("platform") / "home")
    try:
        running.up()
        add_problem(running.url, ROOT / "problems" / "identity")
        yield running
    finally:
        if running.process is not None and running.process.poll() is None:
            running.stop()
    assert running.left() == []


@pytest.fixture
def own_platform(tmp_path: Path) -> Iterator[Running]:
    """A platform for one test, not started yet."""
    _need_servers()
    running = Running(tmp_path / "home")
    try:
        yield running
    finally:
        if running.process is not None and running.process.poll() is None:
            running.stop()


@pytest.fixture
def ada(platform: Running) -> Iterator[Person]:
    """A participant of the shared platform."""
    with Person(platform.url, "ada") as person:
        yield person


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    """Three servers that wait for their streams."""
    try:
        nats.binary()
    except Failed as failed:
        pytest.skip(str(failed))
    running = NatsCluster(tmp_path / "cluster")
    try:
        running.start()
        yield running
    finally:
        running.stop()
