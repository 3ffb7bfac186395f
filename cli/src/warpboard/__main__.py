"""The entry point of the command line: from here on Ctrl-C ends the program quietly."""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpboard.context import AppContext


def main() -> None:
    """Load the command line, which takes a moment, run it and end the process."""
    try:
        from warpboard.terminal.program import Program

        Program(_create_context)(prog_name="warpboard")
    except KeyboardInterrupt:
        sys.stderr.write("warpboard: interrupted\n")
        sys.stderr.flush()
        # Half-loaded modules must not print anything more.
        os._exit(130)


def _create_context() -> "AppContext":
    """Create what commands need; `--help` does without, because this loads everything."""
    from warpboard.context import create_context

    return create_context()


if __name__ == "__main__":
    main()
