"""The part of the worker's environment that is decided after its box was built."""

import os
from collections.abc import Mapping


def add_environment(environment: Mapping[str, str]) -> None:
    """Add variables to the box's environment."""
    os.environ.update(environment)
