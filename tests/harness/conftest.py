"""What the tests of the harness are given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import Host, Warm

collect_ignore = ["problem"]


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """A harness that stays warm from test to test."""
    one = Warm()
    yield one
    one.close()


@pytest.fixture
def host(tmp_path: Path, warm: Warm) -> Host:
    """Where small submissions meet a small problem."""
    return Host(tmp_path, warm)
