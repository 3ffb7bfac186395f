"""One warm harness for all checks of problems."""

from collections.abc import Iterator

import pytest

from tests.problems.checked import Inspector, inspecting


@pytest.fixture(scope="session")
def inspector() -> Iterator[Inspector]:
    """A harness that looks at problems' own code."""
    with inspecting() as inspector:
        yield inspector
