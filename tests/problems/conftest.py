"""What the tests of checks of problems are given."""

import pytest

from tests.problems.checked import Inspector
from tests.support.harness import Warm


@pytest.fixture
def inspector(warm: Warm) -> Inspector:
    """The warm harness, looking at problems' own code."""
    return Inspector(warm.runner, warm.harness)
