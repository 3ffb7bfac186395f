"""`warpboard up` of a platform that believes no names: everyone needs a token, as on the web."""

import os
from dataclasses import replace

from warpboard.__main__ import LocalMachine, desk
from warpboard.terminal.desk import Desk
from warpboard.terminal.group import commands

OVERRIDES = {"WARPBOARD_INGEST_NAMES_BELIEVED": "false"}


def strict_desk() -> Desk:
    """Return what the commands have at hand, with a strict platform."""
    return replace(desk(), machine=LocalMachine(os.environ, OVERRIDES))


if __name__ == "__main__":
    commands(strict_desk)(prog_name="warpboard")
