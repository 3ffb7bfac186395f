"""The environment of the worker, part of which is decided after its box was built."""

import os
from collections.abc import Mapping


def add_environment(environment: Mapping[str, str]) -> None:
    """Add variables to the box's environment."""
    os.environ.update(environment)


def home() -> str:
    """Return the box's scratch folder; "" outside of a box."""
    return os.environ.get("HOME", "")
