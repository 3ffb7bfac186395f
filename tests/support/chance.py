"""Random histories: which of them which tier tries."""

import pytest


def seeds(count: int) -> pytest.MarkDecorator:
    """Let a test try this many seeds, the first in every run and the others in the long tier."""
    others = (pytest.param(seed, marks=pytest.mark.long) for seed in range(1, count))
    return pytest.mark.parametrize("seed", [0, *others])
