"""One nats-server and one Postgres for all tests that ask; a skip says what is missing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import Failed
from shared.servers import nats, postgresql
from shared.servers.nats import NatsServer
from shared.testing import postgres_database, postgres_server
from tests.support.servers import SharedDatabase, SharedNats


def pytest_configure() -> None:
    """Processes of tests meet Ctrl-C as a shell's do, even if the tests run in the background.

    What a shell puts there ignores SIGINT, and hands that on to all it starts.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _limit_s(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the longest limits come first, for whatever is begun last is waited for."""
    limits_s: dict[Path, float] = {}
    for item in items:
        limits_s[item.path] = max(limits_s.get(item.path, 0.0), _limit_s(item))
    items.sort(key=lambda item: (-limits_s[item.path], "system" not in item.path.parts))


def _need_nats() -> None:
    try:
        nats.binary()
    except Failed as failed:
        pytest.skip(str(failed))


@pytest.fixture(scope="session")
def shared_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedNats]:
    """The nats-server of all tests that do not stop it."""
    _need_nats()
    server = SharedNats(tmp_path_factory.mktemp("nats"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def nats_url(shared_nats: SharedNats) -> str:
    """An empty account on the shared nats-server."""
    return shared_nats.fresh_url()


@pytest.fixture
def own_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """An empty nats-server for a test that stops it or kills it."""
    _need_nats()
    server = NatsServer(tmp_path_factory.mktemp("own-nats"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_server_dsn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Postgres of all tests."""
    try:
        postgresql.binaries()
    except Failed as failed:
        pytest.skip(str(failed))
    with postgres_server(tmp_path_factory.mktemp("postgres")) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def shared_database(postgres_server_dsn: str) -> Iterator[SharedDatabase]:
    """The database that one test after the other has for itself."""
    with postgres_database(postgres_server_dsn) as dsn:
        database = SharedDatabase(dsn)
        yield database
        database.close()


@pytest.fixture
def postgres_dsn(shared_database: SharedDatabase) -> Iterator[str]:
    """A migrated database without rows, for one test."""
    yield shared_database.dsn
    shared_database.reset()
