"""The only reader of the environment: what a process adds to it, or replaces."""

import os
from collections.abc import Mapping


def replace_environment(environment: Mapping[str, str]) -> None:
    """Make this the whole environment of this process and of what it starts."""
    os.environ.clear()
    os.environ.update(environment)


def add_environment(environment: Mapping[str, str]) -> None:
    """Set variables for this process and everything it starts."""
    os.environ.update(environment)
