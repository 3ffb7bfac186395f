"""`warpboard up` of a platform that believes no names: everyone needs a token, as on the web."""

from dataclasses import replace

from warpboard.context import AppContext, create_context
from warpboard.terminal.program import Program

OVERRIDES = {"WARPBOARD_INGEST_NAMES_BELIEVED": "false"}


def strict_desk() -> AppContext:
    """Return what the commands have at hand, with a strict platform."""
    return replace(create_context(), overrides=OVERRIDES)


if __name__ == "__main__":
    Program(strict_desk)(prog_name="warpboard")
