"""Starts boxes by bubblewrap and exec: a second builder of the same walls, a fresh interpreter."""

from typing import NoReturn

from harness.sandbox.forked import Forked
from harness.sandbox.jail import Crew
from harness.sandbox.spec import Spec


class Executed(Forked):
    """The Launcher whose workers are started by exec, so that nothing of us is in their memory."""

    way = "exec"

    def __init__(self) -> None:
        super().__init__(imports=())


def begin(spec: Spec, crew: Crew) -> NoReturn:
    """The way into a box by exec, in the keeper's child. Errors: OSError."""
    raise OSError(f"not yet: {spec} {crew}")
