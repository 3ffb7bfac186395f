"""What the tests of the harness are given."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from .host import Host

collect_ignore = ["problem"]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Where small submissions meet a small problem."""
    return Host(tmp_path)


@pytest.fixture
def torch() -> Any:
    """The library, looked up."""
    return importlib.import_module("torch")
