"""One town for all tests of who gets in where."""

from collections.abc import Iterator

import pytest

from shared.errors import Failed
from shared.servers import nats, postgresql
from tests.access.town import Town, founded


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A platform with everybody in it."""
    try:
        nats.binary()
        postgresql.binaries()
    except Failed as failed:
        pytest.skip(str(failed))
    with founded(tmp_path_factory.mktemp("town")) as found:
        yield found
