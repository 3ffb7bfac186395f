"""The first thing that runs: from here on Ctrl-C is an end like any other."""

import os
import sys


def main() -> None:
    """Load the command line, which takes a moment, and run it."""
    try:
        from warpboard.__main__ import main as command

        command()
    except KeyboardInterrupt:
        sys.stderr.write("warpboard: interrupted\n")
        sys.stderr.flush()
        # Whatever was half loaded is not to say anything more.
        os._exit(130)
