"""The worker's environment, as far as it is decided after its box was built."""

import os
from collections.abc import Mapping


def add(environment: Mapping[str, str]) -> None:
    """Adds to what the box was given."""
    os.environ.update(environment)
