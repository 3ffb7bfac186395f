"""The environment of a run: a library reads it once, when it first looks for a GPU."""

import os
from collections.abc import Mapping


def add(environment: Mapping[str, str]) -> None:
    """Adds to what the supervisor was given, for this process and all that it starts."""
    os.environ.update(environment)
