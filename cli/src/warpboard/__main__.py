"""The entry point of the command line: from here on Ctrl-C ends the program quietly."""

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpboard.context import AppContext


def main() -> None:
    """Load the command line, which takes a moment, run it and end the process."""
    # It is ignored in the background of a script.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit_at_once)
    from warpboard.terminal.program import Program

    Program(_create_context)(prog_name="warpboard")


def _create_context() -> "AppContext":
    """Create what commands need; `--help` does without, because this loads everything."""
    from warpboard.context import create_context

    context = create_context()
    if signal.getsignal(signal.SIGINT) is _exit_at_once:
        # A command that is interrupted cleans up.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return context


def _exit_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process without an exception, which some callbacks of an import would ignore."""
    sys.stderr.write("warpboard: interrupted\n")
    sys.stderr.flush()
    # Half-loaded modules must not print anything more.
    os._exit(130)


if __name__ == "__main__":
    main()
