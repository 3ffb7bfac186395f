"""Fixtures for the tests of problem checks."""

import pytest

from tests.problems.inspection import Inspector
from tests.support.harness import Warm


@pytest.fixture
def inspector(warm: Warm) -> Inspector:
    """The warm harness, inspecting problems' own code."""
    return Inspector(warm.runner, warm.harness)
