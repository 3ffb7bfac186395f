"""The environment of a process that is to know nothing of ours: made from nothing."""

import os
from collections.abc import Mapping


def replace_environment(environment: Mapping[str, str]) -> None:
    """Makes this the whole environment of this process and of what it starts."""
    os.environ.clear()
    os.environ.update(environment)
