"""The trusted process: one request in, messages and one report out, a line each.

Its argument is the pid of the process that started it, with which it ends.
"""

import os
import sys
from typing import IO

from harness.messages import LINE_BYTES_MAX, Message, request_from_line, to_line
from harness.supervisor import keeper, run


def main() -> None:
    """Runs one request. An unforeseen error ends the process, which the entry reports."""
    scratch = keeper.guard(int(sys.argv[1]))
    channel = _channel()

    def tell(message: Message) -> None:
        channel.write(to_line(message))
        channel.flush()

    request = request_from_line(sys.stdin.readline(LINE_BYTES_MAX))
    tell(run.execute(request, scratch, tell))
    os._exit(0)


def _channel() -> IO[str]:
    """Where the entry listens. What the author's code prints must not get there."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return channel


if __name__ == "__main__":
    main()
