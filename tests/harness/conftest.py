"""What the tests of the harness are given."""

from pathlib import Path

import pytest

from tests.support.harness import Host, Warm

collect_ignore = ["problem"]


@pytest.fixture
def host(tmp_path: Path, warm: Warm) -> Host:
    """Where small submissions meet a small problem."""
    return Host(tmp_path, warm)
