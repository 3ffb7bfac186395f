"""A host for runs, in an empty folder."""

from pathlib import Path

import pytest

from .host import Host

collect_ignore = ["problem"]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Where small submissions meet a small problem."""
    return Host(tmp_path)
