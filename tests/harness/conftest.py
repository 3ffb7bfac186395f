"""What the tests of the harness are given."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .host import Host, Warm

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


@pytest.fixture
def torch() -> Any:
    """The library, looked up."""
    return importlib.import_module("torch")
