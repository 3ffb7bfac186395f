"""Fixtures of the harness tests."""

from pathlib import Path

import pytest

from tests.support.harness import Host, Warm

collect_ignore = ["problem"]


@pytest.fixture
def host(tmp_path: Path, warm: Warm) -> Host:
    """A host that runs small submissions against a small problem."""
    return Host(tmp_path, warm)
